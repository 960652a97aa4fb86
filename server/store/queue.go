package store

import (
	"slices"
	"sync"
	"time"
)

// A leader may wait for others for 1/gatherShare of a transaction's time, and gatherMax.
const (
	gatherShare = 4
	gatherMax   = 3 * time.Millisecond
)

// write is a queued Op and its outcome.
type write struct {
	op    Op
	entry *Entry
	err   error
	done  chan struct{}
}

// queue is where writes wait for a leader.
type queue struct {
	mu       sync.Mutex
	closed   bool
	volatile []*write
	durable  []*write
	expected int           // durable writes that a leader waits for
	full     chan struct{} // closed when they are there, nil if nobody waits
}

func (q *queue) add(w *write) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return ErrClosed
	}
	if w.op.Volatile {
		q.volatile = append(q.volatile, w)
	} else {
		q.durable = append(q.durable, w)
	}
	if q.full != nil && len(q.durable) >= q.expected {
		close(q.full)
		q.full = nil
	}
	return nil
}

// gather lets the writers of the last turn, who have just been answered, come back to join this one: without it, those who
// came meanwhile and those who come now would take turns for ever, each with half of the writes and all of the disk's time.
// A writer alone never waits.
func (q *queue) gather(expected int, patience time.Duration) {
	q.mu.Lock()
	if len(q.durable) == 0 || len(q.durable) >= expected {
		q.mu.Unlock()
		return
	}
	full := make(chan struct{})
	q.expected, q.full = expected, full
	q.mu.Unlock()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-full:
	case <-timer.C:
		q.mu.Lock()
		q.full = nil
		q.mu.Unlock()
	}
}

func (q *queue) takeVolatile() []*write {
	q.mu.Lock()
	defer q.mu.Unlock()
	taken := q.volatile
	q.volatile = nil
	return taken
}

func (q *queue) takeDurable() []*write {
	q.mu.Lock()
	defer q.mu.Unlock()
	taken := q.durable
	q.durable = nil
	return taken
}

// withdraw takes a write out again, if no leader has it yet.
func (q *queue) withdraw(w *write) {
	q.mu.Lock()
	defer q.mu.Unlock()
	is := func(other *write) bool { return other == w }
	q.volatile, q.durable = slices.DeleteFunc(q.volatile, is), slices.DeleteFunc(q.durable, is)
}

func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
}
