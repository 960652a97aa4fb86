package depot

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// claim waits for the turn to change a repository, and makes one that does not exist if it is to be made.
func (d *Depot) claim(ctx context.Context, name string, create bool) (*repository, error) {
	for {
		d.mu.Lock()
		r := d.repositories[name]
		if r == nil && create {
			r = newRepository(newDocument(name))
			d.repositories[name] = r
		}
		d.mu.Unlock()
		if r == nil {
			return nil, ErrUnknownRepository
		}
		select {
		case r.turn <- struct{}{}:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		d.mu.Lock()
		dropped := r.dropped
		d.mu.Unlock()
		if !dropped {
			return r, nil
		}
		<-r.turn
	}
}

// yield gives the turn to the next. A repository that holds nothing is forgotten.
func (d *Depot) yield(r *repository) {
	d.mu.Lock()
	if r.document.empty() {
		r.dropped = true
		delete(d.repositories, r.name)
	}
	d.mu.Unlock()
	<-r.turn
}

func newRepository(doc *document) *repository {
	return &repository{name: doc.Name, turn: make(chan struct{}, 1), document: doc, asked: map[Digest]time.Time{}}
}

// change replaces a repository's document by what edit makes of a copy of it, within the namespace's quota. What edit adds
// must be pinned. Nothing has changed after an error. Edit may be called twice.
func (d *Depot) change(ctx context.Context, name string, create bool, quota int64, edit func(*document) error) error {
	err := d.tryChange(ctx, name, create, quota, edit)
	var full *QuotaError
	if errors.As(err, &full) && d.makeRoom(ctx, full) {
		err = d.tryChange(ctx, name, create, quota, edit)
	}
	return err
}

func (d *Depot) tryChange(ctx context.Context, name string, create bool, quota int64, edit func(*document) error) error {
	r, err := d.claim(ctx, name, create)
	if err != nil {
		return err
	}
	defer d.yield(r)
	next := r.document.clone()
	if err := edit(next); err != nil {
		return err
	}
	if n := next.entries(); n > d.config.Entries && n > r.document.entries() {
		return &FullError{d.config.Entries}
	}
	growth, err := d.admit(r, next, quota)
	if err != nil {
		return err
	}
	defer d.release(NamespaceOf(name), growth)
	if err := d.write(next); err != nil {
		return fmt.Errorf("repository %s: %w", name, err)
	}
	d.adopt(r, next)
	return nil
}

// admit reserves what the namespace grows by if the repository becomes next.
func (d *Depot) admit(r *repository, next *document, quota int64) (growth int64, err error) {
	namespace := NamespaceOf(r.name)
	d.mu.Lock()
	defer d.mu.Unlock()
	u := d.usageOf(namespace)
	for digest, size := range next.contents() {
		if u.held[digest] == 0 {
			growth += size
		}
	}
	return growth, d.reserveLocked(namespace, growth, quota)
}

// write makes the document the one on disk; the file of an empty one is removed.
func (d *Depot) write(next *document) error {
	dir := d.repositoryDir(next.Name)
	path := filepath.Join(dir, documentFile)
	if next.empty() {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if _, err := os.Stat(dir); err != nil {
			return nil // there never was one
		}
		return syncDir(dir)
	}
	if err := makeDirs(d.config.Dir, dir); err != nil {
		return err
	}
	return writeJSON(path, next)
}

// adopt makes the document the repository's, now that it is on disk, and throws away what nobody names any more.
func (d *Depot) adopt(r *repository, next *document) {
	d.mu.Lock()
	var trash []string
	u := d.usageOf(NamespaceOf(r.name))
	before, after := r.document.contents(), next.contents()
	for digest, size := range after {
		if _, had := before[digest]; had {
			continue
		}
		d.contents[digest].members++
		if u.held[digest]++; u.held[digest] == 1 {
			u.stored += size
		}
	}
	for digest, size := range before {
		if _, has := after[digest]; has {
			continue
		}
		if u.held[digest]--; u.held[digest] == 0 {
			delete(u.held, digest)
			u.stored -= size
		}
		delete(r.asked, digest)
		d.contents[digest].members--
		trash = append(trash, d.discard(digest)...)
	}
	r.document = next
	d.mu.Unlock()
	d.burn(trash)
}

// Drop removes the repositories and uploads of a namespace.
func (d *Depot) Drop(ctx context.Context, namespace string) error {
	d.mu.Lock()
	var names, uploads []string
	for name := range d.repositories {
		if NamespaceOf(name) == namespace {
			names = append(names, name)
		}
	}
	for id, u := range d.uploads {
		if NamespaceOf(u.repository) == namespace {
			uploads = append(uploads, id)
		}
	}
	d.mu.Unlock()
	var errs []error
	for _, id := range uploads {
		errs = append(errs, d.giveUp(ctx, id))
	}
	for _, name := range names {
		err := d.change(ctx, name, false, 0, func(doc *document) error {
			clear(doc.Tags)
			clear(doc.Manifests)
			clear(doc.Blobs)
			return nil
		})
		if !errors.Is(err, ErrUnknownRepository) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
