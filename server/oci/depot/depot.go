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
	"log/slog"
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
	// Entries is how many tags, manifests and blobs together a repository may have, and what its manifests list: 50,000.
	Entries int
	// Spare is what uploads leave free on the disk, in bytes, for others who need it: 128 MiB. Negative: nothing.
	Spare int64
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
	if c.Spare == 0 {
		c.Spare = 128 << 20
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

func (d *Depot) repositoryDir(name string) string {
	return filepath.Join(d.config.Dir, repositoriesDir, filepath.FromSlash(name))
}
