package image

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"edgepod/wasmrt/atomicfile"
	"edgepod/wasmrt/sandbox"
)

// lockPatience is how long a collection waits for pulls that put an image together.
const lockPatience = time.Minute

// stored is an image as List and Collect see it.
type stored struct {
	record
	name  string
	used  time.Time
	parts []string // paths
}

// List returns the images that the store has.
func (s *Store) List(ctx context.Context) ([]sandbox.StoredImage, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	images, err := s.images()
	if err != nil {
		return nil, fmt.Errorf("list images: %w", err)
	}
	refs, err := s.references()
	if err != nil {
		return nil, fmt.Errorf("list images: %w", err)
	}
	out := make([]sandbox.StoredImage, 0, len(images))
	for _, im := range images {
		shown := sandbox.StoredImage{Digest: im.Digest, ID: im.Digest, Size: im.DiskSize, LastUsed: im.used}
		for _, r := range refs {
			if r.Digest != im.Digest {
				continue
			}
			shown.ID = cmp.Or(r.ID, shown.ID)
			for _, name := range []string{r.Name, r.Written} {
				if name != "" && !slices.Contains(shown.Refs, name) {
					shown.Refs = append(shown.Refs, name)
				}
			}
		}
		slices.Sort(shown.Refs)
		out = append(out, shown)
	}
	return out, nil
}

// images reads what is written down of each image.
func (s *Store) images() ([]stored, error) {
	names, err := listNames(s.path(imageDir))
	if err != nil {
		return nil, err
	}
	var out []stored
	for _, name := range names {
		if _, ok := hexOf("sha256:" + name); !ok {
			continue
		}
		info, err := os.Stat(s.path(imageDir, name))
		if err != nil {
			continue // just gone
		}
		r, err := s.read(name)
		if err != nil {
			if errors.Is(err, atomicfile.ErrCorrupt) {
				s.log.Warn("what is written down of an image can't be read", "image", name, "err", err)
			}
			r = record{Entry: Entry{Digest: "sha256:" + name}} // collected by its age
		}
		out = append(out, stored{record: r, name: name, used: info.ModTime(), parts: s.partsOf(r)})
	}
	return out, nil
}

func (s *Store) partsOf(r record) (out []string) {
	add := func(dir, name string) {
		if name != "" {
			out = append(out, s.path(dir, name))
		}
	}
	add(moduleDir, r.Sum)
	add(nameDir, r.NamesFile)
	add(debugDir, r.DebugFile)
	add(rootDir, r.RootFolder)
	for _, b := range r.Blobs {
		add(blobDir, b)
	}
	return out
}

func (s *Store) references() ([]reference, error) {
	names, err := listNames(s.path(refDir))
	if err != nil {
		return nil, err
	}
	var out []reference
	for _, name := range names {
		var r reference
		if err := atomicfile.ReadJSON(s.path(refDir, name), &r, metaLimit); err == nil && sumOf([]byte(r.Ref)) == name {
			out = append(out, r)
		}
	}
	return out, nil
}

// Collect removes images that nothing uses, as the request says, and what belongs to no image. inUse tells of a digest
// whether a container of this process needs it; what other stores on the same folder need is known here.
func (s *Store) Collect(ctx context.Context, req sandbox.CollectRequest, inUse func(digest string) bool) (sandbox.Collected, error) {
	wait, cancel := context.WithTimeoutCause(ctx, lockPatience, errors.New("pulls are busy with the images"))
	defer cancel()
	unlock, err := s.lockFile(wait, unix.LOCK_EX)
	if err != nil {
		return sandbox.Collected{}, fmt.Errorf("collect images: %w", err)
	}
	c := &collection{s: s, req: req, now: time.Now()}
	err = c.run(ctx, inUse)
	unlock()
	for _, dir := range c.gone {
		err = errors.Join(err, os.RemoveAll(dir)) // which may take long, and is nobody's business any more
	}
	if err != nil {
		return c.done, fmt.Errorf("collect images: %w", err)
	}
	return c.done, nil
}

// collection is one call of Collect.
type collection struct {
	s    *Store
	req  sandbox.CollectRequest
	now  time.Time
	uses map[string]int // of each part, by how many images
	done sandbox.Collected
	gone []string // folders that were put aside
}

func (c *collection) run(ctx context.Context, inUse func(string) bool) error {
	images, err := c.s.images()
	if err != nil {
		return err
	}
	needed := map[string]bool{}
	c.uses = map[string]int{}
	for _, im := range images {
		if inUse(im.Digest) || c.now.Sub(im.used) < c.req.MinAge {
			needed[im.name] = true
		}
		for _, part := range im.parts {
			c.uses[part]++
		}
	}
	if err := c.s.note(needed, c.now); err != nil {
		return err
	}
	// What belongs to no image goes first.
	if c.done.Bytes, err = c.sweep(c.req.Free > 0); err != nil {
		return err
	}
	slices.SortFunc(images, func(a, b stored) int { return a.used.Compare(b.used) })
	for _, im := range images {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		old := c.req.MaxAge > 0 && c.now.Sub(im.used) >= c.req.MaxAge
		if needed[im.name] || !old && c.done.Bytes >= c.req.Free {
			continue
		}
		if err := c.remove(im); err != nil {
			return err
		}
	}
	left, err := c.s.images()
	return errors.Join(err, c.s.sweepRefs(left))
}

// remove takes an image away, and with it the parts that no other has.
func (c *collection) remove(im stored) error {
	s := c.s
	from, aside := s.path(imageDir, im.name), filepath.Join(s.staging(), "image-"+im.name)
	if err := os.Rename(from, aside); err != nil {
		return err
	}
	noted, err := s.noted(im.name)
	if err != nil || noted {
		return errors.Join(err, os.Rename(aside, from))
	}
	if err := os.Remove(aside); err != nil {
		return err
	}
	c.done.Images++
	for _, part := range im.parts {
		if c.uses[part]--; c.uses[part] > 0 {
			continue
		}
		size, err := c.discard(part)
		c.done.Bytes += size
		if err != nil {
			return err
		}
	}
	return nil
}

// noted tells whether any user needs an image.
func (s *Store) noted(name string) (bool, error) {
	users, err := s.users()
	if err != nil {
		return false, err
	}
	for _, text := range users {
		if slices.Contains(strings.Split(string(text), "\n"), name) {
			return true, nil
		}
	}
	return false, nil
}

// discard removes a part and returns its size. A folder is put aside, to be emptied later.
func (c *collection) discard(path string) (int64, error) {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if !info.IsDir() {
		return info.Size(), os.Remove(path)
	}
	size := treeSize(path)
	gone, err := c.s.putAside(path)
	if err != nil {
		return 0, err
	}
	c.gone = append(c.gone, gone)
	return size, nil
}

// treeSize is the number of bytes of the files in a folder.
func treeSize(dir string) (size int64) {
	// What can't be looked at counts for nothing.
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
			size += info.Size()
		}
		return nil
	})
	return size
}
