// Command engines runs a module in this process, on the engine that is named, for the tests that compare engines:
//
//	engines wazero|wazy ROOT MODULE [ARGUMENT]...
//
// The guest's root is the folder ROOT. It ends with the guest's exit code.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"edgepod/wasmrt/engine"
	"edgepod/wasmrt/engine/wazero"
	"edgepod/wasmrt/engine/wazy"
	"edgepod/wasmrt/fs"
	"edgepod/wasmrt/wasi"
)

func main() {
	code, err := run(context.Background(), os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "engines:", err)
		os.Exit(1)
	}
	os.Exit(int(code))
}

func run(ctx context.Context, args []string) (code uint32, err error) {
	if len(args) < 3 {
		return 0, errors.New("say ENGINE ROOT MODULE")
	}
	engines := map[string]func(context.Context, engine.Config) engine.Engine{"wazero": wazero.New, "wazy": wazy.New}
	open, ok := engines[args[0]]
	if !ok {
		return 0, fmt.Errorf("there is no engine %q", args[0])
	}
	wasm, err := os.ReadFile(args[2])
	if err != nil {
		return 0, err
	}
	tree, err := fs.New(fs.Config{Root: args[1]})
	if err != nil {
		return 0, err
	}
	name := strings.TrimSuffix(filepath.Base(args[2]), ".wasm")
	host, err := wasi.New(wasi.Config{Args: append([]string{name}, args[3:]...), Stdout: os.Stdout, Stderr: os.Stderr, FS: tree})
	if err != nil {
		return 0, err
	}
	e := open(ctx, engine.Config{})
	code, err = start(ctx, e, host, wasm)
	return code, errors.Join(err, e.Close(ctx), host.Close())
}

// start runs the guest to its end.
func start(ctx context.Context, e engine.Engine, host *wasi.Host, wasm []byte) (code uint32, err error) {
	module, err := e.Compile(ctx, wasm)
	if err != nil {
		return 0, err
	}
	guest, err := host.Link(ctx, module)
	if err != nil {
		return 0, err
	}
	if err := guest.Start(ctx); err != nil {
		return 0, err
	}
	_, err = guest.Call(ctx, "_start")
	code, _, err = wasi.ExitCode(err)
	return code, err
}
