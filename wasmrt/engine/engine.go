// Package engine is what the runtime asks of a WebAssembly engine, and all that it knows of one.
//
//	module, err := e.Compile(ctx, wasm)          or the engine's own way to load code that was made before
//	guest, err := module.Link(ctx, functions)    makes the host functions, one for each of module.Imports()
//	err = guest.Start(ctx)                       memory, data, the module's own start function
//	_, err = guest.Call(ctx, "_start")           *Trap, or what a host function panicked with
//
// After Link an engine makes no more machine code, so that executable memory may be forbidden before the guest starts.
//
// Engine itself and what comes of it may be used by one goroutine at a time.
package engine

import (
	"context"
	"fmt"
	"strings"
)

// Engine makes modules ready to run.
type Engine interface {
	// Compile returns a *RefusedError for a module that is not valid, or needs what the engine doesn't have.
	Compile(ctx context.Context, wasm []byte) (Module, error)
	// Close frees all that came of the engine. No guest of it may be running.
	Close(ctx context.Context) error
}

// Module is a module that can run.
type Module interface {
	// Imports are the functions that the module imports, in their order.
	Imports() []Import
	// Exports are the functions that it exports, sorted by name.
	Exports() []Export
	// Link gives the module its host functions: one for each import, matched by module, name and types.
	Link(ctx context.Context, functions []Function) (Guest, error)
}

// Guest is an instance of a module.
type Guest interface {
	// Start makes the guest's memory and runs its start function, if there is one. It comes before any Call, once.
	Start(ctx context.Context) error
	// Call runs an exported function to its end. Where a host function panicked with an error, that is in the error's
	// chain; a trap is a *Trap.
	Call(ctx context.Context, export string, params ...uint64) ([]uint64, error)
	// Memory is the guest's memory, an empty one where it has none.
	Memory() Memory
}

// Memory is a guest's linear memory.
type Memory interface {
	// Read returns a view of the memory that writes through, or false where it is out of bounds. The view is good until the
	// guest runs again.
	Read(offset, byteCount uint32) ([]byte, bool)
}

// NoMemory is the memory of a guest that has none.
type NoMemory struct{}

// Read implements Memory.
func (NoMemory) Read(_, byteCount uint32) ([]byte, bool) { return nil, byteCount == 0 }

// Config of an engine.
type Config struct {
	// Pages is the most linear memory of a guest, in pages of 64 KiB; 0 is all that 32 bits can address.
	Pages uint32
	// Memory makes linear memory; nil leaves that to the engine. An engine that can't be told takes its own.
	Memory Allocator
}

// Allocator makes linear memory.
type Allocator interface {
	// Allocate returns memory that may grow to limit bytes.
	Allocate(limit uint64) LinearMemory
}

// LinearMemory is the memory behind a Memory.
type LinearMemory interface {
	// Reallocate returns the memory at a new size, never less than the one before, its content kept and what is new zero;
	// nil where there is no more.
	Reallocate(size uint64) []byte
	// Free gives the memory back.
	Free()
}

// ValueType is a type of values, as the binary format spells it.
type ValueType = byte

// The value types.
const (
	I32       ValueType = 0x7f
	I64       ValueType = 0x7e
	F32       ValueType = 0x7d
	F64       ValueType = 0x7c
	V128      ValueType = 0x7b
	FuncRef   ValueType = 0x70
	ExternRef ValueType = 0x6f
)

// TypeName is a value type's name in the text format.
func TypeName(t ValueType) string {
	switch t {
	case I32:
		return "i32"
	case I64:
		return "i64"
	case F32:
		return "f32"
	case F64:
		return "f64"
	case V128:
		return "v128"
	case FuncRef:
		return "funcref"
	case ExternRef:
		return "externref"
	}
	return fmt.Sprintf("type %#x", t)
}

// Signature writes a function's types as "(i32, i64) -> i32".
func Signature(params, results []ValueType) string {
	s := "(" + typeNames(params) + ")"
	switch len(results) {
	case 0:
		return s
	case 1:
		return s + " -> " + typeNames(results)
	}
	return s + " -> (" + typeNames(results) + ")"
}

func typeNames(types []ValueType) string {
	names := make([]string, len(types))
	for i, t := range types {
		names[i] = TypeName(t)
	}
	return strings.Join(names, ", ")
}

// Import is a function that a module imports.
type Import struct {
	Module, Name    string
	Params, Results []ValueType
}

func (i Import) String() string {
	return fmt.Sprintf("%s.%s %s", i.Module, i.Name, Signature(i.Params, i.Results))
}

// Export is a function that a module exports.
type Export struct {
	Name            string
	Params, Results []ValueType
}

// Function is a host function.
type Function struct {
	Import
	// Call takes the parameters from the stack, in their order, and leaves the results there. The upper halves of those of
	// 32 bits are undefined. A panic with an error ends the guest.
	Call func(mem Memory, stack []uint64)
}

// RefusedError says why an engine doesn't take a module.
type RefusedError struct {
	// Proposal names the extension of WebAssembly that the module would need, "" where that is not the reason.
	Proposal string
	// Err is what the engine said.
	Err error
}

func (e *RefusedError) Error() string {
	if e.Proposal == "" {
		return fmt.Sprintf("it is not a valid WebAssembly module: %v", e.Err)
	}
	return fmt.Sprintf("it uses a part of WebAssembly that is not supported here, the proposal %q; build it without (%v)", e.Proposal, e.Err)
}

func (e *RefusedError) Unwrap() error { return e.Err }
