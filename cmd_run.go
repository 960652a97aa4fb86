package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
)

// cleanUpTime is how long `run` waits for its pod to be gone when it has been interrupted.
const cleanUpTime = 40 * time.Second

type runOptions struct {
	client  *client
	name    string
	env     []string
	dirs    []string
	restart string
	memory  string
	cpu     string
	detach  bool
	remove  bool
}

func runCommand(a *app) *cobra.Command {
	o := &runOptions{}
	cmd := &cobra.Command{
		Use:   "run MODULE [flags] [-- ARGS]",
		Short: "Run a module as a pod, and show what it writes",
		Long: `Makes a pod of one container from a module: a .wasm file of this machine, or an image reference.

A file is copied into the data folder first, so that the pod can start again after you have moved it. Unless --detach is
given, the pod's output is shown, edgepod exits with the container's exit code (125 where the container could not be
started), and the pod is deleted at the end, also when edgepod is interrupted. The module's standard input is empty.`,
		Example: "  edgepod run ./app.wasm\n  edgepod run ./app.wasm --env LEVEL=debug --dir ./data:/data:ro -- --once\n  edgepod run ./app.wasm --detach --name app --restart Always",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError(cmd, "say which MODULE to run")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if !cmd.Flags().Changed("rm") {
				o.remove = !o.detach
			}
			return o.run(cmd.Context(), args[0], args[1:])
		},
	}
	o.client = newClient(a, cmd)
	f := cmd.Flags()
	f.StringVar(&o.name, "name", "", "name of the pod (default: the module's name and a random ending)")
	f.StringArrayVarP(&o.env, "env", "e", nil, "variable for the module, as NAME=VALUE; NAME alone takes yours")
	f.StringArrayVar(&o.dirs, "dir", nil, "folder that the node allows (--host-path), as HOST:GUEST or HOST:GUEST:ro")
	f.StringVar(&o.restart, "restart", "", "Always, OnFailure or Never (default Never, or Always with --detach)")
	f.StringVar(&o.memory, "memory", "", "most memory, such as 64Mi")
	f.StringVar(&o.cpu, "cpu", "", "most processor time, in cores, such as 500m")
	f.BoolVarP(&o.detach, "detach", "d", false, "start it, print its name, and leave")
	f.BoolVar(&o.remove, "rm", false, "delete the pod at the end (default, unless --detach)")
	return cmd
}

func (o *runOptions) run(ctx context.Context, module string, args []string) error {
	if o.detach && o.remove {
		return errors.New("--detach leaves the pod running, so --rm cannot be given with it")
	}
	if err := checkOwner(o.client.app.dataDir); err != nil {
		return err
	}
	image, err := importModule(module, modulesPath(o.client.app.dataDir))
	if err != nil {
		return err
	}
	pod, err := o.pod(module, image, args)
	if err != nil {
		return err
	}
	namespace, _, err := o.client.Namespace()
	if err != nil {
		return err
	}
	core, err := o.client.core()
	if err != nil {
		return err
	}
	created := &corev1.Pod{}
	if err := core.Post().Namespace(namespace).Resource("pods").Param("fieldManager", fieldManager).Body(pod).Do(ctx).Into(created); err != nil {
		return err
	}
	if o.detach {
		_, err := fmt.Fprintf(o.client.app.out, "pod/%s\n", created.Name)
		return err
	}
	return o.attend(ctx, core, created)
}

// attend shows the pod's output until it ends or the user interrupts, and cleans up after it.
func (o *runOptions) attend(ctx context.Context, core rest.Interface, pod *corev1.Pod) error {
	ctx, stop := untilSignal(ctx)
	code, err := followUnlessMountFails(ctx, core, pod, visible(o.client.app.out), o.client.app.errOut)
	var interrupted exitError
	if errors.Is(err, syscall.EPIPE) {
		interrupted, err = exitError{128 + int(syscall.SIGPIPE)}, nil
	} else if errors.As(context.Cause(ctx), &interrupted) {
		err = nil
	}
	stop() // from here on, a signal ends edgepod at once
	if o.remove || interrupted.code != 0 {
		background, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTime)
		defer cancel()
		err = errors.Join(err, removePod(background, core, pod))
	}
	switch {
	case err != nil:
		return err
	case interrupted.code != 0:
		return interrupted
	case code != 0:
		return exitError{code}
	}
	return nil
}

// untilSignal returns a context that ends with a signal to end, also the one that nobody reads the output any more. Its
// cause is then an exitError with the code that shells give such an end.
func untilSignal(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, append(endSignals(), syscall.SIGPIPE)...)
	go func() {
		select {
		case received := <-signals:
			cancel(exitError{128 + int(received.(syscall.Signal))})
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		cancel(nil)
	}
}
