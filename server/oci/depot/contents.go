package depot

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

func (d *Depot) contentPath(digest Digest) string {
	algorithm, sum := digest.split()
	return filepath.Join(d.config.Dir, blobsDir, algorithm, sum)
}

// place takes a synced file of the content that the digest names into the depot, and pins it there until unpin. A file of
// the same digest is replaced: should it have been damaged, it is whole again.
func (d *Depot) place(file string, digest Digest, size int64) error {
	path := d.contentPath(digest)
	d.mu.Lock()
	err := os.Rename(file, path)
	if err == nil {
		c := d.contents[digest]
		if c == nil {
			c = &content{size: size}
			d.contents[digest] = c
		}
		c.pins++
	}
	d.mu.Unlock()
	if err != nil {
		return err
	}
	if err := syncDir(filepath.Dir(path)); err != nil {
		d.unpin(digest)
		return err
	}
	return nil
}

// pin keeps a content from being removed until unpin. It is false where there is no such content.
func (d *Depot) pin(digest Digest) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.contents[digest]
	if c != nil {
		c.pins++
	}
	return c != nil
}

// unpin undoes place or pin: a content that no repository names goes.
func (d *Depot) unpin(digest Digest) {
	d.mu.Lock()
	d.contents[digest].pins--
	trash := d.discard(digest)
	d.mu.Unlock()
	d.burn(trash)
}

// discard moves a content that nobody names or pins to the trash, for the caller to burn after it has let go of d.mu.
func (d *Depot) discard(digest Digest) []string {
	c := d.contents[digest]
	if c.members > 0 || c.pins > 0 {
		return nil
	}
	delete(d.contents, digest)
	d.counters.Collected++
	d.counters.CollectedBytes += c.size
	path := filepath.Join(d.config.Dir, trashDir, strconv.FormatInt(d.trashed.Add(1), 10))
	if err := os.Rename(d.contentPath(digest), path); err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			d.config.Log.Warn("a content is not removed before the next start", "digest", digest, "err", err)
		}
		return nil
	}
	return []string{path}
}

func (d *Depot) burn(trash []string) {
	for _, path := range trash {
		if err := os.Remove(path); err != nil {
			d.config.Log.Warn("a removed content takes room until the next start", "path", path, "err", err)
		}
	}
}

// Blob opens a blob of the repository for reading.
func (d *Depot) Blob(name string, digest Digest) (*os.File, int64, error) {
	doc, err := d.look(name)
	if err != nil {
		return nil, 0, err
	}
	b, ok := doc.Blobs[digest]
	if !ok {
		return nil, 0, ErrUnknownBlob
	}
	d.ask(name, digest)
	file, err := os.Open(d.contentPath(digest))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, ErrUnknownBlob // it has been deleted in this moment
	}
	return file, b.Size, err
}

// Mount makes a blob of one repository one of another, too. With from "" any repository may be the source.
func (d *Depot) Mount(ctx context.Context, name, from string, digest Digest, quota int64) error {
	if !d.pin(digest) {
		return ErrUnknownBlob
	}
	defer d.unpin(digest)
	size, err := d.blobSize(from, digest)
	if err != nil {
		return err
	}
	return d.change(ctx, name, true, quota, func(doc *document) error {
		doc.Blobs[digest] = blob{Size: size, Added: time.Now().UTC()}
		return nil
	})
}

// blobSize returns the size of a blob in the repository, or in any where that is "".
func (d *Depot) blobSize(name string, digest Digest) (int64, error) {
	if name != "" {
		doc, err := d.look(name)
		if err != nil {
			return 0, err
		}
		if b, ok := doc.Blobs[digest]; ok {
			return b.Size, nil
		}
		return 0, ErrUnknownBlob
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range d.repositories {
		if b, ok := r.document.Blobs[digest]; ok {
			return b.Size, nil
		}
	}
	return 0, ErrUnknownBlob
}

// DeleteBlob takes a blob out of the repository, unless a manifest needs it.
func (d *Depot) DeleteBlob(ctx context.Context, name string, digest Digest) error {
	return d.change(ctx, name, false, 0, func(doc *document) error {
		if _, ok := doc.Blobs[digest]; !ok {
			return ErrUnknownBlob
		}
		if user := doc.userOf(digest); user != "" {
			return &InUseError{user}
		}
		delete(doc.Blobs, digest)
		return nil
	})
}

// Damaged takes a content that was found to be other than its digest says out of all repositories, so that it can be pushed
// again.
func (d *Depot) Damaged(ctx context.Context, digest Digest) error {
	d.mu.Lock()
	d.counters.Damaged++
	var names []string
	for name, r := range d.repositories {
		_, isBlob := r.document.Blobs[digest]
		_, isManifest := r.document.Manifests[digest]
		if isBlob || isManifest {
			names = append(names, name)
		}
	}
	d.mu.Unlock()
	var errs []error
	for _, name := range names {
		d.config.Log.Error("a content of an image is damaged: push the image again", "repository", name, "digest", digest)
		errs = append(errs, d.change(ctx, name, false, 0, func(doc *document) error {
			delete(doc.Blobs, digest)
			doc.remove(digest)
			return nil
		}))
	}
	return errors.Join(errs...)
}
