package compile

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"edgepod/wasmrt/engine"
	"edgepod/wasmrt/engine/wazero"
)

// empty is a module without content.
var empty = []byte("\x00asm\x01\x00\x00\x00")

// variant is a valid module like no other with another number.
func variant(n byte) []byte { return append([]byte("\x00asm\x01\x00\x00\x00"), 0, 3, 1, 'v', n) }

// store writes a module to a file.
func store(t *testing.T, wasm []byte) Module {
	t.Helper()
	path := filepath.Join(t.TempDir(), "m.wasm")
	if err := os.WriteFile(path, wasm, 0o600); err != nil {
		t.Fatal(err)
	}
	s := sha256.Sum256(wasm)
	return Module{Path: path, Sum: hex.EncodeToString(s[:]), Size: int64(len(wasm))}
}

// inProcess compiles without a worker process and its limits.
func inProcess(ctx context.Context, job Job) (Result, error) {
	wasm, err := os.ReadFile(job.Module)
	if err != nil {
		return Result{}, err
	}
	return work(ctx, wasm, nil, job.Out)
}

// never is a worker that must not be needed.
func never(context.Context, Job) (Result, error) { return Result{}, errors.New("compiled again") }

func openCache(t *testing.T, cfg Config) *Cache {
	t.Helper()
	if cfg.Work == nil {
		cfg.Work = inProcess
	}
	c, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// ensure asks for a module's code, which is held to the test's end unless it is released before.
func ensure(t *testing.T, c *Cache, m Module, wantCompiled bool) *Code {
	t.Helper()
	code, compiled, err := c.Ensure(t.Context(), m)
	if err != nil || compiled != wantCompiled {
		t.Fatalf("ensure: compiled %v, %v; want compiled %v", compiled, err, wantCompiled)
	}
	t.Cleanup(code.Release)
	return code
}

func TestManyWhoWaitCauseOneCompilation(t *testing.T) {
	dir := t.TempDir()
	var runs atomic.Int32
	count := func(ctx context.Context, job Job) (Result, error) {
		runs.Add(1)
		return inProcess(ctx, job)
	}
	// Several agents on one folder do not know of each other.
	agents := []*Cache{openCache(t, Config{Dir: dir, Work: count}), openCache(t, Config{Dir: dir, Work: count}), openCache(t, Config{Dir: dir, Work: count})}
	m := store(t, empty)
	var callers sync.WaitGroup
	for i := range 32 {
		callers.Go(func() {
			code, _, err := agents[i%len(agents)].Ensure(t.Context(), m)
			if err != nil {
				t.Error(err)
				return
			}
			code.Release()
		})
	}
	callers.Wait()
	if runs.Load() != 1 {
		t.Errorf("%d compilations, want 1", runs.Load())
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*"+lockSuffix)); err != nil || len(left) > 0 {
		t.Errorf("locks left: %v, %v", left, err)
	}
}

func TestWorkersAreBounded(t *testing.T) {
	var running, most atomic.Int32
	c := openCache(t, Config{Dir: t.TempDir(), Workers: 3, Work: func(ctx context.Context, job Job) (Result, error) {
		n := running.Add(1)
		defer running.Add(-1)
		for seen := most.Load(); n > seen && !most.CompareAndSwap(seen, n); seen = most.Load() {
		}
		return inProcess(ctx, job)
	}})
	var callers sync.WaitGroup
	for n := range 20 {
		m := store(t, variant(byte(n)))
		callers.Go(func() {
			code, _, err := c.Ensure(t.Context(), m)
			if err != nil {
				t.Error(err)
				return
			}
			code.Release()
		})
	}
	callers.Wait()
	if n := most.Load(); n > 3 {
		t.Errorf("%d workers at once, want 3 at most", n)
	}
}

func TestCodeIsKeptAndFoundByTheEngine(t *testing.T) {
	dir := t.TempDir()
	m := store(t, empty)
	code := ensure(t, openCache(t, Config{Dir: dir}), m, true)
	again := ensure(t, openCache(t, Config{Dir: dir, Work: never}), m, false)
	if again.Dir != code.Dir || again.Size != code.Size || code.Size == 0 {
		t.Errorf("second: %+v; want %+v", again, code)
	}
	if _, _, err := wazero.Load(t.Context(), engine.Config{}, code.Dir); err != nil {
		t.Error(err)
	}
	err := filepath.WalkDir(code.Dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: mode %v, want the owner's alone", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// entryFile is one of the files of some code, the largest.
func entryFile(t *testing.T, code *Code) string {
	t.Helper()
	r, err := readRecord(code.Dir)
	if err != nil {
		t.Fatal(err)
	}
	largest := r.Files[0]
	for _, f := range r.Files {
		if f.Size > largest.Size {
			largest = f
		}
	}
	return filepath.Join(code.Dir, largest.Name)
}

func TestDamagedCodeIsMadeAnew(t *testing.T) {
	m := store(t, empty)
	for name, damage := range map[string]func(code, record string) error{
		"entry gone":     func(code, _ string) error { return os.Remove(code) },
		"entry cut":      func(code, _ string) error { return os.Truncate(code, 3) },
		"entry changed":  func(code, _ string) error { return flip(code) },
		"entry replaced": func(code, _ string) error { return errors.Join(os.Remove(code), os.Symlink("/etc/hostname", code)) },
		"record cut":     func(_, record string) error { return os.Truncate(record, 3) },
		"record gone":    func(_, record string) error { return os.Remove(record) },
		"record empty":   func(_, record string) error { return os.WriteFile(record, []byte("{}"), 0o600) },
		"record leads out": func(_, record string) error {
			return os.WriteFile(record, []byte(`{"files":[{"name":"../../x","sum":"","size":0}]}`), 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := openCache(t, Config{Dir: t.TempDir()})
			code := ensure(t, c, m, true)
			ensure(t, c, m, false)
			if err := damage(entryFile(t, code), filepath.Join(code.Dir, codeFile)); err != nil {
				t.Fatal(err)
			}
			ensure(t, c, m, true)
			ensure(t, c, m, false)
		})
	}
}

// flip changes one bit of a file.
func flip(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	data[len(data)/2] ^= 1
	return errors.Join(os.Chmod(path, 0o600), os.WriteFile(path, data, 0o600))
}

func TestRefusalsReachTheCallerAndLeaveNothing(t *testing.T) {
	invalid := store(t, []byte("\x00asm\x01\x00\x00\x00\x03\x02\x01\x00")) // a function without a type
	m := store(t, empty)
	for _, c := range []struct {
		name   string
		module Module
		work   func(context.Context, Job) (Result, error)
		want   string
		limit  Limit
	}{
		{"invalid module", invalid, inProcess, "not a valid WebAssembly module", ""},
		{"dead worker", m, func(context.Context, Job) (Result, error) {
			return Result{}, errors.New("killed\ngoroutine 1 [running]:")
		}, "failed (killed)", ""},
		{"processor time", m, limited(LimitCPU), "more than the limit of 10s of processor time", LimitCPU},
		{"memory", m, limited(LimitMemory), "more than the limit of 512 MiB of memory", LimitMemory},
		{"time", m, func(ctx context.Context, _ Job) (Result, error) { <-ctx.Done(); return Result{}, ctx.Err() }, "longer than the limit of 0s", LimitTime},
		{"no code", m, func(context.Context, Job) (Result, error) { return Result{}, nil }, "left no code", ""},
		{"a link for code", m, func(_ context.Context, j Job) (Result, error) {
			return Result{}, os.Symlink("/etc/passwd", filepath.Join(j.Out, "x"))
		}, "no file", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := Config{Dir: t.TempDir(), Work: c.work}
			if c.limit == LimitTime {
				cfg.Deadline = time.Nanosecond
			}
			_, _, err := openCache(t, cfg).Ensure(t.Context(), c.module)
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "goroutine") {
				t.Fatalf("got %v, want %q in one line", err, c.want)
			}
			if refused := (*RefusedError)(nil); errors.As(err, &refused) && refused.Limit != c.limit {
				t.Errorf("limit %q, want %q", refused.Limit, c.limit)
			}
			if left, err := os.ReadDir(cfg.Dir); err != nil || len(left) != 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

func limited(l Limit) func(context.Context, Job) (Result, error) {
	return func(context.Context, Job) (Result, error) { return Result{Limit: l}, nil }
}

func TestDamagedModuleIsTold(t *testing.T) {
	c := openCache(t, Config{Dir: t.TempDir(), Work: func(context.Context, Job) (Result, error) { return Result{Damaged: true}, nil }})
	if _, _, err := c.Ensure(t.Context(), store(t, empty)); !errors.Is(err, ErrDamaged) {
		t.Errorf("got %v, want ErrDamaged", err)
	}
}

func TestLargerModulesMayTakeMore(t *testing.T) {
	c := openCache(t, Config{Dir: t.TempDir()})
	small, large := c.budget(1000), c.budget(30<<20)
	if small.cpu != 10*time.Second || small.memory != 512<<20+16000 || small.deadline != time.Minute {
		t.Errorf("budget of a small module: %+v", small)
	}
	if large.cpu != 40*time.Second || large.memory != 992<<20 || large.deadline != 90*time.Second {
		t.Errorf("budget of a large module: %+v", large)
	}
}

func TestARefusedModuleIsCompiledAgainOnlyAfterAWhile(t *testing.T) {
	m := store(t, empty)
	tries := 0
	c := openCache(t, Config{Dir: t.TempDir(), Work: func(context.Context, Job) (Result, error) {
		tries++
		return Result{}, errors.New("killed")
	}})
	for range 3 {
		var refused *RefusedError
		if _, _, err := c.Ensure(t.Context(), m); !errors.As(err, &refused) {
			t.Errorf("got %v, want a refusal", err)
		}
	}
	if tries != 1 {
		t.Errorf("compiled %d times, want once", tries)
	}
	if err := c.refusal(m.id(), time.Now().Add(refusalKept)); err != nil {
		t.Errorf("still refused: %v", err)
	}
	now := time.Now()
	c.remember("slow", &RefusedError{Limit: LimitTime}, now)
	for after, refused := range map[time.Duration]bool{refusalKeptTime - 1: true, refusalKeptTime: false} {
		if err := c.refusal("slow", now.Add(after)); (err != nil) != refused {
			t.Errorf("what took too long, %v later: %v", after, err)
		}
		c.remember("slow", &RefusedError{Limit: LimitTime}, now)
	}
}

func TestAnotherModuleHasAnotherKey(t *testing.T) {
	m := Module{Sum: "a"}
	first, again := key(m), key(m)
	if first == key(Module{Sum: "b"}) || first == key(Module{Sum: "a", Debug: "/debug/c"}) || first != again {
		t.Error("keys do not tell modules apart")
	}
}

func TestCodeUsedTheLongestAgoGoesFirstAndNoneInUse(t *testing.T) {
	dir := t.TempDir()
	unbounded := openCache(t, Config{Dir: dir})
	var modules []Module
	var size int64
	for n := range 6 {
		m := store(t, variant(byte(n)))
		modules = append(modules, m)
		code := ensure(t, unbounded, m, true)
		size = code.Size
		code.Release()
		used := time.Now().Add(time.Duration(n-100) * time.Hour)
		if err := os.Chtimes(code.Dir, used, used); err != nil {
			t.Fatal(err)
		}
	}
	ensure(t, unbounded, modules[0], false).Release() // the oldest is used again
	held, err := Hold(filepath.Join(dir, key(modules[1])))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = held.Close() }()
	// Another agent has less room, for three of the six: it removes the next oldest that is not held.
	openCache(t, Config{Dir: dir, Size: 3 * size})
	for i, kept := range []bool{true, true, false, false, false, true} {
		if _, err := os.Stat(filepath.Join(dir, key(modules[i]))); (err == nil) != kept {
			t.Errorf("code %d: %v, want kept %v", i, err, kept)
		}
	}
	ensure(t, unbounded, modules[2], true)
}

func TestCodeThatIsLargerThanTheCacheStillRuns(t *testing.T) {
	c := openCache(t, Config{Dir: t.TempDir(), Size: 1})
	first := ensure(t, c, store(t, variant(1)), true)
	first.Release()
	ensure(t, c, store(t, variant(2)), true)
	if _, err := os.Stat(first.Dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("code that has no room any more: %v", err)
	}
}

// TestUseAndRemovalAtOnce has several agents use code, drop it and trim the cache at the same time: what is handed out is
// whole until it is released.
func TestUseAndRemovalAtOnce(t *testing.T) {
	dir := t.TempDir()
	modules := []Module{store(t, variant(1)), store(t, variant(2)), store(t, variant(3))}
	var agents sync.WaitGroup
	for agent := range 4 {
		c := openCache(t, Config{Dir: dir})
		c.cfg.Size = 1500 // for less than all
		agents.Go(func() {
			for i := range 40 {
				m := modules[(i+agent)%len(modules)]
				code, _, err := c.Ensure(t.Context(), m)
				if err != nil {
					if !strings.Contains(err.Error(), "too small") {
						t.Error(err)
					}
					continue
				}
				if _, _, err := wazero.Load(t.Context(), engine.Config{}, code.Dir); err != nil {
					t.Errorf("code in use: %v", err)
				}
				code.Release()
				if err := c.trim(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	agents.Wait()
}
