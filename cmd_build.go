package main

import (
	"context"
	"errors"
	"os/exec"

	"github.com/spf13/cobra"

	"edgepod/wasmrt/guest/overlay"
)

// buildOptions are what `build` passes on to the go command.
type buildOptions struct {
	overlay.Build
	tags     string
	ldflags  string
	trimpath bool
}

func buildCommand(a *app) *cobra.Command {
	o := &buildOptions{}
	cmd := &cobra.Command{
		Use:   "build [PACKAGE] [flags] [-- FLAGS OF GO BUILD]",
		Short: "Build a Go program into a module, with sockets",
		Long: `Builds a program in Go, as it is, into a WASI module whose packages net and net/http have real sockets, where plain
"GOOS=wasip1 go build" gives it pretended ones: TCP and UDP, deadlines, names, and the interface lo. A pod that is to stop
sends the program SIGTERM (os/signal), and os.Hostname tells the pod's name.

It runs your own "go build", with some files of the standard library replaced (-overlay). What follows "--" is passed on.`,
		Example: "  edgepod build -o app.wasm\n  edgepod build ./cmd/app -o app.wasm --ldflags '-s -w'\n  edgepod build ./cmd/app -- -mod=vendor -v",
		Args: func(cmd *cobra.Command, args []string) error {
			if own, _ := splitAtDash(cmd, args); len(own) > 1 {
				return usageError(cmd, "%s builds one package, and got %q", cmd.CommandPath(), own)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			own, more := splitAtDash(cmd, args)
			if len(own) > 0 {
				o.Package = own[0]
			}
			o.Stdout, o.Stderr = a.out, a.errOut
			o.Flags = append(o.flags(), more...)
			return o.run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.Output, "output", "o", "", "the module to write (default: named after the package, in this folder)")
	f.StringVar(&o.tags, "tags", "", "as of go build")
	f.StringVar(&o.ldflags, "ldflags", "", "as of go build; '-s -w' makes the module smaller, without names for back-traces")
	f.BoolVar(&o.trimpath, "trimpath", false, "as of go build")
	f.StringVar(&o.Go, "go", "go", "the go command")
	return cmd
}

// splitAtDash parts the arguments before "--" from those behind it.
func splitAtDash(cmd *cobra.Command, args []string) (own, more []string) {
	if n := cmd.ArgsLenAtDash(); n >= 0 {
		return args[:n], args[n:]
	}
	return args, nil
}

func (o *buildOptions) flags() []string {
	var flags []string
	if o.tags != "" {
		flags = append(flags, "-tags", o.tags)
	}
	if o.ldflags != "" {
		flags = append(flags, "-ldflags", o.ldflags)
	}
	if o.trimpath {
		flags = append(flags, "-trimpath")
	}
	return flags
}

// run ends as the go command did, which has said itself what was wrong with the program.
func (o *buildOptions) run(ctx context.Context) error {
	err := o.Run(ctx)
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() > 0 {
		return exitError{exit.ExitCode()}
	}
	return err
}
