package wazero

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"edgepod/wasmrt/engine"
)

// module implements engine.Module.
type module struct {
	machine  *machine
	compiled wazero.CompiledModule
}

// Imports implements engine.Module.
func (m *module) Imports() []engine.Import {
	defs := m.compiled.ImportedFunctions()
	imports := make([]engine.Import, len(defs))
	for i, def := range defs {
		from, name, _ := def.Import()
		imports[i] = engine.Import{Module: from, Name: name, Params: def.ParamTypes(), Results: def.ResultTypes()}
	}
	return imports
}

// Exports implements engine.Module.
func (m *module) Exports() []engine.Export {
	var exports []engine.Export
	for name, def := range m.compiled.ExportedFunctions() {
		exports = append(exports, engine.Export{Name: name, Params: def.ParamTypes(), Results: def.ResultTypes()})
	}
	slices.SortFunc(exports, func(a, b engine.Export) int { return cmp.Compare(a.Name, b.Name) })
	return exports
}

// Link implements engine.Module. The host modules have no name in the engine, so that several guests may live in one; they
// are closed with it.
func (m *module) Link(ctx context.Context, functions []engine.Function) (engine.Guest, error) {
	g := &guest{module: m, memory: engine.NoMemory{}}
	rt := m.machine.runtime
	builders := map[string]wazero.HostModuleBuilder{}
	for _, f := range functions {
		b, ok := builders[f.Module]
		if !ok {
			b = rt.NewHostModuleBuilder(f.Module)
			builders[f.Module] = b
		}
		b.NewFunctionBuilder().WithGoModuleFunction(g.bind(f), f.Params, f.Results).WithName(f.Name).Export(f.Name)
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
	g.resolve = func(name string) api.Module {
		if found, ok := modules[name]; ok {
			return found
		}
		return nil // not a nil pointer in an interface
	}
	return g, nil
}

// guest implements engine.Guest.
type guest struct {
	module   *module
	resolve  experimental.ImportResolver
	instance api.Module
	memory   engine.Memory
	found    bool // memory is the instance's
}

// bind makes the engine's function of f.
func (g *guest) bind(f engine.Function) api.GoModuleFunction {
	call := f.Call
	return api.GoModuleFunc(func(_ context.Context, caller api.Module, stack []uint64) {
		if !g.found {
			g.find(caller)
		}
		call(g.memory, stack)
	})
}

// find takes note of the guest's memory, which is the same all its life. Where there is none, the engine returns a nil
// pointer that is not a nil interface.
func (g *guest) find(instance api.Module) {
	g.found = true
	if m := instance.Memory(); m != nil && !reflect.ValueOf(m).IsNil() {
		g.memory = m
	}
}

// Start implements engine.Guest.
func (g *guest) Start(ctx context.Context) (err error) {
	defer recovered(&err)
	if a := g.module.machine.memory; a != nil {
		ctx = experimental.WithMemoryAllocator(ctx, allocator{a})
	}
	ctx = experimental.WithImportResolver(ctx, g.resolve)
	// No _start yet: it is called like any other function.
	cfg := wazero.NewModuleConfig().WithName("").WithStartFunctions()
	if g.instance, err = g.module.machine.runtime.InstantiateModule(ctx, g.module.compiled, cfg); err != nil {
		return trapOf(err)
	}
	g.find(g.instance)
	return nil
}

// Call implements engine.Guest.
func (g *guest) Call(ctx context.Context, export string, params ...uint64) (results []uint64, err error) {
	defer recovered(&err)
	if g.instance == nil {
		return nil, errors.New("the guest was not started")
	}
	f := g.instance.ExportedFunction(export)
	if f == nil {
		return nil, fmt.Errorf("the module exports no function %s", export)
	}
	if results, err = f.Call(ctx, params...); err != nil {
		return nil, trapOf(err)
	}
	return results, nil
}

// Memory implements engine.Guest.
func (g *guest) Memory() engine.Memory { return g.memory }

// recovered turns a panic of the engine into an error.
func recovered(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("the engine failed: %v", r)
	}
}

// trapOf gives a trap its type.
func trapOf(err error) error {
	if t, ok := engine.ParseTrap(err.Error()); ok {
		return t
	}
	return err
}
