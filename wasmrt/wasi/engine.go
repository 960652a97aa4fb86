//go:build linux

package wasi

import (
	"context"
	"fmt"
	"reflect"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
)

// Modules makes the host modules that a guest imports from, holding just what imports names, and returns what hands them
// to the guest (experimental.WithImportResolver). An import that is not offered is an *UnknownImportError.
//
// The modules are anonymous in rt, so that several guests may live in one runtime; they are closed with it.
func (h *Host) Modules(ctx context.Context, rt wazero.Runtime, imports []api.FunctionDefinition) (experimental.ImportResolver, error) {
	builders := map[string]wazero.HostModuleBuilder{}
	for _, def := range imports {
		module, name, _ := def.Import()
		f, err := find(Import{Module: module, Name: name, Params: def.ParamTypes(), Results: def.ResultTypes()})
		if err != nil {
			return nil, err
		}
		b, ok := builders[module]
		if !ok {
			b = rt.NewHostModuleBuilder(module)
			builders[module] = b
		}
		b.NewFunctionBuilder().WithGoModuleFunction(h.bind(f), f.paramTypes(), f.resultTypes()).WithName(name).Export(name)
	}
	modules := make(map[string]api.Module, len(builders))
	for name, b := range builders {
		compiled, err := b.Compile(ctx)
		if err != nil {
			return nil, fmt.Errorf("host module %s: %w", name, err)
		}
		if modules[name], err = rt.InstantiateModule(ctx, compiled, wazero.NewModuleConfig().WithName("")); err != nil {
			return nil, fmt.Errorf("host module %s: %w", name, err)
		}
	}
	return func(name string) api.Module {
		if m, ok := modules[name]; ok {
			return m
		}
		return nil
	}, nil
}

// bind makes the engine's function of f: a closure over this guest's state.
func (h *Host) bind(f function) api.GoModuleFunction {
	return api.GoModuleFunc(func(_ context.Context, mod api.Module, stack []uint64) {
		h.call(f, memoryOf(mod), stack)
	})
}

// memoryOf returns a module's memory. Where there is none, the engine returns a nil pointer that is not a nil interface.
func memoryOf(mod api.Module) guestMemory {
	m := mod.Memory()
	if m == nil || reflect.ValueOf(m).IsNil() {
		return noMemory{}
	}
	return m
}
