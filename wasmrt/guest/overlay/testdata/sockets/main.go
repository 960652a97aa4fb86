// Command sockets checks what a program built with the overlay sees of the network, and prints a line for each check.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"
)

func main() {
	failed := false
	for _, c := range []struct {
		name string
		run  func() error
	}{
		{"tcp", tcp},
		{"half close", halfClose},
		{"addresses", addresses},
		{"many at once", many},
		{"more than wait", crowd},
		{"large", large},
		{"refused", refused},
		{"port in use", inUse},
		{"unreachable", unreachable},
		{"deadlines", deadlines},
		{"accept deadline", acceptDeadline},
		{"close wakes", closeWakes},
		{"udp", udp},
		{"connected udp", connectedUDP},
		{"udp deadline", udpDeadline},
		{"names", names},
		{"interfaces", interfaces},
		{"control", control},
		{"options", options},
		{"cancelled dial", cancelled},
		{"unix", unix},
		{"http", web},
		{"hostname", hostname},
		{"descriptors", descriptors},
	} {
		if err := c.run(); err != nil {
			failed = true
			fmt.Printf("%s: %v\n", c.name, err)
			continue
		}
		fmt.Printf("%s: ok\n", c.name)
	}
	if failed {
		os.Exit(1)
	}
}

// pair returns the two ends of a connection.
func pair() (client, server net.Conn, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	defer l.Close()
	if client, err = net.Dial("tcp", l.Addr().String()); err != nil {
		return nil, nil, err
	}
	server, err = l.Accept()
	return client, server, err
}

func tcp() error {
	client, server, err := pair()
	if err != nil {
		return err
	}
	defer client.Close()
	if _, err := io.WriteString(client, "hello"); err != nil {
		return err
	}
	text := make([]byte, 5)
	if _, err := io.ReadFull(server, text); err != nil || string(text) != "hello" {
		return fmt.Errorf("read %q, %v", text, err)
	}
	if err := server.Close(); err != nil {
		return err
	}
	if n, err := client.Read(text); n != 0 || err != io.EOF {
		return fmt.Errorf("after the peer's close: %d, %v", n, err)
	}
	return nil
}

func halfClose() error {
	client, server, err := pair()
	if err != nil {
		return err
	}
	defer client.Close()
	defer server.Close()
	if err := client.(*net.TCPConn).CloseWrite(); err != nil {
		return err
	}
	if rest, err := io.ReadAll(server); len(rest) > 0 || err != nil {
		return fmt.Errorf("the other end read %q, %v", rest, err)
	}
	if _, err := io.WriteString(server, "still"); err != nil {
		return err
	}
	text := make([]byte, 5)
	if _, err := io.ReadFull(client, text); err != nil || string(text) != "still" {
		return fmt.Errorf("read %q, %v", text, err)
	}
	if _, err := io.WriteString(client, "x"); !errors.Is(err, syscall.EPIPE) {
		return fmt.Errorf("write after CloseWrite: %v", err)
	}
	return nil
}

func addresses() error {
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		return err
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil || port == "0" {
		return fmt.Errorf("the listener is at %v, %v", l.Addr(), err)
	}
	for _, host := range []string{"127.0.0.1", "localhost", "::1"} {
		client, err := net.Dial("tcp", net.JoinHostPort(host, port))
		if err != nil {
			return err
		}
		server, err := l.Accept()
		if err != nil {
			return err
		}
		local, remote := client.LocalAddr().(*net.TCPAddr), server.RemoteAddr().(*net.TCPAddr)
		if local.Port == 0 || local.Port != remote.Port || !local.IP.IsLoopback() || !remote.IP.IsLoopback() {
			return fmt.Errorf("%s: the client is %v, for the server it is %v", host, local, remote)
		}
		if peer := client.RemoteAddr().(*net.TCPAddr); fmt.Sprint(peer.Port) != port || !peer.IP.IsLoopback() {
			return fmt.Errorf("%s: the client's peer is %v", host, peer)
		}
		if at := server.LocalAddr().(*net.TCPAddr); fmt.Sprint(at.Port) != port {
			return fmt.Errorf("%s: the server is at %v", host, at)
		}
		client.Close()
		server.Close()
	}
	return nil
}

func many() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			}()
		}
	}()
	errs := make([]error, 50)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			c, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				errs[i] = err
				return
			}
			defer c.Close()
			for n := range 20 {
				want := fmt.Sprintf("%d/%d", i, n)
				got := make([]byte, len(want))
				_, err := io.WriteString(c, want)
				if err == nil {
					_, err = io.ReadFull(c, got)
				}
				if err != nil || string(got) != want {
					errs[i] = fmt.Errorf("sent %q, got %q, %v", want, got, err)
					return
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// crowd makes more connections at once than wait in a listener's queue: the others are made when there is room.
func crowd() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer l.Close()
	const clients = 400
	ended := make(chan error, clients)
	for range clients {
		go func() {
			c, err := net.Dial("tcp", l.Addr().String())
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

func large() error {
	client, server, err := pair()
	if err != nil {
		return err
	}
	defer server.Close()
	data := bytes.Repeat([]byte("0123456789abcdef"), 1<<17)
	go func() {
		defer client.Close()
		_, _ = client.Write(data)
	}()
	got, err := io.ReadAll(server)
	if err != nil || !bytes.Equal(got, data) {
		return fmt.Errorf("got %d bytes of %d, %v", len(got), len(data), err)
	}
	return nil
}

func refused() error {
	_, err := net.Dial("tcp", "127.0.0.1:1")
	if !errors.Is(err, syscall.ECONNREFUSED) || !strings.Contains(err.Error(), "dial tcp 127.0.0.1:1: connect: ") {
		return fmt.Errorf("got %v", err)
	}
	return nil
}

func inUse() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if _, err := net.Listen("tcp", l.Addr().String()); !errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("a second listener: %v", err)
	}
	if err := l.Close(); err != nil {
		return err
	}
	again, err := net.Listen("tcp", l.Addr().String())
	if err != nil {
		return fmt.Errorf("after Close: %w", err)
	}
	return again.Close()
}

func unreachable() error {
	if _, err := net.DialTimeout("tcp", "192.0.2.1:80", 5*time.Second); !errors.Is(err, syscall.ENETUNREACH) {
		return fmt.Errorf("got %v", err)
	}
	return nil
}

func deadlines() error {
	client, server, err := pair()
	if err != nil {
		return err
	}
	defer client.Close()
	defer server.Close()
	if err := client.SetReadDeadline(time.Now().Add(20 * time.Millisecond)); err != nil {
		return err
	}
	if _, err := client.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("read: %v", err)
	}
	if err := client.SetDeadline(time.Now().Add(200 * time.Millisecond)); err != nil {
		return err
	}
	for err == nil {
		_, err = client.Write(make([]byte, 1<<16))
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("write that nobody reads: %v", err)
	}
	return client.SetDeadline(time.Time{})
}

func acceptDeadline() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer l.Close()
	if err := l.(*net.TCPListener).SetDeadline(time.Now().Add(20 * time.Millisecond)); err != nil {
		return err
	}
	if _, err := l.Accept(); !errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("accept: %v", err)
	}
	return nil
}

func closeWakes() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	client, server, err := pair()
	if err != nil {
		return err
	}
	defer server.Close()
	ended := make(chan error)
	go func() { _, err := l.Accept(); ended <- err }()
	go func() { _, err := client.Read(make([]byte, 1)); ended <- err }()
	time.AfterFunc(10*time.Millisecond, func() { l.Close(); client.Close() })
	for range 2 {
		if err := <-ended; !errors.Is(err, net.ErrClosed) {
			return fmt.Errorf("woke with %v", err)
		}
	}
	return nil
}
