package store

import (
	"errors"
	"fmt"
	"slices"
)

// fill makes the memory of what the file holds. Nobody else has the memory yet.
func (m *memory) fill(c content) error {
	m.revision, m.base, m.entries = c.state.last, c.state.floor, len(c.entries)
	m.trimmed.revision = c.state.floor
	for len(c.entries) > 0 {
		name := c.entries[0].Key.Resource
		n := slices.IndexFunc(c.entries, func(e *Entry) bool { return e.Key.Resource != name })
		if n < 0 {
			n = len(c.entries)
		}
		m.at(name).live = treeOf(c.entries[:n])
		c.entries = c.entries[n:]
	}
	events, err := m.replay(c.records)
	if err != nil {
		return err
	}
	for _, ev := range slices.Backward(events) {
		m.log(ev)
	}
	m.trim()
	return nil
}

// replay makes events, newest first, of the log's records: each finds its value in what the one after it overwrote.
func (m *memory) replay(records []record) ([]Event, error) {
	events := make([]Event, 0, len(records))
	later := map[Key]*Entry{}
	for _, r := range records {
		if r.flags&flagRestart != 0 {
			m.gaps = append(m.gaps, gap{after: r.prevRevision, before: r.revision})
			continue
		}
		if r.revision > m.revision {
			return nil, fmt.Errorf("log record %d lies beyond the newest revision %d", r.revision, m.revision)
		}
		entry, ok := later[r.key]
		if !ok {
			entry = m.at(r.key.Resource).live.get(r.key)
		}
		ev, err := r.event(entry)
		if err != nil {
			return nil, fmt.Errorf("log record %d of %s: %w", r.revision, r.key, err)
		}
		later[r.key] = ev.Prev
		if r.flags&flagCoalesced != 0 {
			res := m.at(r.key.Resource)
			res.floor = max(res.floor, r.revision)
		}
		events = append(events, ev)
	}
	return events, nil
}

// event returns the record's event; after is what the key holds after it.
func (r record) event(after *Entry) (Event, error) {
	ev := Event{Deleted: r.flags&flagDeleted != 0}
	if r.flags&flagPrev != 0 {
		ev.Prev = &Entry{Key: r.key, Value: r.prev, Revision: r.prevRevision}
	}
	if !ev.Deleted {
		if after == nil || after.Revision != r.revision {
			return ev, errors.New("the object has no such revision")
		}
		ev.Entry = after
		return ev, nil
	}
	if after != nil || ev.Prev == nil && r.flags&flagValue == 0 {
		return ev, errors.New("the object was deleted and is there")
	}
	ev.Entry = &Entry{Key: r.key, Value: r.value, Revision: r.revision}
	if r.flags&flagValue == 0 {
		ev.Entry.Value = ev.Prev.Value
	}
	return ev, nil
}

// skip takes the counter from one revision to another; those between were seen by some and may be lost.
func (m *memory) skip(after, before int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gaps = append(m.gaps, gap{after: after, before: before})
	m.revision = before
}
