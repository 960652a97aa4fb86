package store

import (
	"sync"
	"time"
)

// Stats tells how a Bolt is doing. The counts begin at Open.
type Stats struct {
	Revision      int64
	Entries       int
	HistoryEvents int
	HistoryBytes  int64
	FileBytes     int64
	// WrittenBytes went to disk, counted in whole pages: what flash memory wears from.
	WrittenBytes int64
	// Commits are transactions on disk and what they took together, FailedCommits those that the disk refused.
	Commits       int64
	CommitTime    time.Duration
	FailedCommits int64
	// Records are the changes in Commits; LargestBatch is the most that one of them had.
	Records      int64
	LargestBatch int
	// Writes were asked for and done, of which VolatileWrites waited for no disk; RefusedWrites met ErrConflict and its like.
	Writes         int64
	VolatileWrites int64
	RefusedWrites  int64
}

// Stats returns the figures of now.
func (b *Bolt) Stats() Stats {
	b.counters.mu.Lock()
	s := b.counters.stats
	b.counters.mu.Unlock()
	s.FileBytes = fileSize(b.cfg.Path)
	m := b.memory
	m.mu.RLock()
	defer m.mu.RUnlock()
	s.Revision, s.Entries = m.revision, m.entries
	s.HistoryEvents, s.HistoryBytes = len(m.order), m.bytes
	return s
}

// counters are the part of Stats that only grows.
type counters struct {
	mu    sync.Mutex
	stats Stats
}

func (c *counters) transaction(records int, written int64, took time.Duration, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.stats.FailedCommits++
		return
	}
	c.stats.Commits++
	c.stats.CommitTime += took
	c.stats.WrittenBytes += written
	c.stats.Records += int64(records)
	c.stats.LargestBatch = max(c.stats.LargestBatch, records)
}

func (c *counters) answered(writes []*write, err error) {
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range writes {
		switch {
		case w.err != nil:
			c.stats.RefusedWrites++
		case w.op.Volatile:
			c.stats.VolatileWrites++
			c.stats.Writes++
		default:
			c.stats.Writes++
		}
	}
}
