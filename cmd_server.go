package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os/signal"
	"sync"

	"github.com/spf13/cobra"

	"edgepod/server"
)

func serverCommand(a *app) *cobra.Command {
	var o clusterOptions
	level := slog.LevelInfo
	cmd := &cobra.Command{
		Use:   "server",
		Short: "Run the control plane alone, for agents on this machine or others",
		Long:  "Runs API server, scheduler and controllers without a node. `edgepod kubeconfig --node NAME` makes the kubeconfig with\nwhich `edgepod agent` joins.",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.checkServer(); err != nil {
				return err
			}
			outliveOutput()
			ctx, stop := signal.NotifyContext(cmd.Context(), endSignals()...)
			defer stop()
			o.dataDir = a.dataDir
			return runServer(ctx, a, o, newLog(a.errOut, level))
		},
	}
	addServerFlags(cmd.Flags(), &o)
	addLogFlag(cmd.Flags(), &level)
	return cmd
}

func runServer(ctx context.Context, a *app, o clusterOptions, log *slog.Logger) error {
	held, err := lockDataDir(o.dataDir, lockPatience)
	if err != nil {
		return err
	}
	defer held.release()
	s, err := server.New(o.serverConfig(log))
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var failed error
	var wait sync.WaitGroup
	wait.Go(func() {
		defer stop()
		failed = s.Run(ctx)
	})
	select {
	case <-s.Ready():
		fmt.Fprintf(a.out, "edgepod server is up: API at %s, state in %s\n", s.URL(), o.dataDir)
	case <-ctx.Done():
	}
	wait.Wait()
	return errors.Join(failed, s.Close())
}
