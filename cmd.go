package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
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
	exitFailed    = 1
	exitNotRun    = 125
	exitInterrupt = 130
)

// execute runs one command line and returns the program's exit code.
func execute(ctx context.Context, a *app, args []string) int {
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
	}
	root.PersistentFlags().StringVar(&a.dataDir, "data-dir", defaultDataDir(os.Getenv), "folder that holds the cluster's state, also $"+dataDirVariable)
	groups := []struct {
		id, title string
		commands  []*cobra.Command
	}{
		{"cluster", "The cluster:", []*cobra.Command{upCommand(a), serverCommand(a), agentCommand(a), downCommand(a), kubeconfigCommand(a), doctorCommand(a)}},
		{"objects", "What runs in it:", []*cobra.Command{runCommand(a), applyCommand(a), getCommand(a), describeCommand(a), logsCommand(a), deleteCommand(a)}},
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
