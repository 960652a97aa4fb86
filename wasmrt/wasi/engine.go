//go:build linux

package wasi

import (
	"context"

	"edgepod/wasmrt/engine"
)

// guestMemory is what the host functions need of the engine: a view of the guest's memory that writes through, or false
// where it is out of bounds. A view is good until the host function returns.
type guestMemory = engine.Memory

// Functions returns the host functions that a guest imports, one for each import, bound to this Host. An import that is
// not offered is an *UnknownImportError.
func (h *Host) Functions(imports []Import) ([]engine.Function, error) {
	offered := offers{}
	functions := make([]engine.Function, len(imports))
	for i, im := range imports {
		f, err := offered.find(im)
		if err != nil {
			return nil, err
		}
		functions[i] = engine.Function{Import: im, Call: func(mem engine.Memory, stack []uint64) { h.call(f, mem, stack) }}
	}
	return functions, nil
}

// Link gives the module the host functions that it imports, bound to this Host. An import that is not offered is an
// *UnknownImportError.
func (h *Host) Link(ctx context.Context, module engine.Module) (engine.Guest, error) {
	functions, err := h.Functions(module.Imports())
	if err != nil {
		return nil, err
	}
	return module.Link(ctx, functions)
}
