package image

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"edgepod/wasmrt/atomicfile"
	"edgepod/wasmrt/image/remote"
	"edgepod/wasmrt/sandbox"
)

// Store holds imported images by their digest. Its methods may be called at the same time.
//
//	DIR/blobs/HEX      layers as they were fetched
//	DIR/partial/HEX    the beginning of one
//	DIR/modules/HEX    modules, stripped
//	DIR/names/HEX      the content of their "name" sections
//	DIR/debug/HEX      their sections for debuggers
//	DIR/roots/HEX/     the files of an image, by the digest of its manifest
//	DIR/images/HEX     what an image consists of, by its digest
//	DIR/refs/HEX       which image a reference means
//	DIR/users/NAME     see join
//	DIR/lock           see lockFile
//
// Everything appears under its name at once, by a rename, parts before what names them; HEX is a SHA-256, except for a
// reference of content.
type Store struct {
	cfg    Config
	log    *slog.Logger
	client *remote.Client
	user   *os.File
	busy   keyedLock

	mu   sync.Mutex
	memo map[string]memo // by source
	pins map[string]int  // layers of pulls that are going on
	// used are the images that the user's file names, with when each was last asked for.
	used map[string]time.Time
}

// memo remembers which digest a file had when it looked like this.
type memo struct {
	size    int64
	modTime time.Time
	digest  string
}

// The parts of the store's folder.
const (
	blobDir    = "blobs"
	partialDir = "partial"
	moduleDir  = "modules"
	nameDir    = "names"
	debugDir   = "debug"
	rootDir    = "roots"
	imageDir   = "images"
	refDir     = "refs"
	userDir    = "users"
	stagingDir = "staging"
	lockName   = "lock"
)

// Open returns the store in cfg.Dir.
func Open(cfg Config) (*Store, error) {
	if cfg.Dir == "" || cfg.Offered == nil {
		return nil, errors.New("open image store: its folder and the imports offered are not set")
	}
	cfg.Limits.complete()
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	direct := map[string]http.RoundTripper{}
	if cfg.Cluster != nil {
		direct[sandbox.ClusterRegistry] = cfg.Cluster
	}
	client, err := remote.New(remote.Config{Registries: cfg.Registries, Direct: direct, Stall: cfg.Limits.Stall, Pause: cfg.Limits.Pause})
	if err != nil {
		return nil, fmt.Errorf("open image store: %w", err)
	}
	for _, sub := range []string{blobDir, partialDir, moduleDir, nameDir, debugDir, rootDir, imageDir, refDir, userDir, stagingDir} {
		if err := os.MkdirAll(filepath.Join(cfg.Dir, sub), 0o700); err != nil {
			return nil, fmt.Errorf("open image store: %w", err)
		}
	}
	s := &Store{cfg: cfg, log: cfg.Log, client: client, memo: map[string]memo{}, used: map[string]time.Time{}, pins: map[string]int{}}
	if err := s.join(); err != nil {
		return nil, fmt.Errorf("open image store: %w", err)
	}
	return s, nil
}

func (s *Store) path(parts ...string) string {
	return filepath.Join(append([]string{s.cfg.Dir}, parts...)...)
}

// metaLimit is the most bytes of what is written down of an image or a reference.
const metaLimit = 4 << 20

// record is what is written down of an image, with the names of its files in the store.
type record struct {
	Entry
	NamesFile  string `json:"namesFile,omitempty"`
	DebugFile  string `json:"debugFile,omitempty"`
	RootFolder string `json:"rootFolder,omitempty"`
	// DiskSize is the number of bytes of all its files.
	DiskSize int64 `json:"diskSize,omitempty"`
	// Blobs are what was fetched for it, from which the rest can be made again.
	Blobs []string `json:"blobs,omitempty"`
}

func (r *record) addBlob(name string) {
	if !slices.Contains(r.Blobs, name) {
		r.Blobs = append(r.Blobs, name)
	}
}

// entry returns the entry with its paths.
func (s *Store) entry(r record) Entry {
	e := r.Entry
	e.ID, e.Path = e.Digest, s.path(moduleDir, e.Sum)
	if r.NamesFile != "" {
		e.NamesPath = s.path(nameDir, r.NamesFile)
	}
	if r.DebugFile != "" {
		e.DebugPath = s.path(debugDir, r.DebugFile)
	}
	if r.RootFolder != "" {
		e.Root = s.path(rootDir, r.RootFolder)
	}
	return e
}

// read returns what is written down of an image.
func (s *Store) read(name string) (record, error) {
	var r record
	err := atomicfile.ReadJSON(s.path(imageDir, name), &r, metaLimit)
	if err == nil && r.Digest != "sha256:"+name {
		err = fmt.Errorf("%s: %w: it is about another image", name, atomicfile.ErrCorrupt)
	}
	return r, err
}

// Get returns the image with this digest.
func (s *Store) Get(digest string) (Entry, bool) {
	name, ok := hexOf(digest)
	if !ok {
		return Entry{}, false
	}
	r, err := s.read(name)
	if err != nil {
		return Entry{}, false
	}
	e := s.entry(r)
	if info, err := os.Stat(e.Path); err != nil || !info.Mode().IsRegular() {
		return Entry{}, false
	}
	if e.Root != "" {
		if info, err := os.Stat(e.Root); err != nil || !info.IsDir() {
			return Entry{}, false
		}
	}
	for _, aside := range []*string{&e.NamesPath, &e.DebugPath} {
		if _, err := os.Stat(*aside); err != nil {
			*aside = "" // only back-traces are the poorer
		}
	}
	if !s.use(name) {
		return Entry{}, false
	}
	e.Cached = true
	return e, true
}

// Drop forgets an image, so that the next Resolve makes it anew, from what was fetched for it where that is sound: for one
// of whose files turned out to be damaged.
func (s *Store) Drop(digest string) error {
	name, ok := hexOf(digest)
	if !ok {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, m := range s.memo {
		if m.digest == digest {
			delete(s.memo, key)
		}
	}
	r, err := s.read(name)
	if err := os.Remove(s.path(imageDir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err != nil || r.RootFolder == "" {
		return nil
	}
	gone, err := s.putAside(s.path(rootDir, r.RootFolder))
	if err != nil {
		return err
	}
	return os.RemoveAll(gone)
}

// putAside takes a folder away at once, so that what is in it can go one by one: it is in the folder that is returned.
func (s *Store) putAside(dir string) (gone string, err error) {
	if gone, err = os.MkdirTemp(s.staging(), "gone-"); err != nil {
		return "", err
	}
	if err := os.Rename(dir, filepath.Join(gone, "dir")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	return gone, nil
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
