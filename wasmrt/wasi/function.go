//go:build linux

package wasi

import (
	"edgepod/wasmrt/engine"
	"edgepod/wasmrt/fs"
)

// function is one system call. Its parameters are written as a word, one letter each: i for i32, I for i64.
type function struct {
	name   string
	params string
	run    func(h *Host, mem guestMemory, p params) error
	// noResult marks the one that returns nothing, proc_exit.
	noResult bool
}

func (f function) paramTypes() []engine.ValueType {
	types := make([]engine.ValueType, len(f.params))
	for i, c := range f.params {
		types[i] = engine.I32
		if c == 'I' {
			types[i] = engine.I64
		}
	}
	return types
}

func (f function) resultTypes() []engine.ValueType {
	if f.noResult {
		return nil
	}
	return []engine.ValueType{engine.I32}
}

// params are the parameters of a call as the engine hands them over.
type params []uint64

// u32 cuts what the engine leaves in the upper half of an i32.
func (p params) u32(i int) uint32 { return uint32(p[i]) }

func (p params) u16(i int) uint16 { return uint16(p[i]) }

func (p params) u64(i int) uint64 { return p[i] }

func (p params) i64(i int) int64 { return int64(p[i]) }

// call runs f and leaves its error number where the engine looks for the result.
func (h *Host) call(f function, mem guestMemory, stack []uint64) {
	h.checkStopped()
	err := f.run(h, mem, params(stack))
	if !f.noResult {
		stack[0] = uint64(fs.ErrnoOf(err))
	}
}

// The host modules.
const (
	modulePreview1 = "wasi_snapshot_preview1"
	moduleUnstable = "wasi_unstable"
)

// functionsOf returns the functions that a host module offers.
func functionsOf(module string) []function {
	switch module {
	case modulePreview1:
		return append(preview1(), socketExtension()...)
	case moduleUnstable:
		return unstable()
	}
	return nil
}
