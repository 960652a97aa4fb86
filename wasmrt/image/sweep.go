package image

import (
	"errors"
	"io/fs"
	"os"
	"time"
)

// How long what belongs to no image may lie: layers of a pull that has not come to its end, and the beginnings of some that
// may be resumed.
const (
	keepBlob    = time.Hour
	keepPartial = 24 * time.Hour
)

// sweep removes what belongs to no image: after a crash, or of a pull that was given up. It is called under the lock that
// keeps others from putting an image together.
func (s *Store) sweep(now time.Time) error {
	images, err := s.images()
	if err != nil {
		return err
	}
	needed := map[string]bool{}
	for _, im := range images {
		for _, part := range im.parts {
			needed[part] = true
		}
	}
	var errs []error
	for dir, keep := range map[string]time.Duration{moduleDir: keepBlob, nameDir: keepBlob, debugDir: keepBlob, rootDir: keepBlob, blobDir: keepBlob, partialDir: keepPartial} {
		errs = append(errs, s.sweepDir(dir, needed, now.Add(-keep)))
	}
	return errors.Join(append(errs, s.sweepRefs(images))...)
}

func (s *Store) sweepDir(dir string, needed map[string]bool, before time.Time) error {
	names, err := listNames(s.path(dir))
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range names {
		path := s.path(dir, name)
		info, err := os.Lstat(path)
		if err != nil || needed[path] || info.ModTime().After(before) || dir == partialDir && s.isBusy(path) {
			continue
		}
		if info.IsDir() {
			errs = append(errs, s.discard(path))
		} else if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// isBusy tells whether somebody writes to a partial file.
func (s *Store) isBusy(path string) bool {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	return !claim(f, path)
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
