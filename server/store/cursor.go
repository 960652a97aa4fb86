package store

import (
	"context"
	"slices"
	"sync/atomic"
)

// cursor is a place in the history, and nothing else: a thousand of them cost next to nothing while nothing happens.
// One reader calls Next; Seen may be called beside it.
type cursor struct {
	memory              *memory
	closed              <-chan struct{}
	resource, namespace string
	seen                atomic.Int64
}

// watch returns a cursor, if the history reaches back to its place.
func (m *memory) watch(resource, namespace string, after int64, closed <-chan struct{}) (*cursor, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if err := m.reaches(resource, after); err != nil {
		return nil, err
	}
	c := &cursor{memory: m, closed: closed, resource: resource, namespace: namespace}
	c.seen.Store(after)
	return c, nil
}

// Next implements Cursor. The events are shared with other cursors: they must not be changed.
func (c *cursor) Next(ctx context.Context) ([]Event, int64, error) {
	for {
		if err := c.ended(ctx); err != nil {
			return nil, c.seen.Load(), err
		}
		events, seen, err := c.pending(maxEvents)
		if err != nil {
			return nil, c.seen.Load(), err
		}
		c.advance(seen)
		if len(events) > 0 {
			return events, seen, nil
		}
		wake := c.memory.wake(c.resource, seen)
		if wake == nil {
			continue
		}
		select {
		case <-wake:
		case <-ctx.Done():
		case <-c.closed:
		}
	}
}

func (c *cursor) ended(ctx context.Context) error {
	select {
	case <-c.closed:
		return ErrClosed
	default:
		return ctx.Err()
	}
}

// Seen implements Cursor.
func (c *cursor) Seen() int64 {
	_, seen, err := c.pending(0)
	if err != nil {
		return c.seen.Load()
	}
	return c.advance(seen)
}

// advance moves the place forward, never back.
func (c *cursor) advance(to int64) int64 {
	for {
		place := c.seen.Load()
		if place >= to {
			return place
		}
		if c.seen.CompareAndSwap(place, to) {
			return to
		}
	}
}

// pending returns the next events, up to a limit, and the place after them.
func (c *cursor) pending(limit int) ([]Event, int64, error) {
	place := c.seen.Load()
	events, revision, err := c.memory.since(c.resource, place)
	if err != nil {
		return nil, place, err
	}
	if c.namespace == "" {
		if len(events) <= limit {
			return events, revision, nil
		}
		events = slices.Clip(events[:limit])
		return events, placeAfter(events, place), nil
	}
	return c.filter(events, place, revision, limit)
}

// filter returns the cursor's namespace's events.
func (c *cursor) filter(events []Event, place, revision int64, limit int) ([]Event, int64, error) {
	var own []Event
	for i, ev := range events {
		if ev.Entry.Key.Namespace != c.namespace {
			continue
		}
		if len(own) == limit {
			return own, placeAfter(events[:i], place), nil
		}
		own = append(own, ev)
	}
	return own, revision, nil
}

// placeAfter is the revision of the last event, or else the place before.
func placeAfter(events []Event, place int64) int64 {
	if len(events) == 0 {
		return place
	}
	return events[len(events)-1].Entry.Revision
}

// since returns a resource's events after a revision, and the revision of the newest commit.
func (m *memory) since(name string, after int64) ([]Event, int64, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	r := m.resources[name]
	if r == nil {
		return nil, m.revision, nil
	}
	if after < r.floor {
		return nil, 0, ErrExpired
	}
	return r.after(after), m.revision, nil
}

// wake returns a channel that is closed at the resource's next commit, nil if there was one after the revision already.
func (m *memory) wake(name string, after int64) <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.at(name)
	if r.floor > after || len(r.after(after)) > 0 {
		return nil
	}
	if r.wake == nil {
		r.wake = make(chan struct{})
	}
	return r.wake
}
