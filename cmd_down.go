package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"edgepod/wasmrt/process"
	"edgepod/wasmrt/sandbox"
)

func downCommand(a *app) *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "down",
		Short: "Stop the cluster of the data folder, and its pods",
		Long:  "Stops the edgepod that runs on the data folder, with its pods, and waits until both have ended. Pods that outlived an\nedgepod which has died are stopped too. Everything stays in the data folder: the next `edgepod up` starts the pods again.",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			return down(ctx, a)
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", time.Minute, "kill what has not ended by then")
	return cmd
}

func down(ctx context.Context, a *app) error {
	if !exists(a.dataDir) {
		return fmt.Errorf("there is no data folder %s", a.dataDir)
	}
	held, err := lockDataDir(a.dataDir, 0)
	var inUse errInUse
	stopped := errors.As(err, &inUse)
	if stopped {
		held, err = stopHolder(ctx, a.dataDir, inUse.pid)
	}
	if err != nil {
		return err
	}
	defer held.release()
	runtime, err := newRuntime(a.dataDir, process.Config{})
	if err != nil {
		return err
	}
	defer runtime.Close()
	left, err := runningPods(ctx, runtime)
	if err != nil {
		return err
	}
	if err := stopPods(ctx, runtime, stopGrace); err != nil {
		return err
	}
	switch {
	case stopped:
		_, err = fmt.Fprintf(a.out, "Stopped edgepod (pid %d) and its pods.\n", inUse.pid)
	case left > 0:
		_, err = fmt.Fprintf(a.out, "No edgepod was running on %s; stopped what an earlier one had left running: %s.\n", a.dataDir, countOf(left, "pod"))
	default:
		_, err = fmt.Fprintf(a.out, "No edgepod was running on %s.\n", a.dataDir)
	}
	return err
}

// runningPods counts those of which a container has not ended.
func runningPods(ctx context.Context, runtime sandbox.Runtime) (count int, err error) {
	sandboxes, err := runtime.List(ctx)
	if err != nil {
		return 0, err
	}
	for _, s := range sandboxes {
		attempts, err := s.Status(ctx)
		if err != nil {
			return 0, err
		}
		if slices.ContainsFunc(attempts, func(a sandbox.Status) bool { return a.State != sandbox.StateExited }) {
			count++
		}
	}
	return count, nil
}

// countOf says how many there are, as in "1 pod" and "2 pods".
func countOf(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// stopHolder asks the process that holds the data folder to stop with its pods, and returns the lock that it gave up.
// When ctx ends, it is killed.
func stopHolder(ctx context.Context, dir string, pid int) (*lock, error) {
	if pid <= 0 {
		return nil, errInUse{dir, pid}
	}
	if err := syscall.Kill(pid, syscall.SIGINT); err != nil && !errors.Is(err, syscall.ESRCH) {
		return nil, fmt.Errorf("stop edgepod (pid %d): %w", pid, err)
	}
	held, err := waitForLock(ctx, dir)
	if !errors.Is(err, context.DeadlineExceeded) {
		return held, err
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return nil, fmt.Errorf("kill edgepod (pid %d): %w", pid, err)
	}
	return waitForLock(context.WithoutCancel(ctx), dir)
}

// waitForLock returns the data folder's lock when its holder has given it up.
func waitForLock(ctx context.Context, dir string) (*lock, error) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		held, err := lockDataDir(dir, 0)
		var inUse errInUse
		if !errors.As(err, &inUse) {
			return held, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-tick.C:
		}
	}
}
