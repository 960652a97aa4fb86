// Package wazy is a second engine, github.com/samyfodil/wazy, for tests alone: what guests do on one engine is compared
// with what they do on another.
package wazy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/samyfodil/wazy"
	"github.com/samyfodil/wazy/api"
	"github.com/samyfodil/wazy/experimental"

	"edgepod/wasmrt/engine"
)

// features are those of package wazero.
const features = api.CoreFeaturesV2 | experimental.CoreFeaturesThreads | api.CoreFeatureTailCall | api.CoreFeatureExtendedConst

// New returns an engine. It makes its own memory, whatever cfg says.
func New(ctx context.Context, cfg engine.Config) engine.Engine {
	rc := wazy.NewRuntimeConfigCompiler().WithCoreFeatures(features)
	if cfg.Pages > 0 {
		rc = rc.WithMemoryLimitPages(cfg.Pages)
	}
	return &machine{runtime: wazy.NewRuntimeWithConfig(ctx, rc)}
}

type machine struct{ runtime wazy.Runtime }

// Compile implements engine.Engine.
func (m *machine) Compile(ctx context.Context, wasm []byte) (engine.Module, error) {
	compiled, err := m.runtime.CompileModule(ctx, wasm)
	if err != nil {
		return nil, &engine.RefusedError{Err: err}
	}
	return &module{runtime: m.runtime, compiled: compiled}, nil
}

// Close implements engine.Engine.
func (m *machine) Close(ctx context.Context) error { return m.runtime.Close(ctx) }

type module struct {
	runtime  wazy.Runtime
	compiled wazy.CompiledModule
}

// Imports implements engine.Module.
func (m *module) Imports() (imports []engine.Import) {
	for _, def := range m.compiled.ImportedFunctions() {
		from, name, _ := def.Import()
		imports = append(imports, engine.Import{Module: from, Name: name, Params: def.ParamTypes(), Results: def.ResultTypes()})
	}
	return imports
}

// Exports implements engine.Module.
func (m *module) Exports() (exports []engine.Export) {
	for name, def := range m.compiled.ExportedFunctions() {
		exports = append(exports, engine.Export{Name: name, Params: def.ParamTypes(), Results: def.ResultTypes()})
	}
	slices.SortFunc(exports, func(a, b engine.Export) int { return cmp.Compare(a.Name, b.Name) })
	return exports
}

// Link implements engine.Module.
func (m *module) Link(ctx context.Context, functions []engine.Function) (engine.Guest, error) {
	g := &guest{module: m, memory: engine.NoMemory{}}
	builders := map[string]wazy.HostModuleBuilder{}
	for _, f := range functions {
		b, ok := builders[f.Module]
		if !ok {
			b = m.runtime.NewHostModuleBuilder(f.Module)
			builders[f.Module] = b
		}
		b.NewFunctionBuilder().WithGoModuleFunction(g.bind(f), f.Params, f.Results).WithName(f.Name).Export(f.Name)
	}
	for name, b := range builders {
		if _, err := b.Instantiate(ctx); err != nil {
			return nil, fmt.Errorf("host module %s: %w", name, err)
		}
	}
	return g, nil
}

type guest struct {
	module   *module
	instance api.Module
	memory   engine.Memory
	found    bool
}

func (g *guest) bind(f engine.Function) api.GoModuleFunction {
	return api.GoModuleFunc(func(_ context.Context, caller api.Module, stack []uint64) {
		g.find(caller)
		f.Call(g.memory, stack)
	})
}

func (g *guest) find(instance api.Module) {
	if g.found {
		return
	}
	g.found = true
	if m := instance.Memory(); m != nil && !reflect.ValueOf(m).IsNil() {
		g.memory = m
	}
}

// Start implements engine.Guest.
func (g *guest) Start(ctx context.Context) (err error) {
	cfg := wazy.NewModuleConfig().WithName("").WithStartFunctions()
	if g.instance, err = g.module.runtime.InstantiateModule(ctx, g.module.compiled, cfg); err != nil {
		return trapOf(err)
	}
	g.find(g.instance)
	return nil
}

// Call implements engine.Guest.
func (g *guest) Call(ctx context.Context, export string, params ...uint64) ([]uint64, error) {
	if g.instance == nil {
		return nil, errors.New("the guest was not started")
	}
	f := g.instance.ExportedFunction(export)
	if f == nil {
		return nil, fmt.Errorf("the module exports no function %s", export)
	}
	results, err := f.Call(ctx, params...)
	if err != nil {
		return nil, trapOf(err)
	}
	return results, nil
}

// Memory implements engine.Guest.
func (g *guest) Memory() engine.Memory { return g.memory }

func trapOf(err error) error {
	if t, ok := engine.ParseTrap(err.Error()); ok {
		return t
	}
	return err
}
