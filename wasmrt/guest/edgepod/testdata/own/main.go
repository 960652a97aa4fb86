// Command own makes its own listener and connections, with a plain build of Go.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"edgepod/wasmrt/guest/edgepod"
)

func main() {
	ctx, cancel := edgepod.StopContext(context.Background())
	defer cancel()
	for _, c := range []struct {
		name string
		run  func(ctx context.Context) error
	}{
		{"echo", echo},
		{"more than wait", crowd},
		{"refused", refused},
		{"names", names},
		{"deadline", deadline},
		{"cancelled", cancelled},
		{"in use", inUse},
		{"closed", closed},
	} {
		if err := c.run(ctx); err != nil {
			fmt.Printf("%s: %v\n", c.name, err)
			os.Exit(1)
		}
	}
	fmt.Println("all well")
	<-ctx.Done()
	fmt.Println(context.Cause(ctx))
}

func echo(ctx context.Context) error {
	l, err := edgepod.Listen("tcp", ":0")
	if err != nil {
		return err
	}
	defer l.Close()
	served := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			served <- err
			return
		}
		defer c.Close()
		_, err = io.Copy(c, c)
		served <- err
	}()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return err
	}
	c, err := edgepod.Dial(ctx, "tcp", "localhost:"+port)
	if err != nil {
		return err
	}
	defer c.Close()
	text := strings.Repeat("0123456789", 100000)
	go func() {
		_, _ = io.WriteString(c, text)
		_ = c.(interface{ CloseWrite() error }).CloseWrite()
	}()
	got, err := io.ReadAll(c)
	if err = errors.Join(err, <-served); err != nil || string(got) != text {
		return fmt.Errorf("got %d bytes, %v", len(got), err)
	}
	if local, ok := c.LocalAddr().(*net.TCPAddr); !ok || local.Port == 0 || !strings.HasSuffix(c.RemoteAddr().String(), ":"+port) {
		return fmt.Errorf("addresses %v and %v", c.LocalAddr(), c.RemoteAddr())
	}
	return nil
}

// crowd makes more connections at once than wait in a listener's queue: the others are made when there is room.
func crowd(ctx context.Context) error {
	l, err := edgepod.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer l.Close()
	const clients = 400
	ended := make(chan error, clients)
	for range clients {
		go func() {
			c, err := edgepod.Dial(ctx, "tcp", l.Addr().String())
			if err == nil {
				_, err = io.ReadAll(c)
				c.Close()
			}
			ended <- err
		}()
	}
	for range clients {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		c.Close()
	}
	var all error
	for range clients {
		all = errors.Join(all, <-ended)
	}
	return all
}

func refused(ctx context.Context) error {
	_, err := edgepod.Dial(ctx, "tcp", "127.0.0.1:1")
	if !errors.Is(err, syscall.ECONNREFUSED) || err.Error() != "dial tcp 127.0.0.1:1: connect: Connection refused" {
		return fmt.Errorf("got %w", err)
	}
	return nil
}

func names(ctx context.Context) error {
	var unknown *net.DNSError
	if _, err := edgepod.Dial(ctx, "tcp", "nobody.example:1"); !errors.As(err, &unknown) || !unknown.IsNotFound {
		return fmt.Errorf("unknown name: %w", err)
	}
	for _, bad := range []string{"localhost", "localhost:http", "localhost:99999"} {
		if _, err := edgepod.Dial(ctx, "tcp", bad); err == nil {
			return fmt.Errorf("connected to %s", bad)
		}
	}
	if _, err := edgepod.Dial(ctx, "udp", "localhost:1"); !errors.As(err, new(net.UnknownNetworkError)) {
		return fmt.Errorf("udp: %w", err)
	}
	return nil
}

func deadline(context.Context) error {
	l, err := edgepod.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer l.Close()
	if err := l.(interface{ SetDeadline(time.Time) error }).SetDeadline(time.Now().Add(10 * time.Millisecond)); err != nil {
		return err
	}
	if _, err := l.Accept(); !errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("accept: %w", err)
	}
	c, err := edgepod.Dial(context.Background(), "tcp4", l.Addr().String())
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(10 * time.Millisecond)); err != nil {
		return err
	}
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("read: %w", err)
	}
	return nil
}

func cancelled(context.Context) error {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := edgepod.Dial(ctx, "tcp", "127.0.0.1:1"); !errors.Is(err, context.Canceled) {
		return fmt.Errorf("got %w", err)
	}
	return nil
}

func inUse(context.Context) error {
	l, err := edgepod.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer l.Close()
	if _, err := edgepod.Listen("tcp", l.Addr().String()); !errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("got %w", err)
	}
	return nil
}

func closed(context.Context) error {
	l, err := edgepod.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	time.AfterFunc(10*time.Millisecond, func() { l.Close() })
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("accept: %w", err)
	}
	return nil
}
