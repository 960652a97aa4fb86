package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
)

// Config of a Bolt.
type Config struct {
	// Path of the file; its folder is made if there is none. PATH.lock and PATH.new lie beside it.
	Path string
	// HistoryEvents and HistoryBytes bound the history of all resources together. Zero means 20,000 and 32 MiB.
	HistoryEvents int
	HistoryBytes  int64
	// RevisionBlock is how many revisions are reserved ahead on disk, so that volatile writes, which a crash may lose, never
	// have their revisions given to others. After a crash the counter jumps by up to as many. Zero means 10,000.
	RevisionBlock int64
	// Log is where unusual things about the file are told; nil discards them.
	Log *slog.Logger
}

func (c *Config) validate() error {
	if c.Path == "" {
		return errors.New("store: Config.Path is empty")
	}
	if c.HistoryEvents < 0 || c.HistoryBytes < 0 || c.RevisionBlock < 0 {
		return errors.New("store: Config has a negative limit")
	}
	if c.HistoryEvents == 0 {
		c.HistoryEvents = 20_000
	}
	if c.HistoryBytes == 0 {
		c.HistoryBytes = 32 << 20
	}
	if c.RevisionBlock == 0 {
		c.RevisionBlock = 10_000
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return nil
}

// Bolt is a Store in one bbolt file. Reads and watches are answered from memory, which holds all objects and a bounded
// history; the file is for durability. It has no goroutine: the writers do the work. A new store stands at revision 1.
type Bolt struct {
	cfg      Config
	memory   *memory
	queue    queue
	counters counters
	closed   chan struct{}

	lead   chan struct{} // full while somebody leads, who alone uses the fields below
	ledger ledger
	disk   *disk
}

var _ Store = (*Bolt)(nil)

// Open opens the store, making the file if there is none. It fails with ErrInUse, ErrDamaged, ErrNewer or an error of the
// file system. After a stop without Close the revision counter goes on from beyond every revision that was ever taken.
func Open(cfg Config) (*Bolt, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	d, err := openDisk(cfg.Path, cfg.Log)
	if err != nil {
		return nil, err
	}
	b := &Bolt{
		cfg:    cfg,
		memory: newMemory(cfg.HistoryEvents, cfg.HistoryBytes),
		closed: make(chan struct{}),
		lead:   make(chan struct{}, 1),
		disk:   d,
		ledger: ledger{dirty: map[Key]dirt{}, doubt: map[Key]struct{}{}},
	}
	if err := b.load(); err != nil {
		return nil, errors.Join(err, d.close())
	}
	return b, nil
}

// load fills the memory and reserves revisions.
func (b *Bolt) load() error {
	c, err := b.disk.load()
	if err != nil {
		return err
	}
	if err := b.memory.fill(c); err != nil {
		return b.disk.damaged(err)
	}
	if b.disk.wasteful() {
		b.cfg.Log.Info("rewriting the store's file, which is mostly free", "path", b.cfg.Path, "bytes", b.disk.size())
		if err := b.disk.compact(); err != nil {
			return err
		}
	}
	restart := changes{state: c.state}
	restart.state.clean = false
	if !c.state.clean {
		// The gap between last and ceiling is told by a record at the ceiling, a revision that no event has.
		b.cfg.Log.Info("the store was not closed: revisions go on from those reserved", "rv", c.state.ceiling)
		restart.state.last = c.state.ceiling
		restart.records = []record{{revision: c.state.ceiling, flags: flagRestart, prevRevision: c.state.last}}
		b.memory.skip(c.state.last, c.state.ceiling)
	}
	restart.state.ceiling = restart.state.last + 1 + b.cfg.RevisionBlock
	b.ledger.next = restart.state.last + 1
	if err := b.store(restart); err != nil {
		return fmt.Errorf("open store %s: %w", b.cfg.Path, err)
	}
	return nil
}

// Get implements Store.
func (b *Bolt) Get(ctx context.Context, key Key) (*Entry, error) {
	if err := b.usable(ctx); err != nil {
		return nil, err
	}
	if e := b.memory.tree(key.Resource).get(key); e != nil {
		return e, nil
	}
	return nil, fmt.Errorf("%s: %w", key, ErrNotFound)
}

// List implements Store.
func (b *Bolt) List(ctx context.Context, q Query) (Page, error) {
	if err := b.usable(ctx); err != nil {
		return Page{}, err
	}
	page, err := b.memory.list(q)
	if err != nil {
		return Page{}, fmt.Errorf("list %s at revision %d: %w", q.Resource, q.At, err)
	}
	return page, nil
}

// Watch implements Store. A cursor needs no closing.
func (b *Bolt) Watch(resource, namespace string, after int64) (Cursor, error) {
	if err := b.usable(context.Background()); err != nil {
		return nil, err
	}
	c, err := b.memory.watch(resource, namespace, after, b.closed)
	if err != nil {
		return nil, fmt.Errorf("watch %s after revision %d: %w", resource, after, err)
	}
	return c, nil
}

// Revision implements Store.
func (b *Bolt) Revision() int64 { return b.memory.newest() }

func (b *Bolt) usable(ctx context.Context) error {
	select {
	case <-b.closed:
		return ErrClosed
	default:
		return ctx.Err()
	}
}

// Close implements Store. Writers that wait get ErrClosed.
func (b *Bolt) Close() error {
	b.queue.close()
	select {
	case b.lead <- struct{}{}: // for good: nobody leads after Close
	case <-b.closed:
		return nil
	}
	b.finish(append(b.queue.takeVolatile(), b.queue.takeDurable()...), ErrClosed)
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
