package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"
)

// version is that of the Kubernetes API served, with the program's own as build metadata. The linker sets commit.
const version = "v1.37.2+edgepod"

var commit = "unknown"

func versionCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(a.out, "edgepod %s (commit %s, %s, %s/%s)\n", version, commit, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}
