package overlay

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Build says how a program is to be built into a module.
type Build struct {
	// Go is the go command; "" is go.
	Go string
	// Dir is where the go command runs, "" here.
	Dir string
	// Package is the program; "" is the one in Dir.
	Package string
	// Output is the module; "" is named after the package, in Dir.
	Output string
	// Flags are further flags of go build.
	Flags []string
	// Stdout and Stderr get what the go command prints.
	Stdout, Stderr io.Writer
}

// Run builds the module. What was wrong with the program the go command has said to Stderr; the error is then an
// *exec.ExitError.
func (b Build) Run(ctx context.Context) error {
	if b.Go == "" {
		b.Go = "go"
	}
	if b.Package == "" {
		b.Package = "."
	}
	toolchain, err := b.toolchain(ctx)
	if err != nil {
		return err
	}
	cache, remove, err := folder()
	if err != nil {
		return err
	}
	defer remove()
	made, err := Prepare(cache, toolchain)
	if err != nil {
		return fmt.Errorf("prepare the standard library: %w", err)
	}
	name, err := b.moduleName(ctx)
	if err != nil {
		return err
	}
	if b.Output == "" {
		b.Output = name
	}
	args := append([]string{"build", "-overlay", made.List, "-o", b.Output}, b.Flags...)
	build := b.command(ctx, filepath.Join(made.Root, "bin", "go"), append(args, b.Package)...)
	build.Env = append(build.Env, "GOTOOLCHAIN=local", "GOROOT="+made.Root)
	build.Stdout = b.Stdout
	return build.Run()
}

// toolchain asks the go command which Go builds here: go.mod may choose another than is installed.
func (b Build) toolchain(ctx context.Context) (Toolchain, error) {
	text, err := b.ask(ctx, "env", "-json", "GOROOT", "GOVERSION", "GOMODCACHE", "GOFLAGS")
	if err != nil {
		return Toolchain{}, err
	}
	var env struct{ GOROOT, GOVERSION, GOMODCACHE, GOFLAGS string }
	if err := json.Unmarshal(text, &env); err != nil {
		return Toolchain{}, fmt.Errorf("%s env: %w", b.Go, err)
	}
	if strings.Contains(env.GOFLAGS, "-overlay") {
		return Toolchain{}, fmt.Errorf("GOFLAGS has an -overlay (%s), and this build needs one of its own", env.GOFLAGS)
	}
	for _, flag := range b.Flags {
		if strings.HasPrefix(strings.TrimLeft(flag, "-"), "overlay") && strings.HasPrefix(flag, "-") {
			return Toolchain{}, fmt.Errorf("the flags have an -overlay (%s), and this build needs one of its own", flag)
		}
	}
	t := Toolchain{Root: env.GOROOT, Version: env.GOVERSION, ModCache: env.GOMODCACHE}
	return t, t.Supports()
}

// moduleName is the name that go build would give the program, with the ending of modules. Of what is no program, go build
// would make an archive.
func (b Build) moduleName(ctx context.Context) (string, error) {
	args := append([]string{"list", "-find", "-f", "{{.Name}} {{.Target}}"}, b.Flags...)
	text, err := b.ask(ctx, append(args, b.Package)...)
	if err != nil {
		return "", err
	}
	name, target, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
	if name != "main" {
		return "", fmt.Errorf("%s is no program: it is package %s, not package main", b.Package, name)
	}
	return strings.TrimSuffix(filepath.Base(target), ".wasm") + ".wasm", nil
}

// ask runs the go command and returns what it prints.
func (b Build) ask(ctx context.Context, args ...string) ([]byte, error) {
	var out bytes.Buffer
	run := b.command(ctx, b.Go, args...)
	run.Stdout = &out
	err := run.Run()
	if errors.Is(err, exec.ErrNotFound) {
		return nil, fmt.Errorf("%w: to build a Go program takes Go (https://go.dev/dl)", err)
	}
	return out.Bytes(), err
}

func (b Build) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	run := exec.CommandContext(ctx, name, args...)
	run.Dir, run.Stderr = b.Dir, b.Stderr
	run.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	return run
}

// folder is where overlays are kept between builds: one path for one content, so that Go's cache knows it.
func folder() (dir string, remove func(), err error) {
	if cache, err := os.UserCacheDir(); err == nil {
		return filepath.Join(cache, "edgepod", "build"), func() {}, nil
	}
	dir, err = os.MkdirTemp("", "edgepod-build-")
	return dir, func() { _ = os.RemoveAll(dir) }, err
}
