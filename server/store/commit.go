package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Many writers share one transaction, without a goroutine for it: of those who wait, one takes the lead and commits what
// all of them have queued; meanwhile the next ones gather.
//
//	queued --take--> checked, revision, Encode --fsync--> published to reads and watches --> answered
//	   |                                          |
//	   withdrawn (context ended)                  failed: nothing is visible, the revisions are not used again
//
// Volatile writes skip the fsync, and so are answered before the durable ones of the same turn.

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

// take empties the queue.
func (q *queue) take() (volatile, durable []*write) {
	q.mu.Lock()
	defer q.mu.Unlock()
	volatile, durable = q.volatile, q.durable
	q.volatile, q.durable = nil, nil
	return volatile, durable
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

// ledger is what the leader knows, and nobody else touches.
type ledger struct {
	next  int64 // revision of the next event
	state state // as in the file
	dirty map[Key]dirt
	// doubt names keys of failed transactions: the file may hold what they wrote, until the next one sets it right.
	doubt map[Key]struct{}
	turns int
	// crowd is how many writers shared the last transaction, took how long it was on its way.
	crowd int
	took  time.Duration
}

// dirt is a key with volatile writes that are not in the file: of several, the file gets the last one.
type dirt struct {
	event     Event // its Prev is what the file has
	coalesced bool
}

// batch is what one turn of a leader makes of the writes.
type batch struct {
	trees  map[string]tree
	events []Event
	next   int64
}

// Commit implements Store. When ctx ends first, its error is returned; the write may still happen if a leader had it in
// hand already. After an error of the disk nothing has changed for readers, but a crash right then may bring the write to
// light, as after any write that got no answer; the next commit that works rules that out.
//
// A volatile write waits for no disk, except for the commit under way, for every commit takes its turn, and about once in
// Config.RevisionBlock writes.
func (b *Bolt) Commit(ctx context.Context, op Op) (*Entry, error) {
	if err := op.validate(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	w := &write{op: op, done: make(chan struct{})}
	if err := b.queue.add(w); err != nil {
		return nil, err
	}
	for {
		select {
		case <-w.done:
			return w.entry, w.err
		default:
		}
		select {
		case <-w.done:
		case b.lead <- struct{}{}:
			b.commitQueued()
			<-b.lead
		case <-ctx.Done():
			b.queue.withdraw(w)
			return nil, ctx.Err()
		}
	}
}

func (op Op) validate() error {
	if err := op.Key.validate(); err != nil {
		return err
	}
	switch op.Verb {
	case Create, Update:
		if op.Encode == nil {
			return fmt.Errorf("write of %s lacks Encode", op.Key)
		}
	case Delete:
	default:
		return fmt.Errorf("write of %s: unknown verb %d", op.Key, op.Verb)
	}
	return nil
}

// commitQueued is one turn of the leader.
func (b *Bolt) commitQueued() {
	b.queue.gather(b.ledger.crowd, min(b.ledger.took/gatherShare, gatherMax))
	volatile, durable := b.queue.take()
	if len(volatile) > 0 {
		b.finish(volatile, b.commitVolatile(volatile))
	}
	if len(durable) > 0 {
		b.ledger.crowd = len(durable)
		b.finish(durable, b.commitDurable(durable))
	}
	if b.ledger.turns++; b.ledger.turns%compactTurns == 0 && b.disk.wasteful() {
		if err := b.disk.compact(); err != nil {
			b.cfg.Log.Warn("the store's file stays larger than it need be", "path", b.cfg.Path, "err", err)
		}
	}
}

func (b *Bolt) commitDurable(writes []*write) error {
	batch := b.prepare(writes)
	if len(batch.events) == 0 {
		return nil
	}
	if err := b.save(batch.events, batch.next, 0); err != nil {
		b.disown(batch)
		return err
	}
	b.ledger.next = batch.next
	b.memory.publish(batch)
	return nil
}

func (b *Bolt) commitVolatile(writes []*write) error {
	need := int64(len(writes))
	if b.ledger.next+need > b.ledger.state.ceiling {
		if err := b.save(nil, b.ledger.next, need); err != nil {
			return err
		}
	}
	batch := b.prepare(writes)
	for _, ev := range batch.events {
		b.ledger.soil(ev)
	}
	b.ledger.next = batch.next
	b.memory.publish(batch)
	return nil
}

// finish answers the writers; an error of the disk goes to all of them, since each may have counted on another's write.
func (b *Bolt) finish(writes []*write, err error) {
	for _, w := range writes {
		if err != nil {
			w.entry, w.err = nil, fmt.Errorf("write %s: %w", w.op.Key, err)
		}
		close(w.done)
	}
	b.counters.answered(writes, err)
}

// prepare checks the writes, one after the other, and gives them revisions.
func (b *Bolt) prepare(writes []*write) *batch {
	batch := &batch{trees: map[string]tree{}, next: b.ledger.next}
	for _, w := range writes {
		t, ok := batch.trees[w.op.Key.Resource]
		if !ok {
			t = b.memory.tree(w.op.Key.Resource)
		}
		ev, err := w.op.apply(t.get(w.op.Key), batch.next)
		if err != nil {
			w.err = fmt.Errorf("%s: %w", w.op.Key, err)
			continue
		}
		if ev.Deleted {
			t = t.without(w.op.Key)
		} else {
			t = t.with(ev.Entry)
		}
		batch.trees[w.op.Key.Resource] = t
		batch.events = append(batch.events, ev)
		batch.next++
		w.entry = ev.Entry
	}
	return batch
}

// apply returns the event that the op makes of what is there.
func (op Op) apply(prev *Entry, revision int64) (Event, error) {
	switch {
	case op.Verb == Create && prev != nil:
		return Event{}, ErrExists
	case op.Verb != Create && prev == nil:
		return Event{}, ErrNotFound
	case op.Verb != Create && op.Expect != 0 && op.Expect != prev.Revision:
		return Event{}, ErrConflict
	}
	e := &Entry{Key: op.Key, Revision: revision}
	if op.Encode == nil {
		e.Value = prev.Value
		e.object.Store(prev.object.Load())
		return Event{Deleted: true, Entry: e, Prev: prev}, nil
	}
	value, object, err := op.encode(revision)
	if err != nil {
		return Event{}, err
	}
	e.Value = value
	if object != nil {
		e.object.Store(&object)
	}
	return Event{Deleted: op.Verb == Delete, Entry: e, Prev: prev}, nil
}

// encode keeps one writer's panic from ending another's call.
func (op Op) encode(revision int64) (value []byte, object any, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("encode: panic: %v", r)
		}
	}()
	value, object = op.Encode(revision)
	return value, object, nil
}

// soil notes a volatile event for the next transaction.
func (l *ledger) soil(ev Event) {
	key := ev.Entry.Key
	if d, ok := l.dirty[key]; ok {
		ev.Prev = d.event.Prev
		l.dirty[key] = dirt{event: ev, coalesced: true}
		return
	}
	l.dirty[key] = dirt{event: ev}
}

// disown remembers what a failed transaction may have left in the file, and never uses its revisions again.
func (b *Bolt) disown(batch *batch) {
	for _, ev := range batch.events {
		b.ledger.doubt[ev.Entry.Key] = struct{}{}
	}
	b.ledger.next = batch.next
}

// save writes events, whose revisions end before next, and all that earlier turns left to write. It leaves room for at
// least need revisions of volatile writes.
func (b *Bolt) save(events []Event, next, need int64) error {
	c := b.pendingChanges()
	for _, ev := range events {
		c.add(ev, false)
	}
	c.state.last = next - 1
	if block := b.cfg.RevisionBlock; c.state.ceiling < next+max(block/2, need) {
		c.state.ceiling = next + max(block, need)
	}
	return b.store(c)
}

// pendingChanges are the changes that are due in any case.
func (b *Bolt) pendingChanges() changes {
	l := &b.ledger
	c := changes{state: l.state}
	c.state.clean = false
	if floor, worth := b.memory.floorForDisk(); worth {
		c.state.floor = floor
	}
	if len(l.doubt) > 0 {
		c.wipe, c.after = true, l.state.last
	}
	for key := range l.doubt {
		c.objects = append(c.objects, objectChange{key: key, entry: b.memory.tree(key.Resource).get(key)})
	}
	for _, d := range l.dirty {
		c.add(d.event, d.coalesced)
	}
	return c
}

// add makes an event part of the changes.
func (c *changes) add(ev Event, coalesced bool) {
	o := objectChange{key: ev.Entry.Key}
	if !ev.Deleted {
		o.entry = ev.Entry
	}
	c.objects = append(c.objects, o)
	c.records = append(c.records, recordOf(ev, coalesced))
}

// store writes changes to the file and notes that nothing is due any more.
func (b *Bolt) store(c changes) error {
	start := time.Now()
	written, err := b.disk.write(c)
	b.ledger.took = time.Since(start)
	b.counters.transaction(len(c.records), written, b.ledger.took, err)
	if err != nil {
		return err
	}
	if c.state.floor != b.ledger.state.floor {
		b.memory.droppedOnDisk()
	}
	b.ledger.state = c.state
	clear(b.ledger.dirty)
	clear(b.ledger.doubt)
	return nil
}

// Close implements Store. Writers that wait get ErrClosed.
func (b *Bolt) Close() error {
	b.queue.close()
	select {
	case b.lead <- struct{}{}: // for good: nobody leads after Close
	case <-b.closed:
		return nil
	}
	volatile, durable := b.queue.take()
	b.finish(append(volatile, durable...), ErrClosed)
	close(b.closed)
	c := b.pendingChanges()
	c.state.last, c.state.clean = b.memory.newest(), true
	return errors.Join(b.store(c), b.disk.close())
}

// Compact rewrites the file without its free pages. Reads go on meanwhile, writes wait.
func (b *Bolt) Compact(ctx context.Context) error {
	select {
	case b.lead <- struct{}{}:
	case <-b.closed:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-b.lead }()
	return b.disk.compact()
}
