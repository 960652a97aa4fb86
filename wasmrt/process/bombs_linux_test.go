package process_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"edgepod/wasmrt/engine/enginetest"
	"edgepod/wasmrt/process"
)

// offering adds a folder with these modules to those whose files may be used as images.
func offering(t *testing.T, modules map[string][]byte) func(*process.Config) {
	t.Helper()
	dir := t.TempDir()
	for name, wasm := range modules {
		if err := os.WriteFile(filepath.Join(dir, name), wasm, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return func(c *process.Config) { c.ImageDirs = append(c.ImageDirs, dir) }
}

// busyModules never end by themselves, each in another way.
func busyModules(t *testing.T) map[string][]byte {
	t.Helper()
	// Each of sixty functions calls the one before twice: there is no loop in it, nor a recursion.
	var calls strings.Builder
	for i := 1; i < 60; i++ {
		fmt.Fprintf(&calls, "(func $f%d (call $f%d) (call $f%d))", i, i-1, i-1)
	}
	return map[string][]byte{
		"loop.wasm": enginetest.Assemble(t, `(module (func (export "_start") (loop $l (br $l))))`),
		"calls.wasm": enginetest.Assemble(t, `(module (global $n (mut i64) (i64.const 0))
			(func $f0 (global.set $n (i64.add (global.get $n) (i64.const 1))))`+calls.String()+`
			(func (export "_start") (call $f59)))`),
		"fill.wasm": enginetest.Assemble(t, `(module (memory 160)
			(func (export "_start") (loop $l (memory.fill (i32.const 0) (i32.const 7) (i32.const 10485760)) (br $l))))`),
		"yield.wasm": enginetest.Assemble(t, `(module (import "wasi_snapshot_preview1" "sched_yield" (func $y (result i32)))
			(func (export "_start") (loop $l (drop (call $y)) (br $l))))`),
		"in-start.wasm": enginetest.Assemble(t, `(module (func $s (loop $l (br $l))) (start $s) (func (export "_start")))`),
	}
}

// hugeModules are valid, and large in one way each, so that compiling them takes long or much memory.
func hugeModules() map[string][]byte {
	return map[string][]byte{
		"joins.wasm":     compileBomb(3000, 12000),
		"table.wasm":     branchTable(1_000_000),
		"functions.wasm": manyFunctions(50_000),
		"body.wasm":      longBody(7 << 20),
	}
}

// branchTable is a function with a branch of so many targets.
func branchTable(targets int) []byte {
	body := []byte{0, 0x02, 0x40, 0x41, 0, 0x0e} // block, i32.const 0, br_table
	body = binary.AppendUvarint(body, uint64(targets))
	for range targets + 1 {
		body = append(body, 0)
	}
	return startModule(nil, append(body, 0x0b, 0x0b))
}

// manyFunctions is a module of so many functions, each of which calls the next.
func manyFunctions(count int) []byte {
	functions := binary.AppendUvarint(nil, uint64(count))
	code := binary.AppendUvarint(nil, uint64(count))
	for i := range count {
		functions = append(functions, 0)
		body := []byte{0}
		if i+1 < count {
			body = binary.AppendUvarint(append(body, 0x10), uint64(i+1))
		}
		body = append(body, 0x0b)
		code = append(binary.AppendUvarint(code, uint64(len(body))), body...)
	}
	return wasmModule(wasmSection(1, []byte{1, 0x60, 0, 0}), wasmSection(3, functions),
		wasmSection(7, append([]byte{1, 6}, "_start\x00\x00"...)), wasmSection(10, code))
}

// longBody is one function of so many bytes, which adds up.
func longBody(size int) []byte {
	body := append([]byte{1, 1, 0x7f}, 0x41, 0) // one local; i32.const 0
	for len(body) < size {
		body = append(body, 0x20, 0, 0x6a, 0x22, 0) // local.get 0, i32.add, local.tee 0
	}
	return startModule(nil, append(body, 0x1a, 0x0b))
}
