//go:build !wasip1

package edgepod

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
)

// systemdFirst is the descriptor from which listeners are handed over.
const systemdFirst = 3

// firstPort heeds for whom the listeners are: a process inherits the variables of its parent.
func firstPort(getenv func(string) string) (int, error) {
	if pid := getenv("LISTEN_PID"); pid != "" && pid != strconv.Itoa(os.Getpid()) {
		return 0, fmt.Errorf("the ports are those of process %s", pid)
	}
	return systemdFirst, nil
}

func setNonblock(int) error { return nil } // package net does

// stopping waits for signals from its first call on.
var stopping = sync.OnceValue(func() <-chan struct{} {
	signals, ended := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	go func() {
		<-signals
		signal.Stop(signals) // the next one ends the program
		close(ended)
	}()
	return ended
})

func listen(network, address string) (net.Listener, error) { return net.Listen(network, address) }

func dial(ctx context.Context, network, address string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, network, address)
}
