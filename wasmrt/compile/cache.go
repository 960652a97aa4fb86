package compile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"edgepod/wasmrt/atomicfile"
)

// Config of a Cache.
type Config struct {
	// Dir is the cache's folder; it is made if missing.
	Dir string
	// Work runs a worker process on a job. It returns an error where the process died or did not answer; a module that
	// is refused is a Result with Error set.
	Work func(context.Context, Job) (Result, error)
	// UID and GID of the worker, where it can be chosen; 0 leaves the caller's.
	UID, GID int
	// UserNamespace tells that workers are root of a namespace only.
	UserNamespace bool
	// CPU that a worker may use, before what is added for the module's size (0: 10 s); Memory in bytes (0: 1 GiB), and
	// Deadline in real time (0: a minute, and again what is added).
	CPU      time.Duration
	Memory   uint64
	Deadline time.Duration
}

// perByte is how much longer large modules may take: a second for each MiB.
const perByte = time.Second >> 20

// Cache holds compiled code. Its methods may be called at the same time.
type Cache struct {
	cfg    Config
	flight singleflight.Group

	mu      sync.Mutex
	refused map[string]refusal // by the module's sum
}

// refusal is remembered for a while, so that who asks for a module again and again costs one compilation and not many.
type refusal struct {
	err *RefusedError
	at  time.Time
}

// How long a refusal is remembered (after that the machine may have had more to spare), and how many are.
const (
	refusalKept = 10 * time.Minute
	refusalMost = 1000
)

// RefusedError says why a module cannot be compiled.
type RefusedError struct{ Why string }

func (e *RefusedError) Error() string { return e.Why }

// Open returns the cache in cfg.Dir and removes what workers left behind that were cut off.
func Open(cfg Config) (*Cache, error) {
	if cfg.CPU == 0 {
		cfg.CPU = 10 * time.Second
	}
	if cfg.Memory == 0 {
		cfg.Memory = 1 << 30
	}
	if cfg.Deadline == 0 {
		cfg.Deadline = time.Minute
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("open code cache: %w", err)
	}
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
	return &Cache{cfg: cfg, refused: map[string]refusal{}}, nil
}

const (
	stagingPrefix = "staging-"
	codeFile      = "code.json"
)

// Ensure returns the code of the module in the file at path with this sum, and whether it had to be compiled. However
// many ask at a time, one worker compiles; it goes on when a caller gives up.
func (c *Cache) Ensure(ctx context.Context, path, sum string, size int64) (Code, bool, error) {
	if code, ok := c.lookup(sum); ok {
		return code, false, nil
	}
	done := c.flight.DoChan(sum, func() (any, error) {
		if code, ok := c.lookup(sum); ok {
			return code, nil
		}
		if err := c.refusal(sum, time.Now()); err != nil {
			return nil, err
		}
		code, err := c.compile(context.WithoutCancel(ctx), path, sum, size)
		if refused := (*RefusedError)(nil); errors.As(err, &refused) {
			c.remember(sum, refused, time.Now())
		}
		return code, err
	})
	select {
	case <-ctx.Done():
		return Code{}, false, ctx.Err()
	case r := <-done:
		code, _ := r.Val.(Code)
		return code, true, r.Err
	}
}

func (c *Cache) refusal(sum string, now time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	r, ok := c.refused[sum]
	if !ok || now.Sub(r.at) >= refusalKept {
		delete(c.refused, sum)
		return nil
	}
	return r.err
}

func (c *Cache) remember(sum string, err *RefusedError, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.refused) >= refusalMost {
		clear(c.refused)
	}
	c.refused[sum] = refusal{err: err, at: now}
}

// Drop removes the code of a module, which turned out to be damaged.
func (c *Cache) Drop(sum string) error {
	dir := filepath.Join(c.cfg.Dir, key(sum))
	aside := filepath.Join(c.cfg.Dir, fmt.Sprintf("%sdropped-%d", stagingPrefix, time.Now().UnixNano()))
	if err := os.Rename(dir, aside); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return fmt.Errorf("drop code: %w", err)
	}
	return os.RemoveAll(aside)
}

func (c *Cache) lookup(sum string) (Code, bool) {
	dir := filepath.Join(c.cfg.Dir, key(sum))
	var code Code
	if err := atomicfile.ReadJSON(filepath.Join(dir, codeFile), &code, 1<<16); err != nil {
		return Code{}, false
	}
	code.Dir = dir
	return code, code.check() == nil
}

// check tells whether the entry is there as it should be, without reading it.
func (c Code) check() error {
	if !filepath.IsLocal(c.Entry) {
		return fmt.Errorf("the code's file %q is not in its folder", c.Entry)
	}
	info, err := os.Lstat(filepath.Join(c.Dir, c.Entry))
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || info.Size() != c.Size {
		return fmt.Errorf("the code's file is not a regular file of %d bytes", c.Size)
	}
	return nil
}

func (c *Cache) compile(ctx context.Context, path, sum string, size int64) (Code, error) {
	staging, err := os.MkdirTemp(c.cfg.Dir, stagingPrefix)
	if err != nil {
		return Code{}, fmt.Errorf("compile: %w", err)
	}
	defer func() { _ = os.RemoveAll(staging) }() // gone after the rename
	if c.cfg.UID != 0 {
		if err := os.Chown(staging, c.cfg.UID, c.cfg.GID); err != nil {
			return Code{}, fmt.Errorf("compile: %w", err)
		}
	}
	extra := time.Duration(size) * perByte
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Deadline+extra)
	defer cancel()
	limit := c.cfg.CPU + extra
	res, err := c.cfg.Work(ctx, Job{
		Module: path, Sum: sum, Out: staging,
		UID: c.cfg.UID, GID: c.cfg.GID, UserNamespace: c.cfg.UserNamespace,
		CPU: uint64(max(limit.Round(time.Second)/time.Second, 1)), Memory: c.cfg.Memory,
	})
	if err != nil {
		// What the engine says at its end is many lines of its own stack.
		cause, _, _ := strings.Cut(err.Error(), "\n")
		return Code{}, &RefusedError{Why: fmt.Sprintf("compiling it failed or passed the limits of %s of processor time and %d MiB of memory (%s); "+
			"modules with huge functions are like that: split them, or optimise for size", limit.Round(time.Second), c.cfg.Memory>>20, cause)}
	}
	if res.Error != "" {
		return Code{}, &RefusedError{Why: res.Error}
	}
	return c.publish(staging, sum, res.Code)
}

// publish takes the folder over from the worker and gives it its name.
func (c *Cache) publish(staging, sum string, code Code) (Code, error) {
	code.Dir = staging
	if err := code.check(); err != nil {
		return Code{}, fmt.Errorf("compile: %w", err)
	}
	err := filepath.WalkDir(staging, func(p string, d fs.DirEntry, err error) error {
		if err != nil || c.cfg.UID == 0 {
			return err
		}
		if err := os.Lchown(p, os.Getuid(), os.Getgid()); err != nil {
			return err
		}
		return nil
	})
	if err != nil {
		return Code{}, fmt.Errorf("compile: %w", err)
	}
	if err := atomicfile.WriteJSON(filepath.Join(staging, codeFile), code, true); err != nil {
		return Code{}, fmt.Errorf("compile: %w", err)
	}
	final := filepath.Join(c.cfg.Dir, key(sum))
	if err := os.Rename(staging, final); err != nil {
		// What lies there was damaged, or another process was faster: either way it makes room.
		if err := c.Drop(sum); err != nil {
			return Code{}, err
		}
		if err := os.Rename(staging, final); err != nil {
			return Code{}, fmt.Errorf("compile: %w", err)
		}
	}
	code.Dir = final
	return code, atomicfile.SyncDir(c.cfg.Dir)
}

// Explain puts an error of the engine in the user's words.
func Explain(err error) string {
	text := strings.TrimSpace(err.Error())
	if strings.Contains(text, "invalid magic number") {
		return "it is not a WebAssembly module"
	}
	return "it is not a valid WebAssembly module, or uses a feature that is not supported: " + text
}
