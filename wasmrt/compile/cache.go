package compile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

// Config of a Cache.
type Config struct {
	// Dir is the cache's folder; it is made if missing.
	Dir string
	// Work runs a worker process on a job. It returns an error where the process died or did not answer; a module that
	// is refused is a Result with Error set, one that passed a limit a Result with Limit set.
	Work func(context.Context, Job) (Result, error)
	// UID and GID of the worker, where it can be chosen; 0 leaves the caller's.
	UID, GID int
	// UserNamespace tells that workers are root of a namespace only.
	UserNamespace bool
	// CPU that a worker may use (0: 10 s), Memory in bytes (0: 512 MiB), and Deadline in real time (0: a minute): what is
	// added for the module's size comes on top, a second for each MiB and sixteen times its size in memory.
	CPU      time.Duration
	Memory   uint64
	Deadline time.Duration
	// Workers is how many may run at once; 0: two more than there are processors, so that a few modules that take all that
	// they may do not keep others waiting.
	Workers int
	// Size in bytes that the cache may have; 0: 2 GiB. Code in use is kept beyond it.
	Size int64
}

// What larger modules may take beside.
const (
	timePerByte   = time.Second >> 20
	memoryPerByte = 16
)

func (cfg *Config) complete() {
	if cfg.CPU == 0 {
		cfg.CPU = 10 * time.Second
	}
	if cfg.Memory == 0 {
		cfg.Memory = 512 << 20
	}
	if cfg.Deadline == 0 {
		cfg.Deadline = time.Minute
	}
	if cfg.Workers == 0 {
		cfg.Workers = runtime.NumCPU() + 2
	}
	if cfg.Size == 0 {
		cfg.Size = 2 << 30
	}
}

// Cache holds compiled code. Its methods may be called at the same time, and several caches may be on one folder.
type Cache struct {
	cfg    Config
	flight singleflight.Group
	// free has room for one token for each worker that runs.
	free chan struct{}

	mu      sync.Mutex
	refused map[string]refusal // by the module
	// checked are the files of an entry as they looked when their content was last compared with their sums.
	checked map[string]string
}

// refusal is remembered for a while, so that who asks for a module again and again costs one compilation and not many.
type refusal struct {
	err *RefusedError
	at  time.Time
}

// How long a refusal is remembered, and how many are. That it took too long may be the fault of what else the machine did.
const (
	refusalKept     = 10 * time.Minute
	refusalKeptTime = time.Minute
	refusalMost     = 1000
)

func (r refusal) kept() time.Duration {
	if r.err.Limit == LimitTime {
		return refusalKeptTime
	}
	return refusalKept
}

// RefusedError says why a module cannot be compiled.
type RefusedError struct {
	Why string
	// Limit that compiling it has hit, "" where it is not valid.
	Limit Limit
}

func (e *RefusedError) Error() string { return e.Why }

// ErrDamaged tells that a module's file does not have the sum that it should have.
var ErrDamaged = errors.New("the stored module is damaged: its checksum is not what it was")

// Open returns the cache in cfg.Dir and removes what workers left behind that were cut off.
func Open(cfg Config) (*Cache, error) {
	cfg.complete()
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("open code cache: %w", err)
	}
	c := &Cache{cfg: cfg, free: make(chan struct{}, cfg.Workers), refused: map[string]refusal{}, checked: map[string]string{}}
	left, err := filepath.Glob(filepath.Join(cfg.Dir, stagingPrefix+"*"))
	if err != nil {
		return nil, err
	}
	for _, dir := range left {
		if info, err := os.Stat(dir); err == nil && time.Since(info.ModTime()) > time.Hour {
			if err := os.RemoveAll(dir); err != nil {
				return nil, fmt.Errorf("open code cache: %w", err)
			}
		}
	}
	return c, c.trim()
}

// Ensure returns the code of a module, which the caller releases, and whether it had to be compiled. However many ask at
// a time, one worker compiles; it goes on when a caller gives up. The error is a *RefusedError where the module is at
// fault, and ErrDamaged where its file is.
func (c *Cache) Ensure(ctx context.Context, m Module) (code *Code, compiled bool, err error) {
	// What was made may have been removed again before it could be locked, by another who has a small cache.
	const tries = 3
	for range tries {
		if code := c.lookup(m); code != nil {
			return code, compiled, nil
		}
		done := c.flight.DoChan(m.id(), func() (any, error) { return nil, c.make(context.WithoutCancel(ctx), m) })
		select {
		case <-ctx.Done():
			return nil, compiled, ctx.Err()
		case r := <-done:
			if r.Err != nil {
				return nil, true, r.Err
			}
		}
		compiled = true
	}
	return nil, compiled, errors.New("compiled code is gone again at once: the code cache is too small")
}

// make compiles a module, unless that was refused lately or another agent does it meanwhile.
func (c *Cache) make(ctx context.Context, m Module) error {
	if err := c.refusal(m.id(), time.Now()); err != nil {
		return err
	}
	lock, err := lockFile(filepath.Join(c.cfg.Dir, key(m)+lockSuffix))
	if err != nil {
		return fmt.Errorf("compile: %w", err)
	}
	defer lock.remove()
	if code := c.lookup(m); code != nil {
		code.Release()
		return nil
	}
	err = c.compile(ctx, m)
	if refused := (*RefusedError)(nil); errors.As(err, &refused) {
		c.remember(m.id(), refused, time.Now())
	}
	if err != nil {
		return err
	}
	if code := c.lookup(m); code != nil {
		defer code.Release() // what was just made is not what goes
	}
	return c.trim()
}

func (c *Cache) refusal(id string, now time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	r, ok := c.refused[id]
	if !ok || now.Sub(r.at) >= r.kept() {
		delete(c.refused, id)
		return nil
	}
	return r.err
}

func (c *Cache) remember(id string, err *RefusedError, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.refused) >= refusalMost {
		clear(c.refused)
	}
	c.refused[id] = refusal{err: err, at: now}
}

// compile has a worker compile the module, and keeps what it made.
func (c *Cache) compile(ctx context.Context, m Module) error {
	staging, err := os.MkdirTemp(c.cfg.Dir, stagingPrefix)
	if err != nil {
		return fmt.Errorf("compile: %w", err)
	}
	defer func() { _ = os.RemoveAll(staging) }() // gone after the rename
	if c.cfg.UID != 0 {
		if err := os.Chown(staging, c.cfg.UID, c.cfg.GID); err != nil {
			return fmt.Errorf("compile: %w", err)
		}
	}
	c.free <- struct{}{}
	defer func() { <-c.free }()
	b := c.budget(m.Size)
	ctx, cancel := context.WithTimeout(ctx, b.deadline)
	defer cancel()
	res, err := c.cfg.Work(ctx, Job{
		Module: m.Path, Sum: m.Sum, Debug: m.Debug, Out: staging,
		UID: c.cfg.UID, GID: c.cfg.GID, UserNamespace: c.cfg.UserNamespace,
		CPU: uint64(b.cpu / time.Second), Memory: b.memory,
	})
	switch {
	case ctx.Err() != nil:
		return b.exceeded(LimitTime)
	case err != nil:
		return b.died(err)
	case res.Limit != "":
		return b.exceeded(res.Limit)
	case res.Damaged:
		return ErrDamaged
	case res.Error != "":
		return &RefusedError{Why: res.Error}
	}
	return c.publish(staging, m)
}
