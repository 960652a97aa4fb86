package store

import (
	"context"
	"fmt"
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

// commitQueued is one turn of the leader.
func (b *Bolt) commitQueued() {
	if volatile := b.queue.takeVolatile(); len(volatile) > 0 {
		b.finish(volatile, b.commitVolatile(volatile))
	}
	b.queue.gather(b.ledger.crowd, min(b.ledger.took/gatherShare, gatherMax))
	if durable := b.queue.takeDurable(); len(durable) > 0 {
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
