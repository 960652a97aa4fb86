package wazero

import (
	"bytes"
	"encoding/binary"
	"testing"

	"edgepod/wasmrt/engine/enginetest"
)

// bytesOf puts sections behind the header.
func bytesOf(parts ...[]byte) []byte {
	return append([]byte("\x00asm\x01\x00\x00\x00"), bytes.Join(parts, nil)...)
}

func part(id byte, content ...byte) []byte {
	return append(binary.AppendUvarint([]byte{id}, uint64(len(content))), content...)
}

func TestShellHasEmptyFunctionsAndAllElse(t *testing.T) {
	before, after := part(1, 1, 0x60, 0, 0), part(11, 0)
	full := bytesOf(before, part(3, 2, 0, 0), part(sectionCode, 2, 2, 0, 0x0b, 5, 0, 0x41, 0, 0x1a, 0x0b), after)
	got, err := shellOf(full)
	want := bytesOf(before, part(3, 2, 0, 0), part(sectionCode, 2, 3, 0, 0, 0x0b, 3, 0, 0, 0x0b), after)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("got % x, %v; want % x", got, err, want)
	}
}

func TestSectionsForDebuggersAreKeptWhereTheyAreCheap(t *testing.T) {
	code := func(size int) []byte { return bytesOf(part(sectionCode, make([]byte, size)...)) }
	debug := func(size int) []byte { // sound ones, and so many bytes of strings
		var parts []byte
		for _, s := range debugOf([]byte{0x58, 0x0d}, []byte{2, 1, 0}, nil) {
			parts = append(parts, part(sectionCustom, s.content...)...)
		}
		return bytesOf(parts, part(sectionCustom, debugSection(".debug_str", make([]byte, size)).content...))
	}
	for name, c := range map[string]struct {
		wasm, debug []byte
		kept        bool
	}{
		"small":                       {code(100), debug(1000), true},
		"none":                        {code(100), nil, false},
		"much code":                   {code(maxDebugCode + 1), debug(1000), false},
		"much of them":                {code(100), debug(maxDebugSize), false},
		"not only sections for them":  {code(100), bytesOf(part(sectionCustom, 0), part(1, 0)), false},
		"a module that is cut off":    {code(100)[:50], debug(1000), false},
		"sections that are cut off":   {code(100), debug(1000)[:500], false},
		"only the header of a module": {code(100), bytesOf(), false},
	} {
		got := withDebug(c.wasm, c.debug)
		if kept := len(got) > len(c.wasm); kept != c.kept || !bytes.HasPrefix(got, c.wasm) {
			t.Errorf("%s: kept %v, want %v", name, kept, c.kept)
		}
	}
}

func FuzzShell(f *testing.F) {
	f.Add(enginetest.Assemble(f, `(module (memory 1) (func (export "_start") (nop)))`))
	f.Add(bytesOf(part(sectionCode, 0xff, 0xff, 0xff, 0xff, 0x0f)))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, wasm []byte) {
		shell, err := shellOf(wasm)
		if err != nil {
			return
		}
		again, err := shellOf(shell)
		if err != nil || !bytes.Equal(again, shell) {
			t.Errorf("% x: shell % x is no shell: % x, %v", wasm, shell, again, err)
		}
	})
}
