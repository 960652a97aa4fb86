package image

import (
	"errors"
	"io/fs"
	"os"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// How long what belongs to no image may lie: parts of a pull that has not come to its end, and the beginnings of layers that
// may be resumed; both where there is room, and where there is none.
const (
	keepPart, keepPartial           = time.Hour, 24 * time.Hour
	keepPartTight, keepPartialTight = 2 * time.Minute, 10 * time.Minute
)

// sweep removes what belongs to no image, after a crash, or of a pull that was given up, and returns how many bytes that was.
// It is called under the lock that keeps others from putting an image together.
func (c *collection) sweep(tight bool) (size int64, err error) {
	s := c.s
	images, err := s.images()
	if err != nil {
		return 0, err
	}
	needed := s.pinned()
	for _, im := range images {
		for _, part := range im.parts {
			needed[part] = true
		}
	}
	part, begun := keepPart, keepPartial
	if tight {
		part, begun = keepPartTight, keepPartialTight
	}
	var errs []error
	for _, dir := range []string{moduleDir, nameDir, debugDir, rootDir, blobDir} {
		n, err := c.sweepDir(dir, needed, c.now.Add(-part), c.discard)
		size += n
		errs = append(errs, err)
	}
	n, err := c.sweepDir(partialDir, needed, c.now.Add(-begun), removeIdle)
	return size + n, errors.Join(append(errs, err)...)
}

func (c *collection) sweepDir(dir string, needed map[string]bool, before time.Time, remove func(string) (int64, error)) (size int64, err error) {
	names, err := listNames(c.s.path(dir))
	if err != nil {
		return 0, err
	}
	var errs []error
	for _, name := range names {
		path := c.s.path(dir, name)
		info, err := os.Lstat(path)
		if err != nil || needed[path] || info.ModTime().After(before) {
			continue
		}
		n, err := remove(path)
		size += n
		errs = append(errs, err)
	}
	return size, errors.Join(errs...)
}

// removeIdle removes the beginning of a blob, unless somebody writes to it, and returns its size.
func removeIdle(path string) (int64, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }() // which unlocks it
	if !claim(f, path) {
		return 0, nil
	}
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), os.Remove(path)
}

// pin keeps layers from being swept until unpin: those of a pull that is going on.
func (s *Store) pin(layers []v1.Descriptor) (unpin func()) {
	add := func(n int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, d := range layers {
			if s.pins[d.Digest.Hex] += n; s.pins[d.Digest.Hex] == 0 {
				delete(s.pins, d.Digest.Hex)
			}
		}
	}
	add(1)
	return func() { add(-1) }
}

// pinned returns the paths of the layers that are pinned.
func (s *Store) pinned() map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]bool{}
	for name := range s.pins {
		out[s.path(blobDir, name)], out[s.path(partialDir, name)] = true, true
	}
	return out
}

// sweepRefs removes references to images that are gone.
func (s *Store) sweepRefs(images []stored) error {
	refs, err := s.references()
	if err != nil {
		return err
	}
	here, meant := map[string]bool{}, map[string]bool{}
	for _, im := range images {
		here[im.Digest] = true
	}
	for _, r := range refs {
		if here[r.Digest] {
			meant[r.Ref] = true
		}
	}
	var errs []error
	for _, r := range refs {
		gone := r.Digest != "" && !here[r.Digest] || r.Target != "" && !meant[r.Target] && !isLocal(r.Target)
		if !gone {
			continue
		}
		if err := os.Remove(s.refPath(r.Ref)); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
