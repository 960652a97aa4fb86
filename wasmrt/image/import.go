package image

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"edgepod/wasmrt/atomicfile"
	"edgepod/wasmrt/image/inspect"
)

// maxNames is the largest "name" section that is kept for back-traces.
const maxNames = 64 << 20

// addModule checks a module, stores what runs and what explains its back-traces, and fills in what the record says of it.
// Nobody may change src meanwhile.
func (s *Store) addModule(src io.ReaderAt, size int64, r *record) error {
	if size > s.cfg.Limits.Module {
		return s.tooLarge()
	}
	src, m, err := inspect.Open(src, size)
	if err != nil {
		return err
	}
	if problems := s.world().Problems(m); len(problems) > 0 {
		return problems[0]
	}
	r.Language = m.Language()
	r.Sum, r.ModuleSize, err = s.keep(moduleDir, func(w io.Writer) error { return m.Slim(src, w) })
	if err != nil {
		return err
	}
	if names, ok := m.Custom("name"); ok && names.Size <= maxNames {
		r.NamesFile, _, err = s.keep(nameDir, func(w io.Writer) error {
			_, err := io.Copy(w, io.NewSectionReader(src, names.Offset, names.Size))
			return err
		})
		if err != nil {
			return err
		}
	}
	if m.HasDebug() {
		r.DebugFile, _, err = s.keep(debugDir, func(w io.Writer) error { return m.Debug(src, w) })
	}
	return err
}

func (s *Store) tooLarge() error {
	return problem(fmt.Sprintf("the module is larger than %d MiB", s.cfg.Limits.Module>>20))
}

// world is what modules find here.
func (s *Store) world() inspect.World {
	return inspect.World{Offered: s.cfg.Offered, Supported: s.cfg.Supported}
}

// keep stores what write writes under its SHA-256, in place of what may be there.
func (s *Store) keep(dir string, write func(io.Writer) error) (sum string, size int64, err error) {
	f, err := os.CreateTemp(s.staging(), "part-")
	if err != nil {
		return "", 0, fmt.Errorf("store module: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close(), os.Remove(f.Name()))
		}
	}()
	hash := sha256.New()
	if err := write(io.MultiWriter(f, hash)); err != nil {
		return "", 0, fmt.Errorf("store module: %w", err)
	}
	if size, err = f.Seek(0, io.SeekCurrent); err != nil {
		return "", 0, err
	}
	if err := f.Sync(); err != nil {
		return "", 0, fmt.Errorf("store module: %w", err)
	}
	sum = hex.EncodeToString(hash.Sum(nil))
	path := s.path(dir, sum)
	if err := os.Rename(f.Name(), path); err != nil {
		return "", 0, fmt.Errorf("store module: %w", err)
	}
	if err := f.Close(); err != nil {
		return "", 0, err
	}
	return sum, size, atomicfile.SyncDir(filepath.Dir(path))
}

// stage copies a stream into a file of the store that nobody else changes, and returns its digest without the kind. The
// caller closes the file, which is gone with that.
func (s *Store) stage(r io.Reader) (f *os.File, sum string, size int64, err error) {
	if f, err = os.CreateTemp(s.staging(), "copy-"); err != nil {
		return nil, "", 0, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, "", 0, errors.Join(err, f.Close())
	}
	hash := sha256.New()
	size, err = io.Copy(io.MultiWriter(f, hash), io.LimitReader(r, s.cfg.Limits.Module+1))
	if err == nil && size > s.cfg.Limits.Module {
		err = s.tooLarge()
	}
	if err != nil {
		return nil, "", 0, errors.Join(err, f.Close())
	}
	return f, hex.EncodeToString(hash.Sum(nil)), size, nil
}

// commit writes down an image whose parts are all stored.
func (s *Store) commit(r record) (Entry, error) {
	name, _ := hexOf(r.Digest)
	for _, part := range s.partsOf(r) {
		if info, err := os.Stat(part); err == nil && !info.IsDir() {
			r.DiskSize += info.Size()
		}
	}
	if err := atomicfile.WriteJSON(s.path(imageDir, name), r, true); err != nil {
		return Entry{}, fmt.Errorf("store image: %w", err)
	}
	return s.entry(r), nil
}

func sumOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
