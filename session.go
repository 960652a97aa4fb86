package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/term"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// session is the life of a cluster in the foreground, from its start to its end.
//
//	start ──► node Ready ──► [command] ──► a signal or the command's end ──► pods? ──► agent ──► server
//	                                                                            └─ a second signal kills them
type session struct {
	app       *app
	cluster   *cluster
	options   clusterOptions
	signals   <-chan os.Signal
	ephemeral bool
	command   []string

	// stopPods tells, once the session has been told to end, whether its pods end with it.
	stopPods bool
}

func (s *session) run(ctx context.Context) error {
	running, stop := context.WithCancel(ctx)
	defer stop()
	patience, kill := context.WithCancel(context.WithoutCancel(ctx))
	defer kill()
	var failed, unstopped error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		failed = s.cluster.run(running, func() {
			if s.stopPods && (s.ephemeral || patience.Err() != nil) {
				unstopped = stopPods(patience, s.cluster.runtime, 0)
			}
		})
	}()
	tidied := make(chan struct{})
	go func() {
		defer close(tidied)
		s.tidy(running)
	}()
	err := s.work(running, ended)
	go func() {
		select {
		case <-s.signals:
		case <-ended:
		}
		kill()
	}()
	if s.stopPods && !s.ephemeral {
		unstopped = s.cluster.agent.StopPods(patience)
	}
	stop()
	<-ended
	<-tidied
	return errors.Join(err, failed, unstopped)
}

// work returns when the cluster is to end or has ended.
func (s *session) work(ctx context.Context, ended <-chan struct{}) error {
	s.stopPods = s.ephemeral
	ready := make(chan error, 1)
	go func() { ready <- s.awaitNode(ctx) }()
	select {
	case <-ended:
		return nil
	case signal := <-s.signals:
		s.heed(signal)
		return nil
	case err := <-ready:
		if err != nil {
			return err
		}
	}
	if len(s.command) > 0 {
		return s.runCommand(ended)
	}
	s.welcome()
	select {
	case <-ended:
	case signal := <-s.signals:
		s.heed(signal)
	}
	return nil
}

// heed notes what a signal means for the pods, and says so.
func (s *session) heed(signal os.Signal) {
	s.stopPods = s.ephemeral || signal == os.Interrupt
	if s.stopPods {
		fmt.Fprintln(s.app.errOut, "Stopping the cluster and its pods; once more to kill them.")
	}
}

func (s *session) awaitNode(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	select {
	case <-s.cluster.server.Ready():
	case <-ctx.Done():
		return ctx.Err()
	}
	core, err := s.core()
	if err != nil {
		return err
	}
	return waitForNode(ctx, core, s.options.nodeName)
}

// tidy removes what `run` has left in the data folder, beside all else.
func (s *session) tidy(ctx context.Context) {
	select {
	case <-s.cluster.server.Ready():
	case <-ctx.Done():
		return
	}
	core, err := s.core()
	if err != nil {
		s.cluster.log.Warn("old copies of modules are not removed", "err", err)
		return
	}
	tidyModules(ctx, core, modulesPath(s.options.dataDir), s.cluster.log)
}

// core returns a client of the cluster for the administrator.
func (s *session) core() (rest.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", s.cluster.server.KubeconfigPath())
	if err != nil {
		return nil, err
	}
	return coreClient(config)
}

// welcome says what is there and what to try.
func (s *session) welcome() {
	fmt.Fprintf(s.app.out, `edgepod is up: API at %[2]s, node %[3]s is Ready, state in %[4]s
  export KUBECONFIG=%[5]s
  kubectl get nodes    (or: %[1]s get nodes)
  %[1]s run edgepod.dev/toolbox -- echo hello
  %[1]s doctor        (what this machine can enforce)
`, os.Args[0], s.cluster.server.URL(), s.options.nodeName, s.options.dataDir, s.cluster.server.KubeconfigPath())
}

// runCommand runs the user's command against the cluster; its exit code becomes the session's.
func (s *session) runCommand(ended <-chan struct{}) error {
	cmd := exec.Command(s.command[0], s.command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = s.app.in, s.app.out, s.app.errOut
	cmd.Env = append(os.Environ(),
		clientcmd.RecommendedConfigPathEnvVar+"="+s.cluster.server.KubeconfigPath(), dataDirVariable+"="+s.options.dataDir)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("run %s: %w", s.command[0], err)
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	for signalled := false; ; {
		select {
		case err := <-exited:
			return commandError(err)
		case <-ended:
			err := errors.Join(fmt.Errorf("the cluster ended before %s did", s.command[0]), cmd.Process.Kill())
			s.cluster.log.Debug("the command was killed", "err", <-exited)
			return err
		case signal := <-s.signals:
			s.pass(signal, cmd.Process, signalled)
			signalled = true
		}
	}
}

// pass lets the command know of a signal. At a terminal it has had the first Ctrl-C already.
func (s *session) pass(signal os.Signal, command *os.Process, again bool) {
	in, isFile := s.app.in.(*os.File)
	switch {
	case again:
		_ = command.Kill() // one that has ended needs no signal
	case signal == os.Interrupt && isFile && term.IsTerminal(int(in.Fd())):
	default:
		_ = command.Signal(signal)
	}
}

// commandError turns the end of a command into the program's exit code, as shells do.
func commandError(err error) error {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return err
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return exitError{128 + int(status.Signal())}
	}
	return exitError{exit.ExitCode()}
}
