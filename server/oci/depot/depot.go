// Package depot keeps on disk what a registry of images holds: contents by their digest, shared by all repositories, and
// for each repository the names of its manifests, tags and blobs.
//
//	DIR/blobs/ALGORITHM/SUM                      contents: layers, configurations and manifests alike
//	DIR/repositories/NAMESPACE/NAME/_repository.json   what a repository holds; replaced by a rename with each change
//	DIR/uploads/ID.json, ID.data                 an upload that is not finished, and what has come of it
//	DIR/trash/                                   contents on their way out
//
// A content is on disk before a document names it, and goes when none names it any more:
//
//	upload ──► uploads/ID.data ──► blobs/…  ──► document ──► answer
//	             hashed, synced     renamed      renamed
//
// So at every moment, also that of a power cut, each document is whole and so is all that it names. What no document names
// is removed when the depot is opened.
//
// The process that opens a depot must be the only one to use it.
package depot

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Config of a depot. Its zero value lacks only Dir.
type Config struct {
	// Dir is the depot's folder; it is made if missing.
	Dir string
	// Grace is how long a blob that no manifest names is kept after it was pushed or asked for: an hour.
	Grace time.Duration
	// Abandoned is how long an upload may rest before it is given up: an hour.
	Abandoned time.Duration
	// Untagged is how long a manifest is kept that no tag and no index names, and that was neither pushed nor pulled since:
	// 30 days. The oldest of them, beyond the grace, also make room where a namespace's quota is full.
	Untagged time.Duration
	// InUse finds the manifests that somebody needs by their digest, tag or not; nil: of none is that known, and then none
	// is removed.
	InUse func(ctx context.Context) (func(Digest) bool, error)
	// Entries is how many tags, manifests and blobs together a repository may have: 50,000.
	Entries int
	// Uploads is how many unfinished uploads a namespace may have: 256.
	Uploads int
	// Log says what was found broken; nil discards it.
	Log *slog.Logger
}

func (c *Config) validate() error {
	if c.Dir == "" {
		return errors.New("the folder of the images is not named")
	}
	if c.Grace == 0 {
		c.Grace = time.Hour
	}
	if c.Abandoned == 0 {
		c.Abandoned = time.Hour
	}
	if c.Untagged == 0 {
		c.Untagged = 30 * 24 * time.Hour
	}
	if c.Entries == 0 {
		c.Entries = 50_000
	}
	if c.Uploads == 0 {
		c.Uploads = 256
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return nil
}

const (
	blobsDir        = "blobs"
	repositoriesDir = "repositories"
	uploadsDir      = "uploads"
	trashDir        = "trash"
)

// Depot is an open depot. Its methods may be called from several goroutines; their errors are those of this package or the
// file system's.
type Depot struct {
	config  Config
	trashed atomic.Int64 // numbers the files in the trash

	// mu guards what is below, and with it the names of the files in blobs: they are renamed while it is held, so that
	// table and folder agree. Nothing else of the disk is touched meanwhile.
	mu           sync.Mutex
	repositories map[string]*repository
	contents     map[Digest]*content
	uploads      map[string]*upload
	usage        map[string]*usage // by namespace
	counters     Counters
}

// repository is one of the repositories; one that holds nothing is not there.
type repository struct {
	name string
	// turn is held by the one who changes the document.
	turn chan struct{}
	// The rest is guarded by Depot.mu.
	document *document
	dropped  bool
	asked    map[Digest]time.Time // when a blob or a manifest was last asked for
}

// content is a file in blobs: members is how many repositories name it, pins how many are about to.
type content struct {
	size          int64
	members, pins int
}

// usage is what a namespace's repositories take, each content counted once, and what uploads and changes under way will.
type usage struct {
	held    map[Digest]int
	stored  int64
	coming  int64
	uploads int
}

// Counters count what has happened since the depot was opened.
type Counters struct {
	// BytesIn were sent by uploads; Collected contents were removed, and CollectedBytes with them.
	BytesIn, Collected, CollectedBytes int64
	// Abandoned uploads were given up; Damaged contents were found to be others than their digests name.
	Abandoned, Damaged int64
}

// Stats are a depot's figures.
type Stats struct {
	Counters
	Repositories, Manifests, Tags, Uploads int
	Contents                               int
	Bytes                                  int64
}

// Stats returns the present figures.
func (d *Depot) Stats() Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := Stats{Counters: d.counters, Contents: len(d.contents), Uploads: len(d.uploads)}
	for _, c := range d.contents {
		s.Bytes += c.size
	}
	for _, r := range d.repositories {
		if r.document.empty() {
			continue
		}
		s.Repositories++
		s.Manifests += len(r.document.Manifests)
		s.Tags += len(r.document.Tags)
	}
	return s
}

// Used returns how many bytes the namespace's repositories take.
func (d *Depot) Used(namespace string) int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	if u := d.usage[namespace]; u != nil {
		return u.stored
	}
	return 0
}

// usageOf returns the namespace's usage; d.mu is held.
func (d *Depot) usageOf(namespace string) *usage {
	u := d.usage[namespace]
	if u == nil {
		u = &usage{held: map[Digest]int{}}
		d.usage[namespace] = u
	}
	return u
}

// reserve lets the namespace grow by n bytes, until release.
func (d *Depot) reserve(namespace string, n, quota int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.reserveLocked(namespace, n, quota)
}

func (d *Depot) reserveLocked(namespace string, n, quota int64) error {
	u := d.usageOf(namespace)
	if n > 0 && u.stored+u.coming+n > quota {
		return &QuotaError{Namespace: namespace, Quota: quota, Used: u.stored, Over: u.stored + u.coming + n - quota}
	}
	u.coming += n
	return nil
}

func (d *Depot) release(namespace string, n int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.usageOf(namespace).coming -= n
}

// Repositories returns the names of those that have manifests, in order.
func (d *Depot) Repositories() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var names []string
	for name, r := range d.repositories {
		if len(r.document.Manifests) > 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Namespaces returns those that have repositories or uploads.
func (d *Depot) Namespaces() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var names []string
	for name := range d.repositories {
		names = append(names, NamespaceOf(name))
	}
	for _, u := range d.uploads {
		names = append(names, NamespaceOf(u.repository))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// look returns what a repository holds now.
func (d *Depot) look(name string) (*document, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := d.repositories[name]
	if r == nil || r.document.empty() {
		return nil, ErrUnknownRepository
	}
	return r.document, nil
}

// ask notes that a blob or a manifest is being asked for.
func (d *Depot) ask(name string, digest Digest) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if r := d.repositories[name]; r != nil {
		r.asked[digest] = time.Now()
	}
}

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

func (d *Depot) repositoryDir(name string) string {
	return filepath.Join(d.config.Dir, repositoriesDir, filepath.FromSlash(name))
}
