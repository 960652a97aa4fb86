package process_test

import (
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"edgepod/wasmrt/process"
)

func TestMain(m *testing.M) {
	process.ChildMain()
	code := m.Run()
	if guestDir != "" {
		_ = os.RemoveAll(guestDir)
	}
	os.Exit(code)
}

// guestDir holds the guests, built once from their sources.
var guestDir string

// builtGuests names the folder in which another process has built them all.
const builtGuests = "EDGEPOD_TEST_GUESTS"

var buildGuests = sync.OnceValues(func() (string, error) {
	if dir := os.Getenv(builtGuests); dir != "" {
		return dir, nil
	}
	dir, err := os.MkdirTemp("", "edgepod-guests")
	if err != nil {
		return "", err
	}
	guestDir = dir
	for name, args := range map[string][]string{
		"guest.wasm": {"-Oz", "-s", "testdata/guest.c"}, "names.wasm": {"-O1", "testdata/guest.c"},
		"lines.wasm": {"-O1", "-g", "testdata/trap.c"},
		"serve.wasm": {"-Oz", "-s", "testdata/net.c"}, "call.wasm": {"-Oz", "-s", "-DCALL", "testdata/net.c"},
		"extension.wasm": {"-Oz", "-s", "../wasi/testdata/c/extension2.c"},
	} {
		args = append([]string{"--target=wasm32-wasi", "--sysroot=/usr", "-o", filepath.Join(dir, name)}, args...)
		if out, err := exec.Command("clang", args...).CombinedOutput(); err != nil {
			return "", &buildError{out: out, err: err}
		}
	}
	for name, wasm := range map[string][]byte{
		"table.wasm": tableBomb(), "recurse.wasm": recursionBomb(), "compile.wasm": compileBomb(1500, 6000),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), wasm, 0o644); err != nil {
			return "", err
		}
	}
	return dir, nil
})

type buildError struct {
	out []byte
	err error
}

func (e *buildError) Error() string { return e.err.Error() + ": " + string(e.out) }

var buildChild = sync.OnceValues(func() (string, error) {
	dir, err := buildGuests()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "child")
	if os.Getenv(builtGuests) != "" {
		return path, nil
	}
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path, "./child")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", &buildError{out: out, err: err}
	}
	return path, nil
})

// child returns the program that containers run, built as it ships.
func child(t testing.TB) string {
	t.Helper()
	path, err := buildChild()
	if err != nil {
		t.Fatalf("build the containers' program: %v", err)
	}
	return path
}

// guests returns the folder of guests: guest.wasm, names.wasm (not stripped), lines.wasm (with sections for debuggers), serve.wasm, call.wasm, extension.wasm (both, over TCP and UDP), table.wasm, recurse.wasm and compile.wasm.
func guests(t testing.TB) string {
	t.Helper()
	dir, err := buildGuests()
	if err != nil {
		t.Fatalf("build guests (clang, lld and wasi-libc are needed): %v", err)
	}
	return dir
}

// wasmModule puts sections behind the header of a module.
func wasmModule(sections ...[]byte) []byte {
	return append([]byte("\x00asm\x01\x00\x00\x00"), bytes.Join(sections, nil)...)
}

func wasmSection(id byte, payload []byte) []byte {
	return append(binary.AppendUvarint([]byte{id}, uint64(len(payload))), payload...)
}

// startModule has one function of type ()->(), exported as _start, with this body.
func startModule(table []byte, body []byte) []byte {
	code := append(binary.AppendUvarint([]byte{1}, uint64(len(body))), body...)
	sections := [][]byte{wasmSection(1, []byte{1, 0x60, 0, 0}), wasmSection(3, []byte{1, 0})}
	if table != nil {
		sections = append(sections, wasmSection(4, table))
	}
	sections = append(sections, wasmSection(7, append([]byte{1, 6}, "_start\x00\x00"...)), wasmSection(10, code))
	return wasmModule(sections...)
}

// tableBomb grows a table without end.
func tableBomb() []byte {
	body := []byte{
		0,          // no locals
		0x03, 0x40, // loop
		0xd0, 0x70, // ref.null func
		0x41, 0x80, 0x80, 0x04, // i32.const 65536
		0xfc, 0x0f, 0, // table.grow 0
		0x1a,    // drop
		0x0c, 0, // br 0
		0x0b, 0x0b,
	}
	return startModule([]byte{1, 0x70, 0, 1}, body)
}

// recursionBomb calls itself.
func recursionBomb() []byte { return startModule(nil, []byte{0, 0x10, 0, 0x0b}) }

// compileBomb has many locals that all live across many joins, which makes a compiler slow out of all proportion.
func compileBomb(locals, joins int) []byte {
	op := func(code byte, index int) []byte { return binary.AppendUvarint([]byte{code}, uint64(index)) }
	const get, set = 0x20, 0x21
	body := append(binary.AppendUvarint([]byte{1}, uint64(locals)), 0x7f)
	for i := range joins {
		a, b := i%locals, (i*7+3)%locals
		body = append(append(body, op(get, a)...), 0x04, 0x40) // if local a
		body = append(append(append(body, op(get, b)...), 0x41, 1, 0x6a), op(set, a)...)
		body = append(append(append(append(body, 0x05), op(get, a)...), op(set, b)...), 0x0b) // else b = a
	}
	return startModule(nil, append(body, 0x0b))
}
