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

	"github.com/tetratelabs/wazero"
)

// empty is a module without content.
var empty = []byte("\x00asm\x01\x00\x00\x00")

// store writes a module to a file and returns its path and sum.
func store(t *testing.T, wasm []byte) (path, sum string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "m.wasm")
	if err := os.WriteFile(path, wasm, 0o600); err != nil {
		t.Fatal(err)
	}
	s := sha256.Sum256(wasm)
	return path, hex.EncodeToString(s[:])
}

// inProcess compiles without a worker process and its limits.
func inProcess(ctx context.Context, job Job) (Result, error) {
	wasm, err := os.ReadFile(job.Module)
	if err != nil {
		return Result{}, err
	}
	return work(ctx, wasm, job.Out)
}

func openCache(t *testing.T, dir string, work func(context.Context, Job) (Result, error)) *Cache {
	t.Helper()
	c, err := Open(Config{Dir: dir, Work: work})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestManyWhoWaitCauseOneCompilation(t *testing.T) {
	var runs atomic.Int32
	c := openCache(t, t.TempDir(), func(ctx context.Context, job Job) (Result, error) {
		runs.Add(1)
		return inProcess(ctx, job)
	})
	path, sum := store(t, empty)
	var callers sync.WaitGroup
	for range 32 {
		callers.Go(func() {
			if code, _, err := c.Ensure(t.Context(), path, sum, 8); err != nil || code.check() != nil {
				t.Errorf("ensure: %+v, %v", code, err)
			}
		})
	}
	callers.Wait()
	if runs.Load() != 1 {
		t.Errorf("%d compilations, want 1", runs.Load())
	}
}

func TestCodeIsKeptAndFoundByTheEngine(t *testing.T) {
	dir := t.TempDir()
	path, sum := store(t, empty)
	code, compiled, err := openCache(t, dir, inProcess).Ensure(t.Context(), path, sum, 8)
	if err != nil || !compiled {
		t.Fatalf("first: %v, %v", compiled, err)
	}
	none := func(context.Context, Job) (Result, error) { return Result{}, errors.New("compiled again") }
	again, compiled, err := openCache(t, dir, none).Ensure(t.Context(), path, sum, 8)
	if err != nil || compiled || again != code {
		t.Errorf("second: %+v, %v, %v; want %+v", again, compiled, err, code)
	}
	if got, _, err := SumFile(filepath.Join(code.Dir, code.Entry)); err != nil || got != code.Sum {
		t.Errorf("sum of the entry: %s, %v; want %s", got, err, code.Sum)
	}
	cache, err := wazero.NewCompilationCacheWithDir(code.Dir)
	if err != nil {
		t.Fatal(err)
	}
	rt := wazero.NewRuntimeWithConfig(t.Context(), EngineConfig(cache))
	if _, err := rt.CompileModule(t.Context(), empty); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(filepath.Dir(filepath.Join(code.Dir, code.Entry)))
	if err != nil || len(entries) != 1 {
		t.Errorf("the engine made other code than was kept: %v, %v", entries, err)
	}
}

func TestDamagedCodeIsMadeAnew(t *testing.T) {
	path, sum := store(t, empty)
	for name, damage := range map[string]func(code Code) error{
		"entry gone":     func(c Code) error { return os.Remove(filepath.Join(c.Dir, c.Entry)) },
		"entry cut":      func(c Code) error { return os.Truncate(filepath.Join(c.Dir, c.Entry), 3) },
		"record cut":     func(c Code) error { return os.Truncate(filepath.Join(c.Dir, codeFile), 3) },
		"record gone":    func(c Code) error { return os.Remove(filepath.Join(c.Dir, codeFile)) },
		"entry replaced": func(c Code) error { return replaceByLink(filepath.Join(c.Dir, c.Entry)) },
	} {
		c := openCache(t, t.TempDir(), inProcess)
		code, _, err := c.Ensure(t.Context(), path, sum, 8)
		if err != nil {
			t.Fatal(err)
		}
		if err := damage(code); err != nil {
			t.Fatal(err)
		}
		code, compiled, err := c.Ensure(t.Context(), path, sum, 8)
		if err != nil || !compiled || code.check() != nil {
			t.Errorf("%s: %+v, compiled %v, %v; want it made anew", name, code, compiled, err)
		}
	}
}

func replaceByLink(path string) error {
	return errors.Join(os.Remove(path), os.Symlink("/etc/hostname", path))
}

func TestRefusalsReachTheCallerAndLeaveNothing(t *testing.T) {
	dir := t.TempDir()
	path, sum := store(t, []byte("\x00asm\x01\x00\x00\x00\x03\x02\x01\x00")) // a function without a type
	_, _, err := openCache(t, dir, inProcess).Ensure(t.Context(), path, sum, 8)
	var refused *RefusedError
	if !errors.As(err, &refused) || !strings.Contains(refused.Why, "not a valid") {
		t.Errorf("invalid module: %v", err)
	}
	died := func(context.Context, Job) (Result, error) { return Result{}, errors.New("killed") }
	_, _, err = openCache(t, dir, died).Ensure(t.Context(), path, sum, 8)
	if !errors.As(err, &refused) || !strings.Contains(refused.Why, "10s of processor time") {
		t.Errorf("dead worker: %v, want the limits", err)
	}
	lying := func(context.Context, Job) (Result, error) { return Result{Code: Code{Entry: "../../x"}}, nil }
	if _, _, err = openCache(t, dir, lying).Ensure(t.Context(), path, sum, 8); err == nil {
		t.Error("an entry outside of the folder was accepted")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestARefusedModuleIsCompiledAgainOnlyAfterAWhile(t *testing.T) {
	path, sum := store(t, []byte("\x00asm\x01\x00\x00\x00"))
	tries := 0
	c := openCache(t, t.TempDir(), func(context.Context, Job) (Result, error) {
		tries++
		return Result{}, errors.New("killed\ngoroutine 1 [running]:")
	})
	for range 3 {
		var refused *RefusedError
		_, _, err := c.Ensure(t.Context(), path, sum, 8)
		if !errors.As(err, &refused) || strings.Contains(refused.Why, "goroutine") {
			t.Errorf("refusal: %v, want the limits in one line", err)
		}
	}
	if tries != 1 {
		t.Errorf("compiled %d times, want once", tries)
	}
	if err := c.refusal(sum, time.Now().Add(refusalKept)); err != nil {
		t.Errorf("still refused: %v", err)
	}
}

func TestAnotherModuleOrEngineHasAnotherKey(t *testing.T) {
	first, again := key("a"), key("a")
	if first == key("b") || first != again {
		t.Error("keys do not tell modules apart")
	}
}
