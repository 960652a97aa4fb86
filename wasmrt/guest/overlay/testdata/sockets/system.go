package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"
)

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
	_, err = new(net.Dialer).DialContext(ctx, "tcp", l.Addr().String())
	if err == nil || !strings.Contains(err.Error(), "operation was canceled") {
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
