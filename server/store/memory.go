package store

import (
	"slices"
	"sort"
	"sync"
)

const (
	// coldAfter events, the decoded form of what an event overwrote is dropped: few readers are that far behind.
	coldAfter = 1000
	// eventOverhead is the memory of an event besides the value that only history holds on to.
	eventOverhead = 256
	maxEvents     = 1000 // of one answer to a cursor
)

// memory answers all reads: the live entries and the newest part of the history, one commit after the other.
//
//	floor                                                    revision
//	  |  events of the resource, each with what was before it    |
//	  +----e-------e--e---------------e------e----------------e--+
//	       ^ trimmed from here, the oldest of all resources first
//
// The lock is held while pointers are copied, never for the disk or anybody's code. Entries, trees and the events that a
// slice was made of are never changed afterwards.
type memory struct {
	maxEvents int
	maxBytes  int64

	mu        sync.RWMutex
	resources map[string]*resource
	revision  int64
	base      int64 // floor of resources that nobody has written to since the start
	gaps      []gap
	order     []logged // all resources' events, oldest first
	bytes     int64
	entries   int
	trimmed   trimmed
}

type resource struct {
	live   tree
	events []Event // by revision
	stale  int     // trimmed events that the array of events still holds before its first
	floor  int64   // events after this revision are all there
	wake   chan struct{}
}

// gap holds revisions strictly between its ends, which were seen before a crash and may have been lost by it.
type gap struct{ after, before int64 }

// logged is an event's place among those of all resources.
type logged struct {
	resource *resource
	event    Event
	bytes    int64
}

// trimmed is what was dropped from memory and is in the file's log still.
type trimmed struct {
	revision int64
	events   int
	bytes    int64
}

func newMemory(maxEvents int, maxBytes int64) *memory {
	return &memory{maxEvents: maxEvents, maxBytes: maxBytes, resources: map[string]*resource{}}
}

// at returns the resource, making it; the lock is held for writing.
func (m *memory) at(name string) *resource {
	r := m.resources[name]
	if r == nil {
		r = &resource{floor: m.base}
		m.resources[name] = r
	}
	return r
}

// tree returns the live entries of a resource.
func (m *memory) tree(resource string) tree {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if r := m.resources[resource]; r != nil {
		return r.live
	}
	return tree{}
}

func (m *memory) newest() int64 {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.revision
}

// publish makes a commit visible: its events and the trees after them.
func (m *memory) publish(b *batch) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, t := range b.trees {
		r := m.at(name)
		m.entries += t.size - r.live.size
		r.live = t
		if r.wake != nil {
			close(r.wake)
			r.wake = nil
		}
	}
	for _, ev := range b.events {
		m.log(ev)
	}
	m.revision = b.next - 1
	m.trim()
}

// log appends to the history; the lock is held.
func (m *memory) log(ev Event) {
	r := m.at(ev.Entry.Key.Resource)
	r.events = append(r.events, ev)
	size := int64(eventOverhead)
	if ev.Prev != nil {
		size += int64(len(ev.Prev.Value))
	}
	if ev.Deleted {
		size += int64(len(ev.Entry.Value))
	}
	m.order = append(m.order, logged{resource: r, event: ev, bytes: size})
	m.bytes += size
	if cold := len(m.order) - coldAfter; cold > 0 {
		m.order[cold-1].event.cool()
	}
}

// cool drops the decoded forms of entries that live no more.
func (ev Event) cool() {
	if ev.Prev != nil {
		ev.Prev.forget()
	}
	if ev.Deleted {
		ev.Entry.forget()
	}
}

// trim drops the oldest events beyond the limits; the lock is held.
func (m *memory) trim() {
	for len(m.order) > m.maxEvents || m.bytes > m.maxBytes && len(m.order) > 0 {
		oldest := m.order[0]
		m.order[0] = logged{}
		m.order = m.order[1:]
		m.bytes -= oldest.bytes
		m.trimmed.revision = oldest.event.Entry.Revision
		m.trimmed.events++
		m.trimmed.bytes += oldest.bytes
		oldest.resource.drop()
	}
}

// drop drops the oldest event. Readers may hold the array, so it is left as it is, and left behind when much of it is stale.
func (r *resource) drop() {
	r.floor = max(r.floor, r.events[0].Entry.Revision)
	r.events = r.events[1:]
	r.stale++
	if r.stale > len(r.events)/4+16 {
		r.events, r.stale = slices.Clone(r.events), 0
	}
}

// floorForDisk returns the revision up to which the file's log should be dropped now, if it is worth the writing.
func (m *memory) floorForDisk() (int64, bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	worth := m.trimmed.events > m.maxEvents/16 || m.trimmed.bytes > m.maxBytes/16
	return m.trimmed.revision, worth && m.trimmed.events > 0
}

// droppedOnDisk tells that the file's log was dropped up to the revision that floorForDisk named, all there was.
func (m *memory) droppedOnDisk() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.trimmed.events, m.trimmed.bytes = 0, 0
}

// reaches tells whether the history of a resource goes back to a revision; the lock is held.
func (m *memory) reaches(name string, revision int64) error {
	if revision > m.revision {
		return ErrFuture
	}
	floor := m.base
	if r := m.resources[name]; r != nil {
		floor = r.floor
	}
	if revision < floor {
		return ErrExpired
	}
	for _, g := range m.gaps {
		if g.after < revision && revision < g.before {
			return ErrExpired
		}
	}
	return nil
}

// after returns the resource's events after a revision.
func (r *resource) after(revision int64) []Event {
	i := sort.Search(len(r.events), func(i int) bool { return r.events[i].Entry.Revision > revision })
	return r.events[i:len(r.events):len(r.events)]
}

// list answers a query.
func (m *memory) list(q Query) (Page, error) {
	t, revision, err := m.snapshot(q.Resource, q.At)
	if err != nil {
		return Page{}, err
	}
	from, to := 0, t.size
	if q.Namespace != "" {
		from, to = t.rank(Key{Namespace: q.Namespace}), t.rank(Key{Namespace: q.Namespace + "\x00"})
	}
	if q.After != (Key{}) {
		from = max(from, t.rank(Key{Namespace: q.After.Namespace, Name: q.After.Name + "\x00"}))
	}
	end := to
	if q.Limit > 0 {
		end = min(to, from+q.Limit)
	}
	page := Page{Entries: t.slice(from, end), Revision: revision}
	if end < to {
		page.More, page.Remaining = true, int64(to-end)
	}
	return page, nil
}

// snapshot returns the entries of a resource as they were at a revision, 0 for the newest.
func (m *memory) snapshot(name string, at int64) (tree, int64, error) {
	m.mu.RLock()
	revision, r := m.revision, m.resources[name]
	if at == 0 {
		at = revision
	}
	if err := m.reaches(name, at); err != nil {
		m.mu.RUnlock()
		return tree{}, 0, err
	}
	if r == nil {
		m.mu.RUnlock()
		return tree{}, at, nil
	}
	live, events := r.live, r.after(at)
	m.mu.RUnlock()
	return undo(live, events), at, nil
}

// undo takes events back: what a key's first event found is what was there.
func undo(t tree, events []Event) tree {
	done := make(map[Key]bool, len(events))
	for _, ev := range events {
		key := ev.Entry.Key
		if done[key] {
			continue
		}
		done[key] = true
		if ev.Prev == nil {
			t = t.without(key)
			continue
		}
		t = t.with(ev.Prev)
	}
	return t
}
