// Package store keeps objects as bytes under one revision counter, with a bounded history that can be watched.
package store

import (
	"context"
	"errors"
	"sync/atomic"
)

// Store holds objects. Every successful commit takes the next revision; reads see whole commits only and never go back.
//
// A commit is durable when the call returns (see Op.Volatile for the exception), and is seen by reads and watches only
// after that.
type Store interface {
	// Get returns the object's newest entry, or ErrNotFound.
	Get(ctx context.Context, key Key) (*Entry, error)
	// List returns entries in key order, as they were at one revision.
	List(ctx context.Context, q Query) (Page, error)
	// Commit does one write. Errors: ErrExists, ErrNotFound, ErrConflict, and those of the disk.
	Commit(ctx context.Context, op Op) (*Entry, error)
	// Watch returns a cursor over the changes of a resource after the revision, or ErrExpired where the history no longer
	// reaches back that far. Namespace "" means all.
	Watch(resource, namespace string, after int64) (Cursor, error)
	// Revision is the newest one that reads can see.
	Revision() int64
	// Close writes what is pending and lets go of the file.
	Close() error
}

// Key names an object. Resource is "pods", or "deployments.apps" outside the core group; Namespace is "" for
// cluster-wide objects.
type Key struct{ Resource, Namespace, Name string }

// Entry is one object at one revision. It is frozen: nobody may change the bytes or what Object returns.
type Entry struct {
	Key      Key
	Value    []byte
	Revision int64
	object   atomic.Pointer[any]
}

// Object returns the decoded form of the entry, decoding it at most once or so: what the writer handed over, or else
// what decode makes of the bytes.
func (e *Entry) Object(decode func([]byte) (any, error)) (any, error) {
	if o := e.object.Load(); o != nil {
		return *o, nil
	}
	o, err := decode(e.Value)
	if err != nil {
		return nil, err
	}
	if e.object.CompareAndSwap(nil, &o) {
		return o, nil
	}
	if first := e.object.Load(); first != nil {
		return *first, nil
	}
	return o, nil
}

// forget drops the decoded form of an entry that is only history any more; Object decodes it again if asked.
func (e *Entry) forget() { e.object.Store(nil) }

// Op is one write.
type Op struct {
	Verb Verb
	Key  Key
	// Expect is the revision that the object must have (Update, Delete); 0 takes any.
	Expect int64
	// Encode returns the bytes to store, and the decoded form for Entry.Object or nil; called once, with the revision that
	// the commit takes, on the goroutine that commits for all: it must be quick, and commit nothing itself. Not needed by
	// Delete, whose entry holds the last value; where Delete has one, the deleted entry that watchers see holds what it
	// returns.
	Encode func(revision int64) (value []byte, object any)
	// Volatile writes are not waited for on disk: they reach it with the next write that is, or at Close. For heart-beats.
	Volatile bool
}

// Verb of an Op.
type Verb int

// The verbs.
const (
	Create Verb = iota + 1
	Update
	Delete
)

// Query of a List.
type Query struct {
	Resource  string
	Namespace string // "" for all
	// At is the revision to list, 0 for the newest. ErrExpired where the history no longer holds it, ErrFuture beyond the
	// newest.
	At int64
	// After starts the page behind this key, in order of namespace and name. Limit 0 is no limit.
	After Key
	Limit int
}

// Page is the answer to a Query.
type Page struct {
	Entries []*Entry
	// Revision of the list; More tells that keys follow the last entry, Remaining how many.
	Revision  int64
	More      bool
	Remaining int64
}

// Event is one change. Prev is what was there before, nil for a creation; a deletion has Deleted set, and Entry is the
// last state with the revision of the deletion.
type Event struct {
	Deleted bool
	Entry   *Entry
	Prev    *Entry
}

// Cursor reads changes in order, at its reader's own pace, from history that all cursors share.
type Cursor interface {
	// Next waits for changes and returns them, oldest first, with the revision up to which the cursor has seen everything.
	// It returns ErrExpired when the reader was so slow that the history moved past it.
	Next(ctx context.Context) (events []Event, seen int64, err error)
	// Seen returns the revision up to which nothing more is to come for this cursor, even where no event came: for bookmarks.
	Seen() int64
}

// The errors of a Store.
var (
	ErrNotFound = errors.New("object not found")
	ErrExists   = errors.New("object exists")
	ErrConflict = errors.New("object has another revision")
	ErrExpired  = errors.New("revision is older than the history kept")
	ErrFuture   = errors.New("revision lies ahead of the store")
	ErrClosed   = errors.New("store is closed")
	// ErrDamaged, ErrInUse and ErrNewer come from opening a store only.
	ErrDamaged = errors.New("store file is damaged")
	ErrInUse   = errors.New("store is in use by another process")
	ErrNewer   = errors.New("store was written by a newer version")
)
