package wazero

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/experimental"

	"edgepod/wasmrt/engine"
)

// What Save leaves: the module as Load reads it, and the engine's own folder.
const (
	shellFile = "module.wasm"
	codeDir   = "code"
)

// Save compiles a module and leaves what Load needs in dir, an empty folder. debug may be a module that holds nothing but
// the sections for debuggers of this one: from a small module, traps then tell where in its source they came from. The
// error is an *engine.RefusedError where the module is at fault.
//
// The engine reads and validates the whole of a module also where it finds its code saved, and knows saved code by the
// module's bytes alone. What it then uses is everything but the functions' instructions, which are most of a module. So
// the code of the module is saved as that of its shell, the same module with empty functions, and it is the shell that
// is read at each start.
func Save(ctx context.Context, wasm, debug []byte, dir string) error {
	wasm = withDebug(wasm, debug)
	scratch := filepath.Join(dir, "scratch")
	full, err := saveOne(ctx, wasm, scratch)
	if err != nil {
		return err
	}
	shell, err := shellOf(wasm)
	if err != nil {
		return &engine.RefusedError{Err: err}
	}
	runtime.GC() // or what compiling has left would count against the limit twice
	empty, err := saveOne(ctx, shell, filepath.Join(dir, codeDir))
	if err != nil {
		return fmt.Errorf("save the module's shell: %w", err)
	}
	if full != "" && empty != "" {
		if err := os.Rename(full, empty); err != nil {
			return fmt.Errorf("save code: %w", err)
		}
	}
	if err := os.RemoveAll(scratch); err != nil {
		return fmt.Errorf("save code: %w", err)
	}
	return os.WriteFile(filepath.Join(dir, shellFile), shell, 0o600)
}

// saveOne compiles a module and returns the file of its code in dir.
func saveOne(ctx context.Context, wasm []byte, dir string) (file string, err error) {
	cache, err := wazero.NewCompilationCacheWithDir(dir)
	if err != nil {
		return "", fmt.Errorf("save code: %w", err)
	}
	defer func() { err = errors.Join(err, cache.Close(ctx)) }()
	m := open(ctx, engine.Config{}, cache)
	if _, err := m.Compile(ctx, wasm); err != nil {
		return "", err
	}
	return file, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || d.IsDir():
			return err
		case file != "":
			return fmt.Errorf("save code: the engine wrote more than one file: %s and %s", file, path)
		}
		file = path
		return nil
	})
}

// Load takes up what Save has left in dir: nobody else may be able to write there, since it is run as it is. The engine
// returned holds nothing but this module.
func Load(ctx context.Context, cfg engine.Config, dir string) (engine.Engine, engine.Module, error) {
	shell, err := os.ReadFile(filepath.Join(dir, shellFile))
	if err != nil {
		return nil, nil, fmt.Errorf("load code: %w", err)
	}
	cache, err := wazero.NewCompilationCacheWithDir(filepath.Join(dir, codeDir))
	if err != nil {
		return nil, nil, fmt.Errorf("load code: %w", err)
	}
	m := open(ctx, cfg, cache)
	// The shell's own functions must never run. Compiling them fails, as its context has ended; finding code does not.
	found, cancel := context.WithCancel(experimental.WithCompilationWorkers(ctx, 2))
	cancel()
	loaded, err := m.Compile(found, shell)
	if err != nil {
		return nil, nil, errors.Join(err, m.Close(ctx))
	}
	return m, loaded, nil
}
