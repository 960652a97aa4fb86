// Command sockets checks what a program built with the overlay sees of the network, and prints a line for each check.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
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

func udp() error {
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer server.Close()
	client, err := net.ListenPacket("udp", ":0")
	if err != nil {
		return err
	}
	defer client.Close()
	if n, err := client.WriteTo([]byte("ping"), server.LocalAddr()); n != 4 || err != nil {
		return fmt.Errorf("sent %d, %v", n, err)
	}
	text := make([]byte, 100)
	n, from, err := server.ReadFrom(text)
	if err != nil || string(text[:n]) != "ping" || from.(*net.UDPAddr).Port != client.LocalAddr().(*net.UDPAddr).Port {
		return fmt.Errorf("got %q from %v, %v", text[:n], from, err)
	}
	to := from.(*net.UDPAddr).AddrPort()
	if _, err := server.(*net.UDPConn).WriteToUDPAddrPort([]byte("pong"), to); err != nil {
		return err
	}
	n, at, err := client.(*net.UDPConn).ReadFromUDPAddrPort(text)
	if want := server.LocalAddr().(*net.UDPAddr).AddrPort(); err != nil || string(text[:n]) != "pong" ||
		netip.AddrPortFrom(at.Addr().Unmap(), at.Port()) != netip.AddrPortFrom(want.Addr().Unmap(), want.Port()) {
		return fmt.Errorf("got %q from %v, %v", text[:n], at, err)
	}
	// What does not fit is cut off.
	if _, err := client.WriteTo([]byte("longer than it"), server.LocalAddr()); err != nil {
		return err
	}
	if n, _, err := server.ReadFrom(text[:6]); n != 6 || err != nil || string(text[:6]) != "longer" {
		return fmt.Errorf("of a longer one: %q, %v", text[:n], err)
	}
	return nil
}

func connectedUDP() error {
	server, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return err
	}
	defer server.Close()
	client, err := net.Dial("udp", server.LocalAddr().String())
	if err != nil {
		return err
	}
	defer client.Close()
	if _, err := io.WriteString(client, "ping"); err != nil {
		return err
	}
	text := make([]byte, 100)
	n, _, _, from, err := server.ReadMsgUDP(text, nil)
	if err != nil || string(text[:n]) != "ping" {
		return fmt.Errorf("got %q, %v", text[:n], err)
	}
	if _, _, err := server.WriteMsgUDP([]byte("pong"), nil, from); err != nil {
		return err
	}
	if n, err = client.Read(text); err != nil || string(text[:n]) != "pong" {
		return fmt.Errorf("got %q, %v", text[:n], err)
	}
	return nil
}

func udpDeadline() error {
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(20 * time.Millisecond)); err != nil {
		return err
	}
	if _, _, err := c.ReadFrom(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("read: %v", err)
	}
	return nil
}

func names() error {
	ctx := context.Background()
	addrs, err := net.DefaultResolver.LookupHost(ctx, "localhost")
	if err != nil || !strings.Contains(strings.Join(addrs, " "), "127.0.0.1") {
		return fmt.Errorf("localhost: %v, %v", addrs, err)
	}
	ips, err := net.DefaultResolver.LookupIP(ctx, "ip4", "localhost")
	if err != nil || len(ips) != 1 || !ips[0].Equal(net.IPv4(127, 0, 0, 1)) {
		return fmt.Errorf("localhost over IPv4: %v, %v", ips, err)
	}
	var unknown *net.DNSError
	if _, err := net.LookupHost("nobody.example"); !errors.As(err, &unknown) || !unknown.IsNotFound {
		return fmt.Errorf("a name that does not exist: %v", err)
	}
	if port, err := net.LookupPort("tcp", "http"); port != 80 || err != nil {
		return fmt.Errorf("port http: %d, %v", port, err)
	}
	return nil
}

func interfaces() error {
	all, err := net.Interfaces()
	if err != nil || len(all) == 0 || all[0].Name != "lo" || all[0].Flags&net.FlagLoopback == 0 {
		return fmt.Errorf("got %v, %v", all, err)
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil || fmt.Sprint(addrs) != "[127.0.0.1/8 ::1/128]" {
		return fmt.Errorf("addresses: %v, %v", addrs, err)
	}
	lo, err := net.InterfaceByName("lo")
	if err != nil || lo.Index != 1 {
		return fmt.Errorf("by name: %v, %v", lo, err)
	}
	return nil
}

func control() error {
	var seen []string
	hook := func(network, address string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { seen = append(seen, fmt.Sprint(network, " ", address, " ", fd > 2)) })
	}
	l, err := (&net.ListenConfig{Control: hook}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer l.Close()
	c, err := (&net.Dialer{Control: hook}).Dial("tcp", l.Addr().String())
	if err != nil {
		return err
	}
	defer c.Close()
	if want := "[tcp4 127.0.0.1:0 true tcp4 " + l.Addr().String() + " true]"; fmt.Sprint(seen) != want {
		return fmt.Errorf("got %v, want %s", seen, want)
	}
	return nil
}

func options() error {
	client, server, err := pair()
	if err != nil {
		return err
	}
	defer server.Close()
	defer client.Close()
	c := client.(*net.TCPConn)
	return errors.Join(c.SetNoDelay(true), c.SetKeepAlive(true), c.SetKeepAlivePeriod(time.Minute), c.SetLinger(0),
		c.SetReadBuffer(1<<16), c.SetWriteBuffer(1<<16), c.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Count: 3}))
}

func cancelled() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer l.Close()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := new(net.Dialer).DialContext(ctx, "tcp", l.Addr().String()); err == nil || !strings.Contains(err.Error(), "operation was canceled") {
		return fmt.Errorf("got %v", err)
	}
	return nil
}

func unix() error {
	if _, err := net.Listen("unix", "/tmp/socket"); !errors.Is(err, syscall.EAFNOSUPPORT) {
		return fmt.Errorf("got %v", err)
	}
	return nil
}

func web() error {
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %s", r.Method, r.URL.Path, body)
	})}
	ended := make(chan error)
	go func() { ended <- server.Serve(l) }()
	port := l.Addr().(*net.TCPAddr).Port
	for i := range 20 {
		answer, err := http.Post(fmt.Sprintf("http://localhost:%d/path", port), "text/plain", strings.NewReader(fmt.Sprint("body ", i)))
		if err != nil {
			return err
		}
		text, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if want := fmt.Sprint("POST /path body ", i); err != nil || string(text) != want {
			return fmt.Errorf("got %q, %v", text, err)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	if err := server.Shutdown(context.Background()); err != nil {
		return err
	}
	if err := <-ended; err != http.ErrServerClosed {
		return err
	}
	return nil
}

func hostname() error {
	if name, err := os.Hostname(); name != "web-0" || err != nil {
		return fmt.Errorf("got %q, %v", name, err)
	}
	return nil
}

// descriptors holds that what is closed is gone: a guest has 1,024 of them.
func descriptors() error {
	for range 1500 {
		client, server, err := pair()
		if err != nil {
			return err
		}
		client.Close()
		server.Close()
		c, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		c.Close()
	}
	return nil
}
