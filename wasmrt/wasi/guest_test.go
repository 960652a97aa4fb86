//go:build linux

package wasi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"edgepod/wasmrt/engine"
	"edgepod/wasmrt/engine/wazero"
	"edgepod/wasmrt/engine/wazy"
	"edgepod/wasmrt/fs"
	"edgepod/wasmrt/guest/guesttest"
)

// buildC compiles a guest of testdata/c.
func buildC(t testing.TB, name string, flags ...string) []byte {
	t.Helper()
	return guesttest.C(t, filepath.Join("testdata", "c", name+".c"), flags...)
}

// buildGo compiles a guest of testdata/go.
func buildGo(t testing.TB, name string) []byte {
	t.Helper()
	return guesttest.Go(t, "./"+filepath.Join("testdata", "go", name))
}

// buildRust compiles a guest of testdata/rust.
func buildRust(t testing.TB, name string) []byte {
	t.Helper()
	return guesttest.Rust(t, filepath.Join("testdata", "rust", name+".rs"))
}

// wat assembles a module.
func wat(t testing.TB, text string) []byte {
	t.Helper()
	in := filepath.Join(t.TempDir(), "in.wat")
	if err := os.WriteFile(in, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return guesttest.Build(t, "wat2wasm", "--enable-all", "-o", "OUT", in)
}

// engineVariable chooses the engine that the tests run on, "wazero" or "wazy".
const engineVariable = "EDGEPOD_TEST_ENGINE"

// openEngine opens the engine that the tests run on.
func openEngine(t testing.TB) engine.Engine {
	t.Helper()
	open := wazero.New
	if os.Getenv(engineVariable) == "wazy" {
		open = wazy.New
	}
	e := open(context.Background(), engine.Config{})
	t.Cleanup(func() {
		if err := e.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return e
}

// start makes a module's instance on h and returns what runs it to its end.
func start(t testing.TB, wasm []byte, h *Host) (run func() error) {
	t.Helper()
	return startOn(t, openEngine(t), wasm, h)
}

func startOn(t testing.TB, e engine.Engine, wasm []byte, h *Host) (run func() error) {
	t.Helper()
	ctx := context.Background()
	module, err := e.Compile(ctx, wasm)
	if err != nil {
		t.Fatal(err)
	}
	g, err := h.Link(ctx, module)
	if err == nil {
		err = g.Start(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() error {
		_, err := g.Call(ctx, "_start")
		return err
	}
}

// newHost makes a Host that is closed with the test.
func newHost(t testing.TB, cfg Config, tree fs.Config) *Host {
	t.Helper()
	var err error
	if cfg.FS, err = fs.New(tree); err != nil {
		t.Fatal(err)
	}
	h, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

// input makes a standard input with this text.
func input(t *testing.T, text string) *os.File {
	t.Helper()
	r, w := pipe(t)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	w.Close()
	return r
}

func TestProgramInC(t *testing.T) {
	outside := t.TempDir()
	root, ro := filepath.Join(outside, "root"), folder(t, "fixed")
	err := errors.Join(os.CopyFS(root, os.DirFS(folder(t, "file", "dir/inner"))), os.Symlink("../../secret", filepath.Join(ro, "out")),
		os.WriteFile(filepath.Join(outside, "secret"), []byte("secret"), 0o644))
	if err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	h := newHost(t, Config{
		Args: []string{"posix", "arg"}, Env: []string{"NAME=value"}, Stdin: input(t, "one\ntwo\n"), Stdout: &out, Stderr: &errs,
	}, fs.Config{Root: root, Mounts: []fs.Mount{{Source: ro, Target: "/ro", ReadOnly: true}}})
	code, stopped, err := ExitCode(start(t, buildC(t, "posix"), h)())
	if code != 7 || stopped || err != nil || out.String() != "all well\n" || errs.String() != "read one\nread two\n" {
		t.Errorf("code %d, %v\n%s\n%s", code, err, &out, &errs)
	}
}

func TestProgramOfCalls(t *testing.T) {
	var out bytes.Buffer
	h := newHost(t, Config{Args: []string{"calls"}, Stdout: &out, Stderr: &out}, fs.Config{Root: folder(t, "file", "dir/")})
	if code, _, err := ExitCode(start(t, buildC(t, "calls"), h)()); code != 0 || err != nil || out.String() != "all well\n" {
		t.Errorf("code %d, %v\n%s", code, err, &out)
	}
}

func TestProgramInGo(t *testing.T) {
	var out, errs bytes.Buffer
	h := newHost(t, Config{
		Args: []string{"files"}, Env: []string{"PWD=/dir"}, Stdin: input(t, "one\ntwo\n"), Stdout: &out, Stderr: &errs,
	}, fs.Config{Root: folder(t, "file", "dir/inner"), Mounts: []fs.Mount{{Source: folder(t, "one"), Target: "/vol"}}})
	code, stopped, err := ExitCode(start(t, buildGo(t, "files"), h)())
	if code != 9 || stopped || err != nil || out.String() != "all well\n" || errs.String() != "read one\nread two\n" {
		t.Errorf("code %d, %v\n%s\n%s", code, err, &out, &errs)
	}
}

func TestProgramInRust(t *testing.T) {
	var out, errs bytes.Buffer
	h := newHost(t, Config{
		Args: []string{"files", "b", "c"}, Env: []string{"NAME=value"}, Stdin: input(t, "one\ntwo\n"), Stdout: &out, Stderr: &errs,
	}, fs.Config{Root: folder(t, "file", "dir/inner"), Mounts: []fs.Mount{
		{Source: folder(t, "fixed"), Target: "/ro", ReadOnly: true},
	}})
	code, stopped, err := ExitCode(start(t, buildRust(t, "files"), h)())
	if code != 3 || stopped || err != nil || out.String() != "all well\n" || errs.String() != "read one\nread two\n" {
		t.Errorf("code %d, %v\n%s\n%s", code, err, &out, &errs)
	}
}

// TestProgramsAreStopped stops programs that have said that they are about to wait.
func TestProgramsAreStopped(t *testing.T) {
	wasm := buildC(t, "stop")
	for _, how := range []string{"read", "sleep", "poll", "spin"} {
		t.Run(how, func(t *testing.T) {
			in, _ := pipe(t)
			said, out := pipe(t)
			h := newHost(t, Config{Args: []string{"stop", how}, Stdin: in, Stdout: out}, fs.Config{})
			run := start(t, wasm, h)
			var wg sync.WaitGroup
			wg.Go(func() {
				_, err := io.ReadFull(said, make([]byte, len("waiting\n")))
				if err != nil {
					t.Error(err)
				}
				h.Stop()
			})
			code, stopped, err := ExitCode(run())
			wg.Wait()
			if code != CodeStopped || !stopped || err != nil {
				t.Errorf("code %d, %v, %v", code, stopped, err)
			}
		})
	}
}

func TestModulesThatImportWhatIsNotOffered(t *testing.T) {
	for want, text := range map[string]string{
		"env.call (i32) -> i64": `(module (import "env" "call" (func (param i32) (result i64))))`,
		"wasi_snapshot_preview1.fd_read (i32) -> i32, which is offered as (i32, i32, i32, i32) -> i32 only": `(module
			(import "wasi_snapshot_preview1" "fd_read" (func (param i32) (result i32))))`,
		"wasi_snapshot_preview1.sock_accept (i32) -> i32, which is offered as (i32, i32, i32) -> i32 or (i32, i32) -> i32 only": `(module
			(import "wasi_snapshot_preview1" "sock_accept" (func (param i32) (result i32))))`,
		"wasi_unstable.sock_open (i32, i32, i32) -> i32": `(module
			(import "wasi_unstable" "sock_open" (func (param i32 i32 i32) (result i32))))`,
	} {
		module, err := openEngine(t).Compile(t.Context(), wat(t, text))
		if err != nil {
			t.Fatal(err)
		}
		_, err = newHost(t, Config{}, fs.Config{}).Functions(module.Imports())
		var unknown *UnknownImportError
		if !errors.As(err, &unknown) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// TestModulesOfOldAndOddKinds runs a module without memory, one that mixes both versions, and one that traps.
func TestModulesOfOldAndOddKinds(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		code uint32
		trap string
	}{
		"no memory": {`(module
			(import "wasi_snapshot_preview1" "random_get" (func $r (param i32 i32) (result i32)))
			(import "wasi_snapshot_preview1" "proc_exit" (func $e (param i32)))
			(func (export "_start") (call $e (call $r (i32.const 0) (i32.const 8)))))`, uint32(fs.Fault), ""},
		"both versions": {`(module
			(import "wasi_unstable" "fd_write" (func $w (param i32 i32 i32 i32) (result i32)))
			(import "wasi_snapshot_preview1" "proc_exit" (func $e (param i32)))
			(memory (export "memory") 1)
			(data (i32.const 0) "\10\00\00\00\05\00\00\00")
			(data (i32.const 16) "hello")
			(func (export "_start")
				(drop (call $w (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 32)))
				(call $e (i32.load (i32.const 32)))))`, 5, ""},
		"trap": {`(module (func (export "_start") unreachable))`, 0, "unreachable"},
		"end":  {`(module (func (export "_start")))`, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, Config{}, fs.Config{})
			code, _, err := ExitCode(start(t, wat(t, c.text), h)())
			if code != c.code || (c.trap == "") != (err == nil) || !strings.Contains(fmt.Sprint(err), c.trap) {
				t.Errorf("got code %d, %v", code, err)
			}
		})
	}
}
