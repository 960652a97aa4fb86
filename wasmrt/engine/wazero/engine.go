// Package wazero is the engine that containers run on: github.com/tetratelabs/wazero, its compiler.
package wazero

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"edgepod/wasmrt/engine"
)

// features are the parts of WebAssembly that modules may use: version 2, threads' atomics, tail calls and extended
// constants. Exception handling stays off: this version restores locals wrongly on a catch.
const features = api.CoreFeaturesV2 | experimental.CoreFeaturesThreads | experimental.CoreFeaturesTailCall |
	experimental.CoreFeaturesExtendedConst

// Identity names this engine, its version and what modules may use: code that was saved under another identity is not
// what this one would make.
var Identity = sync.OnceValue(func() string {
	version := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dep := range info.Deps {
			if dep.Path == "github.com/tetratelabs/wazero" {
				version = dep.Version
			}
		}
	}
	return fmt.Sprintf("wazero %s %x", version, uint64(features))
})

// New returns an engine that compiles each module anew.
func New(ctx context.Context, cfg engine.Config) engine.Engine { return open(ctx, cfg, nil) }

func open(ctx context.Context, cfg engine.Config, cache wazero.CompilationCache) *machine {
	rc := wazero.NewRuntimeConfigCompiler().WithCoreFeatures(features)
	if cache != nil {
		rc = rc.WithCompilationCache(cache)
	}
	if cfg.Pages > 0 {
		rc = rc.WithMemoryLimitPages(cfg.Pages)
	}
	return &machine{runtime: wazero.NewRuntimeWithConfig(ctx, rc), memory: cfg.Memory}
}

// machine implements engine.Engine.
type machine struct {
	runtime wazero.Runtime
	memory  engine.Allocator
}

// Compile implements engine.Engine.
func (m *machine) Compile(ctx context.Context, wasm []byte) (engine.Module, error) {
	compiled, err := m.runtime.CompileModule(ctx, wasm)
	if err != nil {
		return nil, refused(err)
	}
	return &module{machine: m, compiled: compiled}, nil
}

// Close implements engine.Engine.
func (m *machine) Close(ctx context.Context) error { return m.runtime.Close(ctx) }

// allocator gives wazero the memory of an engine.Allocator.
type allocator struct{ engine.Allocator }

// Allocate implements experimental.MemoryAllocator.
func (a allocator) Allocate(_, limit uint64) experimental.LinearMemory {
	return a.Allocator.Allocate(limit)
}
