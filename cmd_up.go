package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"edgepod/server/agent"
)

type upOptions struct {
	app       *app
	cluster   clusterOptions
	logLevel  slog.Level
	ephemeral bool
}

func upCommand(a *app) *cobra.Command {
	o := &upOptions{app: a, logLevel: slog.LevelWarn}
	cmd := &cobra.Command{
		Use:   "up [flags] [--ephemeral [-- COMMAND ARGS]]",
		Short: "Start a cluster of one node, in the foreground",
		Long: `Starts the API server, the controllers and a node in one process. State is kept in the data folder.

Ctrl-C stops the cluster and its pods, which start again with the next "up"; a second Ctrl-C kills them at once. SIGTERM,
as service managers send it, and closing the terminal leave pods running for the next start to adopt; "nohup" keeps the
cluster up. "edgepod down" ends cluster and pods from elsewhere.

With --ephemeral the cluster has a folder and a port of its own and is gone at the end, pods and all. A command after "--"
is run with KUBECONFIG set once the node is ready; its exit code becomes edgepod's.
` + registriesHelp,
		Example: "  edgepod up\n  edgepod up --image-dir ./build --host-path /srv/data\n  edgepod up --ephemeral -- kubectl get nodes",
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) > 0 && !o.ephemeral:
				return fmt.Errorf("a command to run (%q) goes with --ephemeral only", args[0])
			case o.ephemeral && cmd.Flags().Changed("data-dir"):
				return errors.New("--ephemeral has a data folder of its own: leave --data-dir out")
			case o.ephemeral && !cmd.Flags().Changed("listen"):
				o.cluster.listen = "127.0.0.1:0"
			}
			return o.run(cmd.Context(), args)
		},
	}
	f := cmd.Flags()
	addServerFlags(f, &o.cluster)
	addNodeFlags(f, &o.cluster)
	addLogFlag(f, &o.logLevel)
	f.BoolVar(&o.ephemeral, "ephemeral", false, "a throw-away cluster on a free port, for the time of the command after --")
	return cmd
}

// run starts the cluster and returns at its end.
func (o *upOptions) run(ctx context.Context, command []string) (err error) {
	if err := errors.Join(o.cluster.checkServer(), o.cluster.checkNode()); err != nil {
		return err
	}
	o.cluster.dataDir = o.app.dataDir
	if o.ephemeral {
		if o.cluster.dataDir, err = os.MkdirTemp("", "edgepod-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(o.cluster.dataDir)) }()
	}
	outliveOutput()
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, endSignals()...)
	defer signal.Stop(signals)
	c, err := openCluster(o.cluster, newLog(o.app.errOut, o.logLevel))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	s := &session{app: o.app, cluster: c, options: o.cluster, signals: signals, ephemeral: o.ephemeral, command: command}
	return s.run(ctx)
}

// newLog returns the program's one logger.
func newLog(w io.Writer, level slog.Level) *slog.Logger {
	handler := slog.NewTextHandler(w, &slog.HandlerOptions{Level: level})
	klog.SetSlogLogger(slog.New(demoted{handler}))
	return slog.New(handler)
}

// demoted takes what Kubernetes' client code says for debugging: the parts that use it tell users themselves what failed.
type demoted struct{ slog.Handler }

// Enabled tells whether debugging is logged. The bodies of requests and answers never are.
func (d demoted) Enabled(ctx context.Context, level slog.Level) bool {
	return level > agent.LevelBodies && d.Handler.Enabled(ctx, slog.LevelDebug)
}

// Handle logs the record at level debug.
func (d demoted) Handle(ctx context.Context, r slog.Record) error {
	r.Level = slog.LevelDebug
	return d.Handler.Handle(ctx, r)
}

// WithAttrs returns a handler that adds the attributes.
func (d demoted) WithAttrs(attrs []slog.Attr) slog.Handler {
	return demoted{d.Handler.WithAttrs(attrs)}
}

// WithGroup returns a handler that opens the group.
func (d demoted) WithGroup(name string) slog.Handler { return demoted{d.Handler.WithGroup(name)} }
