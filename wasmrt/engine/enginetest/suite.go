// Package enginetest holds every engine to what package engine promises.
package enginetest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"edgepod/wasmrt/engine"
)

// Open returns a new engine.
type Open func(ctx context.Context, cfg engine.Config) engine.Engine

// Assemble translates a module from its text, with every proposal that the assembler knows.
func Assemble(t testing.TB, text string) []byte {
	t.Helper()
	in := filepath.Join(t.TempDir(), "in.wat")
	if err := os.WriteFile(in, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	out := in + ".wasm"
	if b, err := exec.Command("wat2wasm", "--enable-all", "--debug-names", "-o", out, in).CombinedOutput(); err != nil {
		t.Fatalf("wat2wasm: %v %s: install the Debian package wabt", err, b)
	}
	wasm, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return wasm
}

// Run holds an engine to the interface.
func Run(t *testing.T, open Open) {
	t.Run("lists what a module imports and exports", func(t *testing.T) { testLists(t, open) })
	t.Run("calls the host and shares memory with it", func(t *testing.T) { testHost(t, open) })
	t.Run("ends a guest by a host function's error", func(t *testing.T) { testExit(t, open) })
	t.Run("runs the start function at the start", func(t *testing.T) { testStart(t, open) })
	t.Run("keeps guests apart", func(t *testing.T) { testApart(t, open) })
	t.Run("bounds memory", func(t *testing.T) { testPages(t, open) })
	t.Run("refuses what is no module", func(t *testing.T) { testRefused(t, open) })
	for _, c := range traps {
		t.Run("trap: "+c.reason, func(t *testing.T) { testTrap(t, open, c) })
	}
}

// compile makes a module on an engine that is closed with the test.
func compile(t *testing.T, open Open, cfg engine.Config, text string) engine.Module {
	t.Helper()
	e := open(t.Context(), cfg)
	t.Cleanup(func() {
		if err := e.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	m, err := e.Compile(t.Context(), Assemble(t, text))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// start links and starts a guest.
func start(t *testing.T, m engine.Module, functions ...engine.Function) engine.Guest {
	t.Helper()
	g, err := m.Link(t.Context(), functions)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return g
}

func testLists(t *testing.T, open Open) {
	m := compile(t, open, engine.Config{}, `(module
		(import "b" "two" (func (param i64 f32) (result f64)))
		(import "a" "one" (func))
		(func (export "z") (param i32) (result i32 i64) (local.get 0) (i64.const 1))
		(func (export "a"))
		(memory (export "memory") 1))`)
	imports, exports := m.Imports(), m.Exports()
	if got, want := fmt.Sprint(imports), "[b.two (i64, f32) -> f64 a.one ()]"; got != want {
		t.Errorf("imports: %s, want %s", got, want)
	}
	if len(exports) != 2 || exports[0].Name != "a" || exports[1].Name != "z" ||
		engine.Signature(exports[1].Params, exports[1].Results) != "(i32) -> (i32, i64)" {
		t.Errorf("exports: %+v", exports)
	}
}

// function is a host function.
func function(module, name string, params, results []engine.ValueType, call func(engine.Memory, []uint64)) engine.Function {
	return engine.Function{Import: engine.Import{Module: module, Name: name, Params: params, Results: results}, Call: call}
}

func testHost(t *testing.T, open Open) {
	m := compile(t, open, engine.Config{}, `(module
		(import "h" "swap" (func $swap (param i32 i64) (result i64)))
		(import "g" "note" (func $note (param i32)))
		(memory 1)
		(data (i32.const 8) "\2a\00\00\00")
		(func (export "run") (param i64) (result i64)
			(call $note (i32.load (i32.const 8)))
			(i64.add (call $swap (i32.const 8) (local.get 0)) (i64.extend_i32_u (i32.load (i32.const 8))))))`)
	var noted uint32
	g := start(t, m,
		function("g", "note", []engine.ValueType{engine.I32}, nil, func(_ engine.Memory, stack []uint64) { noted = uint32(stack[0]) }),
		function("h", "swap", []engine.ValueType{engine.I32, engine.I64}, []engine.ValueType{engine.I64}, func(mem engine.Memory, stack []uint64) {
			view, ok := mem.Read(uint32(stack[0]), 4)
			if !ok {
				t.Error("memory of the guest cannot be read")
				return
			}
			old := binary.LittleEndian.Uint32(view)
			binary.LittleEndian.PutUint32(view, uint32(stack[1]))
			if _, ok := mem.Read(1<<16-3, 4); ok {
				t.Error("memory beyond its end was read")
			}
			stack[0] = uint64(old) << 32
		}))
	got, err := g.Call(t.Context(), "run", 7)
	if want := uint64(42<<32 + 7); err != nil || len(got) != 1 || got[0] != want || noted != 42 {
		t.Errorf("got %v, %v, noted %d; want %d and 42", got, err, noted, want)
	}
	if view, ok := g.Memory().Read(8, 1); !ok || view[0] != 7 {
		t.Errorf("memory after the call: %v, %v", view, ok)
	}
	if _, err := g.Call(t.Context(), "nothing"); err == nil {
		t.Error("a function was called that is not exported")
	}
}

// exit is what a host function of the tests ends a guest with.
type exit struct{ code int }

func (e *exit) Error() string { return fmt.Sprintf("exit %d", e.code) }

func testExit(t *testing.T, open Open) {
	m := compile(t, open, engine.Config{}, `(module
		(import "h" "exit" (func $exit (param i32)))
		(func $deep (param i32) (if (i32.eqz (local.get 0)) (then (call $exit (i32.const 5))))
			(call $deep (i32.sub (local.get 0) (i32.const 1))))
		(func (export "run") (call $deep (i32.const 100)) (unreachable)))`)
	g := start(t, m, function("h", "exit", []engine.ValueType{engine.I32}, nil, func(mem engine.Memory, stack []uint64) {
		if _, ok := mem.Read(0, 1); ok {
			t.Error("memory of a module that has none was read")
		}
		panic(&exit{code: int(uint32(stack[0]))})
	}))
	_, err := g.Call(t.Context(), "run")
	var end *exit
	if !errors.As(err, &end) || end.code != 5 {
		t.Errorf("got %v, want exit 5", err)
	}
}

func testStart(t *testing.T, open Open) {
	m := compile(t, open, engine.Config{}, `(module
		(import "h" "note" (func $note (param i32)))
		(memory 1) (data (i32.const 0) "\09")
		(func $start (call $note (i32.load8_u (i32.const 0))))
		(func (export "_start") (call $note (i32.const 1)))
		(start $start))`)
	var noted []uint64
	g, err := m.Link(t.Context(), []engine.Function{
		function("h", "note", []engine.ValueType{engine.I32}, nil, func(mem engine.Memory, stack []uint64) {
			_, ok := mem.Read(0, 1)
			noted = append(noted, uint64(uint32(stack[0])))
			if !ok {
				t.Error("the start function has no memory")
			}
		}),
	})
	if err != nil || len(noted) > 0 {
		t.Fatalf("link: %v, noted %v", err, noted)
	}
	if _, err := g.Call(t.Context(), "_start"); err == nil {
		t.Error("a guest was called before its start")
	}
	if err := g.Start(t.Context()); err != nil || !slices.Equal(noted, []uint64{9}) {
		t.Fatalf("start: %v, noted %v", err, noted)
	}
	if _, err := g.Call(t.Context(), "_start"); err != nil || !slices.Equal(noted, []uint64{9, 1}) {
		t.Errorf("call: %v, noted %v", err, noted)
	}
	failing := compile(t, open, engine.Config{}, `(module (func $start (unreachable)) (start $start))`)
	f, err := failing.Link(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var trap *engine.Trap
	if err := f.Start(t.Context()); !errors.As(err, &trap) || trap.Reason != "unreachable" {
		t.Errorf("start function that traps: %v", err)
	}
}

// testApart runs two guests of two modules, which count in their memory.
func testApart(t *testing.T, open Open) {
	const text = `(module (memory 1)
		(func (export "count") (result i32)
			(i32.store (i32.const 0) (i32.add (i32.load (i32.const 0)) (i32.const 1)))
			(i32.load (i32.const 0))))`
	a := start(t, compile(t, open, engine.Config{}, text))
	b := start(t, compile(t, open, engine.Config{}, text))
	for want := range uint64(3) {
		for _, g := range []engine.Guest{a, b} {
			if got, err := g.Call(t.Context(), "count"); err != nil || got[0] != want+1 {
				t.Errorf("count: %v, %v; want %d", got, err, want+1)
			}
		}
	}
}

func testPages(t *testing.T, open Open) {
	m := compile(t, open, engine.Config{Pages: 10}, `(module (memory 1)
		(func (export "grow") (param i32) (result i32) (memory.grow (local.get 0)))
		(func (export "touch") (param i32) (result i32) (i32.load8_u (local.get 0))))`)
	g := start(t, m)
	for _, c := range []struct{ by, want uint64 }{{8, 1}, {2, 0xffffffff}, {1, 9}, {1, 0xffffffff}} {
		if got, err := g.Call(t.Context(), "grow", c.by); err != nil || uint64(uint32(got[0])) != c.want {
			t.Errorf("grow by %d: %v, %v; want %d", c.by, got, err, c.want)
		}
	}
	if got, err := g.Call(t.Context(), "touch", 10<<16-1); err != nil || got[0] != 0 {
		t.Errorf("last byte: %v, %v; want 0", got, err)
	}
	var trap *engine.Trap
	if _, err := g.Call(t.Context(), "touch", 10<<16); !errors.As(err, &trap) {
		t.Errorf("byte beyond the last: %v, want a trap", err)
	}
}

func testRefused(t *testing.T, open Open) {
	e := open(t.Context(), engine.Config{})
	defer func() { _ = e.Close(context.Background()) }()
	good := Assemble(t, `(module (func (export "_start")))`)
	for name, wasm := range map[string][]byte{
		"nothing": {}, "text": []byte("hello, I am not a module"), "cut off": good[:len(good)-5],
		"stack underflow": breakCode(t, good),
	} {
		var refused *engine.RefusedError
		if _, err := e.Compile(t.Context(), wasm); !errors.As(err, &refused) {
			t.Errorf("%s: %v, want a refusal", name, err)
		}
	}
}

// breakCode makes a module invalid: the only instruction of its function becomes one that takes a value.
func breakCode(t testing.TB, wasm []byte) []byte {
	t.Helper()
	broken := slices.Clone(wasm)
	i := slices.Index(broken, 0x0a) // the code section
	if i < 0 {
		t.Fatal("the module has no code")
	}
	copy(broken[i:], []byte{0x0a, 4, 1, 2, 0, 0x1a}) // drop, in place of the end
	return broken
}
