package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"sync"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"edgepod/server/agent"
)

type agentOptions struct {
	app        *app
	node       clusterOptions
	kubeconfig string
	listen     string
	logLevel   slog.Level
}

func agentCommand(a *app) *cobra.Command {
	o := &agentOptions{app: a, logLevel: slog.LevelInfo}
	cmd := &cobra.Command{
		Use:   "agent --kubeconfig FILE",
		Short: "Run a node alone, for a control plane elsewhere",
		Long: `Joins the cluster of the kubeconfig, which "edgepod kubeconfig --node NAME" makes on the server's machine, and runs the pods
that are bound to the node.

Ctrl-C stops the node's pods with it. SIGTERM and closing the terminal leave them running for the next start to adopt. Logs
are fetched by the server from the address of --listen, which lets nobody else in.
` + registriesHelp,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.node.dataDir = a.dataDir
			return o.run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig of the node")
	f.StringVar(&o.listen, "listen", ":0", "address at which the server reaches this agent; port 0 takes a free one")
	addNodeFlags(f, &o.node)
	addLogFlag(f, &o.logLevel)
	return cmd
}

func (o *agentOptions) run(ctx context.Context) (err error) {
	if o.kubeconfig == "" {
		return errors.New("--kubeconfig is missing: make one on the server's machine with `edgepod kubeconfig --node NAME`")
	}
	if err := o.node.checkNode(); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return fmt.Errorf("kubeconfig: %w", err)
	}
	held, err := lockDataDir(o.node.dataDir, lockPatience)
	if err != nil {
		return err
	}
	defer held.release()
	log := newLog(o.app.errOut, o.logLevel)
	if err := rest.LoadTLSFiles(config); err != nil {
		return fmt.Errorf("kubeconfig: %w", err)
	}
	images, err := newRegistryTransport(config)
	if err != nil {
		return fmt.Errorf("kubeconfig: %w", err)
	}
	runtime, err := newRuntime(o.node.dataDir, o.node.runtimeConfig(images, log))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, runtime.Close()) }()
	listener, err := net.Listen("tcp", o.listen)
	if err != nil {
		return fmt.Errorf("listen on %s: %w (choose another address with --listen HOST:PORT)", o.listen, err)
	}
	defer listener.Close()
	settings, err := o.node.agentConfig(config, runtime, log)
	if err != nil {
		return err
	}
	settings.Node.Port = int32(listener.Addr().(*net.TCPAddr).Port)
	node, err := agent.New(settings)
	if err != nil {
		return err
	}
	return o.serve(ctx, node, config, listener, log)
}

// serve runs the agent until a signal, which tells whether its pods end with it.
func (o *agentOptions) serve(ctx context.Context, node *agent.Agent, config *rest.Config, listener net.Listener, log *slog.Logger) error {
	outliveOutput()
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, endSignals()...)
	defer signal.Stop(signals)
	running, stop := context.WithCancel(ctx)
	defer stop()
	var errs [3]error
	var wait sync.WaitGroup
	wait.Go(func() { defer stop(); errs[0] = node.Run(running) })
	wait.Go(func() { defer stop(); errs[1] = node.Serve(running, listener) })
	wait.Go(func() {
		if core, err := coreClient(config); err == nil && waitForNode(running, core, o.node.nodeName) == nil {
			fmt.Fprintf(o.app.out, "edgepod agent is up: node %s is Ready, state in %s\n", o.node.nodeName, o.node.dataDir)
			tidyModules(running, core, modulesPath(o.node.dataDir), log)
		}
	})
	select {
	case <-running.Done():
	case received := <-signals:
		if received == os.Interrupt {
			patience, kill := signal.NotifyContext(running, endSignals()...)
			fmt.Fprintln(o.app.errOut, "Stopping the node and its pods; once more to leave them running.")
			errs[2] = node.StopPods(patience)
			kill()
		}
	}
	stop()
	wait.Wait()
	return errors.Join(errs[:]...)
}
