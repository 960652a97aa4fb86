//go:build linux

// Command wasirun runs one module with the guest's system calls of package wasi, without a cluster:
//
//	wasirun [--dir HOST[::GUEST]]... [--env NAME=VALUE]... MODULE [ARGUMENT]...
//
// Each --dir is a folder that the guest starts with, under the name GUEST, which is HOST where it is left out. Standard
// input and outputs are passed through, and the guest's exit code is the program's; after a trap it is 134. A test runner
// that knows such an option, as that of the public test suite does, can run its programs so.
//
// The guest runs in this very process, with no limits and no walls around it but those of package wasi.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"edgepod/wasmrt/engine"
	"edgepod/wasmrt/engine/wazero"
	"edgepod/wasmrt/fs"
	"edgepod/wasmrt/wasi"
)

// The exit codes of wasirun's own: of a guest that trapped, as if it had ended by SIGABRT, and of one that could not be run.
const (
	codeTrap  = 134
	codeError = 125
)

func main() {
	code, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "wasirun:", err)
	}
	os.Exit(code)
}

// options are what the command line says.
type options struct {
	dirs   []string
	env    []string
	module string
	args   []string
}

func parse(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("wasirun", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	list := func(to *[]string) func(string) error {
		return func(s string) error {
			*to = append(*to, s)
			return nil
		}
	}
	flags.Func("dir", "a folder for the guest, as HOST[::GUEST]", list(&o.dirs))
	flags.Func("env", "a variable for the guest, as NAME=VALUE", list(&o.env))
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() == 0 {
		return o, errors.New("no module is named: wasirun [--dir HOST[::GUEST]]... [--env NAME=VALUE]... MODULE [ARGUMENT]...")
	}
	o.module, o.args = flags.Arg(0), flags.Args()[1:]
	return o, nil
}

// run runs a guest to its end and returns the exit code.
func run(args []string) (int, error) {
	o, err := parse(args)
	if err != nil {
		return codeError, err
	}
	wasm, err := os.ReadFile(o.module)
	if err != nil {
		return codeError, err
	}
	host, err := newHost(o)
	if err != nil {
		return codeError, err
	}
	ctx := context.Background()
	e := wazero.New(ctx, engine.Config{})
	code, err := call(ctx, e, host, wasm)
	if closed := errors.Join(e.Close(ctx), host.Close()); err == nil && closed != nil {
		return codeError, closed
	}
	return code, err
}

// newHost makes what the guest sees: its folders where their names say in a tree, so that links lead from one to another.
func newHost(o options) (*wasi.Host, error) {
	var tree fs.Config
	var preopens []wasi.Preopen
	for _, dir := range o.dirs {
		source, name, ok := strings.Cut(dir, "::")
		if !ok {
			name = source
		}
		target := path.Clean("/" + name)
		if target == "/" {
			tree.Root = source
		} else {
			tree.Mounts = append(tree.Mounts, fs.Mount{Source: source, Target: target})
		}
		preopens = append(preopens, wasi.Preopen{Name: name, Path: target})
	}
	t, err := fs.New(tree)
	if err != nil {
		return nil, err
	}
	return wasi.New(wasi.Config{
		Args: append([]string{filepath.Base(o.module)}, o.args...), Env: o.env,
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, FS: t, Preopens: preopens,
	})
}

// call compiles the module and runs it.
func call(ctx context.Context, e engine.Engine, host *wasi.Host, wasm []byte) (int, error) {
	module, err := e.Compile(ctx, wasm)
	if err != nil {
		return codeError, err
	}
	guest, err := host.Link(ctx, module)
	if err != nil {
		return codeError, err
	}
	if err = guest.Start(ctx); err == nil && begins(module) {
		_, err = guest.Call(ctx, "_start")
	}
	code, _, err := wasi.ExitCode(err)
	if err != nil {
		return codeTrap, err
	}
	return int(code), nil
}

// begins tells that the module has a function to begin with; one without has done all when it is started.
func begins(module engine.Module) bool {
	return slices.ContainsFunc(module.Exports(), func(e engine.Export) bool { return e.Name == "_start" })
}
