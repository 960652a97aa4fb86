package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"edgepod/wasmrt/container"
)

// app is what every command shares: where it reads and writes, and the folder that holds a cluster's state.
type app struct {
	in      io.Reader
	out     io.Writer
	errOut  io.Writer
	dataDir string
}

// exitError ends the program with the code of something that it ran. What there was to say has been said.
type exitError struct{ code int }

func (e exitError) Error() string { return fmt.Sprintf("exit code %d", e.code) }

// Exit codes of our own: 1 for an error, 125 for a pod that `run` could not start, as docker has it.
const (
	exitFailed = 1
	exitNotRun = 125
	// exitTrap is the code of a guest that trapped; its log ends with the trap.
	exitTrap = container.CodeTrap
)

// execute runs one command line and returns the program's exit code.
func execute(ctx context.Context, a *app, args []string) int {
	klog.SetSlogLogger(slog.New(slog.DiscardHandler)) // commands say themselves what failed
	root := newRootCommand(a)
	root.SetArgs(args)
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.errOut)
	err := root.ExecuteContext(ctx)
	var exit exitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.code
	}
	fmt.Fprintf(a.errOut, "Error: %v\n", explain(err))
	return exitFailed
}

func newRootCommand(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:           "edgepod",
		Short:         "A WebAssembly-first edge orchestrator that speaks the Kubernetes API",
		Long:          "edgepod runs Kubernetes pods whose containers are WASI modules.\n\n`edgepod up` starts a cluster of one node; kubectl and the commands below talk to it.",
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRunE: func(*cobra.Command, []string) (err error) {
			if a.dataDir == "" {
				return errors.New("--data-dir is empty")
			}
			a.dataDir, err = filepath.Abs(a.dataDir)
			return err
		},
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return usageError(cmd, err.Error()) })
	root.PersistentFlags().StringVar(&a.dataDir, "data-dir", defaultDataDir(os.Getenv), "folder that holds the cluster's state, also $"+dataDirVariable)
	groups := []struct {
		id, title string
		commands  []*cobra.Command
	}{
		{"cluster", "The cluster:", []*cobra.Command{upCommand(a), serverCommand(a), agentCommand(a), downCommand(a), kubeconfigCommand(a), doctorCommand(a)}},
		{"objects", "What runs in it:", []*cobra.Command{runCommand(a), buildCommand(a), pushCommand(a), imagesCommand(a), inspectCommand(a), applyCommand(a), getCommand(a), describeCommand(a), logsCommand(a), deleteCommand(a)}},
	}
	for _, g := range groups {
		root.AddGroup(&cobra.Group{ID: g.id, Title: g.title})
		for _, c := range g.commands {
			c.GroupID = g.id
			root.AddCommand(c)
		}
	}
	root.AddCommand(versionCommand(a))
	return root
}

// usageError points to the help of a command that was called wrongly.
func usageError(cmd *cobra.Command, format string, args ...any) error {
	return fmt.Errorf(format+"; see `%s --help`", append(args, cmd.CommandPath())...)
}

// noArguments is for commands that take none.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError(cmd, "%s takes no arguments, and got %q", cmd.CommandPath(), args[0])
	}
	return nil
}
