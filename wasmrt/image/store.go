package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"edgepod/wasmrt/atomicfile"
	"edgepod/wasmrt/image/module"
	"edgepod/wasmrt/sandbox"
)

// Store holds imported images by their digest. Its methods may be called at the same time.
type Store struct {
	cfg  Config
	mu   sync.Mutex
	memo map[string]memo // by source
}

// memo remembers which digest a file had when it looked like this.
type memo struct {
	size    int64
	modTime time.Time
	entry   Entry
}

// Open returns the store in cfg.Dir.
func Open(cfg Config) (*Store, error) {
	if cfg.Dir == "" || cfg.Offered == nil {
		return nil, errors.New("open image store: its folder and the imports offered are not set")
	}
	cfg.Limits.complete()
	for _, sub := range []string{blobDir, nameDir, metaDir, refDir} {
		if err := os.MkdirAll(filepath.Join(cfg.Dir, sub), 0o700); err != nil {
			return nil, fmt.Errorf("open image store: %w", err)
		}
	}
	return &Store{cfg: cfg, memo: map[string]memo{}}, nil
}

const (
	blobDir = "modules"
	nameDir = "names"
	metaDir = "meta"
	refDir  = "refs"
)

// Resolve returns the image that a reference names, importing it if the store lacks it. Files are looked at each time, so that a
// program that was built anew is the one that runs; where the file has gone, what was imported from it is used unless
// policy is Always. Errors that the user can mend are *sandbox.ImageError.
func (s *Store) Resolve(ctx context.Context, req sandbox.PullRequest) (Entry, error) {
	ref, policy := req.Ref, req.Policy
	if err := ctx.Err(); err != nil {
		return Entry{}, err
	}
	src, err := s.locate(ref)
	if err != nil {
		if policy != sandbox.PullAlways && errors.Is(err, fs.ErrNotExist) {
			if e, ok := s.remembered(ref); ok {
				return e, nil
			}
		}
		return Entry{}, imageError(ref, err)
	}
	defer src.close()
	if e, ok := s.recall(src); ok {
		return e, nil
	}
	data, err := src.read(s.cfg.Limits.Module)
	if err != nil {
		return Entry{}, imageError(ref, err)
	}
	e, err := s.add(data)
	if err != nil {
		return Entry{}, imageError(ref, err)
	}
	s.remember(ref, src, e)
	return e, nil
}

// Get returns the module with this digest.
func (s *Store) Get(digest string) (Entry, bool) {
	name, ok := hexOf(digest)
	if !ok {
		return Entry{}, false
	}
	var e Entry
	if err := atomicfile.ReadJSON(filepath.Join(s.cfg.Dir, metaDir, name), &e, 1<<16); err != nil || e.Digest != digest {
		return Entry{}, false
	}
	e.Path = filepath.Join(s.cfg.Dir, blobDir, name)
	if e.HasNames {
		e.NamesPath = filepath.Join(s.cfg.Dir, nameDir, name)
	}
	info, err := os.Stat(e.Path)
	if err != nil || !info.Mode().IsRegular() {
		return Entry{}, false
	}
	e.ID, e.Cached = e.Digest, true
	return e, true
}

// Drop forgets a module, so that the next Resolve imports it anew: for one whose file turned out to be damaged.
func (s *Store) Drop(digest string) error {
	name, ok := hexOf(digest)
	if !ok {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, m := range s.memo {
		if m.entry.Digest == digest {
			delete(s.memo, key)
		}
	}
	err := os.Remove(filepath.Join(s.cfg.Dir, metaDir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// add checks and stores a module.
func (s *Store) add(data []byte) (Entry, error) {
	sum := sha256.Sum256(data)
	name := hex.EncodeToString(sum[:])
	if e, ok := s.Get("sha256:" + name); ok {
		return e, nil
	}
	slim, names, err := s.inspect(data)
	if err != nil {
		return Entry{}, err
	}
	slimSum := sha256.Sum256(slim)
	e := Entry{
		Digest: "sha256:" + name, ID: "sha256:" + name, Size: int64(len(data)), Sum: hex.EncodeToString(slimSum[:]), ModuleSize: int64(len(slim)),
		Path: filepath.Join(s.cfg.Dir, blobDir, name), HasNames: names != nil,
	}
	if e.HasNames {
		e.NamesPath = filepath.Join(s.cfg.Dir, nameDir, name)
		if err := atomicfile.Write(e.NamesPath, names, 0o600, true); err != nil {
			return Entry{}, fmt.Errorf("store module: %w", err)
		}
	}
	if err := atomicfile.Write(e.Path, slim, 0o600, true); err != nil {
		return Entry{}, fmt.Errorf("store module: %w", err)
	}
	if err := atomicfile.WriteJSON(filepath.Join(s.cfg.Dir, metaDir, name), e, true); err != nil {
		return Entry{}, fmt.Errorf("store module: %w", err)
	}
	return e, nil
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

// reference is what refDir keeps of a reference.
type reference struct {
	Ref    string `json:"ref"`
	Digest string `json:"digest"`
}

func (s *Store) refPath(ref string) string {
	sum := sha256.Sum256([]byte(ref))
	return filepath.Join(s.cfg.Dir, refDir, hex.EncodeToString(sum[:]))
}

// remember keeps which digest ref had; that it is lost in a power cut does no harm.
func (s *Store) remember(ref string, src *source, e Entry) {
	var old reference
	if atomicfile.ReadJSON(s.refPath(ref), &old, 1<<16) != nil || old.Digest != e.Digest {
		// Without the file the module is only not found once its source has gone.
		_ = atomicfile.WriteJSON(s.refPath(ref), reference{Ref: ref, Digest: e.Digest}, false)
	}
	if src.stable() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.memo[src.key] = memo{size: src.size, modTime: src.modTime, entry: e}
	}
}

func (s *Store) remembered(ref string) (Entry, bool) {
	var r reference
	if err := atomicfile.ReadJSON(s.refPath(ref), &r, 1<<16); err != nil || r.Ref != ref {
		return Entry{}, false
	}
	return s.Get(r.Digest)
}

func (s *Store) recall(src *source) (Entry, bool) {
	s.mu.Lock()
	m, ok := s.memo[src.key]
	s.mu.Unlock()
	if !ok || m.size != src.size || !m.modTime.Equal(src.modTime) {
		return Entry{}, false
	}
	return s.Get(m.entry.Digest)
}

func hexOf(digest string) (string, bool) {
	const prefix = "sha256:"
	if len(digest) != len(prefix)+sha256.Size*2 || digest[:len(prefix)] != prefix {
		return "", false
	}
	if _, err := hex.DecodeString(digest[len(prefix):]); err != nil {
		return "", false
	}
	return digest[len(prefix):], true
}
