package image

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"edgepod/wasmrt/atomicfile"
	"edgepod/wasmrt/image/module"
)

// addModule checks and stores a module, and fills in what the record says of it.
func (s *Store) addModule(data []byte, r *record) error {
	slim, names, err := s.inspect(data)
	if err != nil {
		return err
	}
	if names != nil {
		r.NamesFile = sumOf(names)
		if err := atomicfile.Write(s.path(nameDir, r.NamesFile), names, 0o600, true); err != nil {
			return fmt.Errorf("store module: %w", err)
		}
	}
	r.Sum, r.ModuleSize = sumOf(slim), int64(len(slim))
	if err := atomicfile.Write(s.path(moduleDir, r.Sum), slim, 0o600, true); err != nil {
		return fmt.Errorf("store module: %w", err)
	}
	return nil
}

func sumOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// commit writes down an image whose parts are all stored.
func (s *Store) commit(r record) (Entry, error) {
	name, _ := hexOf(r.Digest)
	if err := atomicfile.WriteJSON(s.path(imageDir, name), r, true); err != nil {
		return Entry{}, fmt.Errorf("store image: %w", err)
	}
	return s.entry(r), nil
}

// inspect returns the slim module and its names, or a problem for the user.
func (s *Store) inspect(data []byte) (slim, names []byte, err error) {
	if what := sniff(data); what != "" {
		return nil, nil, problem(what)
	}
	m, err := module.Parse(data)
	if err != nil {
		return nil, nil, problem("it is a damaged WebAssembly module: " + err.Error())
	}
	if what := check(m, s.cfg.Offered); what != "" {
		return nil, nil, problem(what)
	}
	slim, names, err = module.Slim(data)
	if err != nil {
		return nil, nil, problem("it cannot run here: " + err.Error())
	}
	return slim, names, nil
}
