// Package edgepod is for programs in Go that run in a pod and are built with plain `GOOS=wasip1 go build`, whose own package net
// reaches nobody: listeners of the container's ports, connections, and the request to stop.
//
// Programs that `edgepod build` builds need none of it: there, package net and os/signal do the same. On other systems than
// WASI it does what a process expects: listeners handed over as systemd does, the system's network, and SIGTERM.
package edgepod

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
)

// ErrStopping is the cause of a context's end because the pod is to stop.
var ErrStopping = errors.New("the pod is asked to stop")

// StopContext returns a context that ends when the pod is asked to stop, with the cause ErrStopping, or when parent does. The
// program is expected to end by itself from then on, within its pod's grace period: a program that calls StopContext is not
// ended otherwise. Call cancel when the context is not needed any more.
func StopContext(parent context.Context) (ctx context.Context, cancel context.CancelFunc) {
	ctx, end := context.WithCancelCause(parent)
	stopping := Stopping()
	go func() {
		select {
		case <-stopping:
			end(ErrStopping)
		case <-ctx.Done():
		}
	}()
	return ctx, func() { end(nil) }
}

// Stopping returns a channel that is closed when the pod is asked to stop. What is said of StopContext holds for it too.
func Stopping() <-chan struct{} { return stopping() }

// Listener returns the listener of the container's port with this name, "" being the first. Only a program that makes no
// listeners itself is handed those of its ports: one that calls Listen anywhere has none. Each may be had once.
func Listener(name string) (net.Listener, error) {
	file, err := portFile(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return net.FileListener(file)
}

// portFile opens the descriptor of a port.
func portFile(name string) (*os.File, error) {
	fd, err := portFD(name, firstPort, os.Getenv)
	if err != nil {
		return nil, err
	}
	if err := setNonblock(fd); err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	return os.NewFile(uintptr(fd), "port "+name), nil
}

// portFD finds the descriptor of a port, where first tells the number of the first.
func portFD(name string, first func(getenv func(string) string) (int, error), getenv func(string) string) (int, error) {
	count, _ := strconv.Atoi(getenv("LISTEN_FDS"))
	if count <= 0 {
		return 0, errors.New("no port is handed over: the container declares none, or the program makes listeners itself")
	}
	fd, err := first(getenv)
	if err != nil || name == "" {
		return fd, err
	}
	names := strings.Split(getenv("LISTEN_FDNAMES"), ":")
	for i := range min(count, len(names)) {
		if names[i] == name {
			return fd + i, nil
		}
	}
	return 0, fmt.Errorf("no port is called %q, but %q", name, names)
}

// Listen listens on a TCP port of the pod, as net.Listen does. Network is tcp, tcp4 or tcp6, and the port is a number.
func Listen(network, address string) (net.Listener, error) { return listen(network, address) }

// Dial connects to a TCP port, as net.Dialer.DialContext does. Network is tcp, tcp4 or tcp6, and the port is a number.
func Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return dial(ctx, network, address)
}
