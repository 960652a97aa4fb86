package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"edgepod/wasmrt/guest/overlay"
)

// buildOptions are what `build` passes on to the go command.
type buildOptions struct {
	app      *app
	goTool   string
	output   string
	tags     string
	ldflags  string
	trimpath bool
}

func buildCommand(a *app) *cobra.Command {
	o := &buildOptions{app: a}
	cmd := &cobra.Command{
		Use:   "build [PACKAGE] [flags] [-- FLAGS OF GO BUILD]",
		Short: "Build a Go program into a module, with sockets",
		Long: `Builds a program in Go, as it is, into a WASI module whose packages net and net/http have real sockets, where plain
"GOOS=wasip1 go build" gives it pretended ones: TCP and UDP, deadlines, names, and the interface lo. A pod that is to stop
sends the program SIGTERM (os/signal), and os.Hostname tells the pod's name.

It runs your own "go build", with some files of the standard library replaced (-overlay). What follows "--" is passed on.`,
		Example: "  edgepod build -o app.wasm\n  edgepod build ./cmd/app -o app.wasm --ldflags '-s -w'\n  edgepod build ./cmd/app -- -mod=vendor -v",
		Args: func(cmd *cobra.Command, args []string) error {
			own := args
			if n := cmd.ArgsLenAtDash(); n >= 0 {
				own = args[:n]
			}
			if len(own) > 1 {
				return usageError(cmd, "%s builds one package, and got %q", cmd.CommandPath(), own)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			pkg, more := ".", args
			if n := cmd.ArgsLenAtDash(); n != 0 && len(args) > 0 {
				pkg, more = args[0], args[1:]
			}
			return o.run(cmd, pkg, more)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.output, "output", "o", "", "the module to write (default: named after the package, in this folder)")
	f.StringVar(&o.tags, "tags", "", "as of go build")
	f.StringVar(&o.ldflags, "ldflags", "", "as of go build; '-s -w' makes the module smaller, without names for back-traces")
	f.BoolVar(&o.trimpath, "trimpath", false, "as of go build")
	f.StringVar(&o.goTool, "go", "go", "the go command")
	return cmd
}

func (o *buildOptions) run(cmd *cobra.Command, pkg string, more []string) error {
	toolchain, err := o.toolchain(cmd)
	if err != nil {
		return err
	}
	cache, remove, err := buildFolder()
	if err != nil {
		return err
	}
	defer remove()
	made, err := overlay.Prepare(cache, toolchain)
	if err != nil {
		return err
	}
	if o.output == "" {
		if o.output, err = o.moduleName(cmd, pkg); err != nil {
			return err
		}
	}
	args := append(o.flags(made.List), more...)
	build := exec.CommandContext(cmd.Context(), filepath.Join(made.Root, "bin", "go"), append(args, pkg)...)
	build.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "GOTOOLCHAIN=local", "GOROOT="+made.Root)
	build.Stdout, build.Stderr = o.app.out, o.app.errOut
	return goResult(build.Run())
}

// goResult makes an error of how the go command ended, which has said itself what was wrong.
func goResult(err error) error {
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() > 0 {
		return exitError{exit.ExitCode()}
	}
	return err
}

func (o *buildOptions) flags(list string) []string {
	args := []string{"build", "-overlay", list, "-o", o.output}
	if o.tags != "" {
		args = append(args, "-tags", o.tags)
	}
	if o.ldflags != "" {
		args = append(args, "-ldflags", o.ldflags)
	}
	if o.trimpath {
		args = append(args, "-trimpath")
	}
	return args
}

// toolchain asks the go command which Go builds here: go.mod may choose another than is installed.
func (o *buildOptions) toolchain(cmd *cobra.Command) (overlay.Toolchain, error) {
	text, err := o.ask(cmd, "env", "-json", "GOROOT", "GOVERSION", "GOMODCACHE", "GOFLAGS")
	if err != nil {
		return overlay.Toolchain{}, err
	}
	var env struct{ GOROOT, GOVERSION, GOMODCACHE, GOFLAGS string }
	if err := json.Unmarshal(text, &env); err != nil {
		return overlay.Toolchain{}, fmt.Errorf("%s env: %w", o.goTool, err)
	}
	if strings.Contains(env.GOFLAGS, "-overlay") {
		return overlay.Toolchain{}, fmt.Errorf("GOFLAGS has an -overlay (%s), and edgepod build needs one of its own", env.GOFLAGS)
	}
	t := overlay.Toolchain{Root: env.GOROOT, Version: env.GOVERSION, ModCache: env.GOMODCACHE}
	return t, t.Supports()
}

// moduleName is the name that go build would give a program, with the ending of modules.
func (o *buildOptions) moduleName(cmd *cobra.Command, pkg string) (string, error) {
	text, err := o.ask(cmd, "list", "-f", "{{.Target}}", pkg)
	if err != nil {
		return "", err
	}
	name := filepath.Base(strings.TrimSpace(string(text)))
	if name == "." || name == string(filepath.Separator) {
		return "", fmt.Errorf("%s is no program to build: it is not a package main", pkg)
	}
	return strings.TrimSuffix(name, ".wasm") + ".wasm", nil
}

// ask runs the go command and returns what it prints.
func (o *buildOptions) ask(cmd *cobra.Command, args ...string) ([]byte, error) {
	run := exec.CommandContext(cmd.Context(), o.goTool, args...)
	run.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	var out bytes.Buffer
	run.Stdout, run.Stderr = &out, o.app.errOut
	err := goResult(run.Run())
	if errors.Is(err, exec.ErrNotFound) {
		return nil, fmt.Errorf("%w: edgepod build runs the go command; install Go (https://go.dev/dl), or say where it is with --go", err)
	}
	return out.Bytes(), err
}

// buildFolder is where replaced files are kept between builds: one path for one content, so that Go's cache knows them.
func buildFolder() (dir string, remove func(), err error) {
	if cache, err := os.UserCacheDir(); err == nil {
		return filepath.Join(cache, "edgepod", "build"), func() {}, nil
	}
	dir, err = os.MkdirTemp("", "edgepod-build-")
	return dir, func() { _ = os.RemoveAll(dir) }, err
}
