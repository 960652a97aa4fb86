package depot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Tags returns the repository's tags, in order.
func (d *Depot) Tags(name string) ([]string, error) {
	doc, err := d.look(name)
	if err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(doc.Tags)), nil
}

// Manifest returns the manifest that a tag or a digest names, and its bytes.
func (d *Depot) Manifest(ctx context.Context, name, reference string) (Manifest, []byte, error) {
	doc, err := d.look(name)
	if err != nil {
		return Manifest{}, nil, err
	}
	m, ok := doc.find(reference)
	if !ok {
		return Manifest{}, nil, ErrUnknownManifest
	}
	d.ask(name, m.Digest)
	data, err := d.read(ctx, m)
	return m, data, err
}

// read returns a manifest's bytes, which are checked.
func (d *Depot) read(ctx context.Context, m Manifest) ([]byte, error) {
	data, err := os.ReadFile(d.contentPath(m.Digest))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrUnknownManifest // it has been deleted in this moment
	}
	if err != nil {
		return nil, err
	}
	h := m.Digest.NewHash()
	h.Write(data)
	if !m.Digest.Matches(h) {
		return nil, errors.Join(ErrUnknownManifest, d.Damaged(ctx, m.Digest))
	}
	return data, nil
}

// Referrers returns the manifests that are about the subject, in the order of their digests.
func (d *Depot) Referrers(name string, subject Digest) []Manifest {
	doc, err := d.look(name)
	if err != nil {
		return nil
	}
	var about []Manifest
	for digest, m := range doc.Manifests {
		if m.Subject == subject {
			m.Digest = digest
			about = append(about, m)
		}
	}
	slices.SortFunc(about, func(a, b Manifest) int { return strings.Compare(string(a.Digest), string(b.Digest)) })
	return about
}

// PutManifest adds a manifest, whose bytes have the digest that it says, and lets the tag, where that is not "", name it.
func (d *Depot) PutManifest(ctx context.Context, name, tag string, m Manifest, data []byte, quota int64) error {
	edit := func(doc *document) error {
		if missing := doc.missing(&m); len(missing) > 0 {
			return &MissingError{missing}
		}
		m.Added = time.Now().UTC()
		doc.Manifests[m.Digest] = m
		if tag != "" {
			doc.Tags[tag] = m.Digest
		}
		return nil
	}
	present, err := d.look(name)
	if err != nil {
		present = newDocument(name)
	}
	if err := edit(present.clone()); err != nil {
		return err
	}
	if err := d.keep(data, m.Digest); err != nil {
		return err
	}
	defer d.unpin(m.Digest)
	return d.change(ctx, name, true, quota, edit)
}

// keep writes a small content and places it.
func (d *Depot) keep(data []byte, digest Digest) error {
	temp, err := writeTemp(filepath.Join(d.config.Dir, uploadsDir), data)
	if err != nil {
		return err
	}
	if err := d.place(temp, digest, int64(len(data))); err != nil {
		_ = os.Remove(temp) // it may have its place already
		return err
	}
	return nil
}

// DeleteTag lets the tag name nothing any more; its manifest stays.
func (d *Depot) DeleteTag(ctx context.Context, name, tag string) error {
	return d.change(ctx, name, false, 0, func(doc *document) error {
		if _, ok := doc.Tags[tag]; !ok {
			return ErrUnknownManifest
		}
		delete(doc.Tags, tag)
		return nil
	})
}

// DeleteManifest removes a manifest with its tags, unless an index lists it.
func (d *Depot) DeleteManifest(ctx context.Context, name string, digest Digest) error {
	return d.change(ctx, name, false, 0, func(doc *document) error {
		if _, ok := doc.Manifests[digest]; !ok {
			return ErrUnknownManifest
		}
		if user := doc.userOf(digest); user != "" {
			return &InUseError{user}
		}
		doc.remove(digest)
		return nil
	})
}

// CheckSizes tells whether those of the contents that the repository has are of the sizes given.
func (d *Depot) CheckSizes(name string, sizes map[Digest]int64) error {
	doc, err := d.look(name)
	if err != nil {
		return nil // it has none of them
	}
	present := doc.contents()
	for digest, size := range sizes {
		if have, ok := present[digest]; ok && have != size {
			return fmt.Errorf("the manifest says that %s has %d bytes, and it has %d", digest, size, have)
		}
	}
	return nil
}
