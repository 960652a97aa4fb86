//go:build linux

package net

import (
	"bufio"
	"errors"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"edgepod/wasmrt/guest/guesttest"
)

// TestMain lets the test's own program be a container that holds ports until it is killed.
func TestMain(m *testing.M) {
	if dir := os.Getenv("HOLD_PORTS_IN"); dir != "" {
		hold(dir)
		return
	}
	os.Exit(m.Run())
}

// hold holds TCP and UDP port 8080, says so, and waits until it is killed, or nobody is left who would.
func hold(dir string) {
	l, err := Open(Config{Dir: dir})
	if err == nil {
		_, err = l.Bind(addr("0.0.0.0:8080"))
	}
	if err == nil {
		_, err = l.BindUDP(addr("0.0.0.0:8080"))
	}
	if err != nil {
		os.Stdout.WriteString(err.Error() + "\n")
		return
	}
	os.Stdout.WriteString("holding\n")
	_, _ = io.Copy(io.Discard, os.Stdin)
}

var addr = netip.MustParseAddrPort

// pod makes a folder for a pod's network.
var pod = guesttest.Dir

// container opens the network of a container in a pod.
func container(t testing.TB, dir string) *Local {
	t.Helper()
	l, err := Open(Config{Dir: dir, Hostname: "Web-0", Addrs: []netip.Addr{netip.MustParseAddr("10.1.2.3")}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// listen makes a listener.
func listen(t testing.TB, l *Local, at string) *Listener {
	t.Helper()
	s, err := l.Bind(addr(at))
	if err == nil {
		err = s.Listen(0)
	}
	if err != nil {
		t.Fatalf("listen on %s: %v", at, err)
	}
	return s
}

// dial connects, without waiting.
func dial(l *Local, to string) (*Conn, error) {
	p, err := l.Dial(netip.AddrPort{}, addr(to))
	if err != nil {
		return nil, err
	}
	conn, err := p.Finish()
	return conn, errors.Join(err, p.Close())
}

func wantErr(t *testing.T, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func TestPortIsHeldOnceInAPod(t *testing.T) {
	dir := pod(t)
	a, b := container(t, dir), container(t, dir)
	for _, at := range []string{"0.0.0.0:80", "127.0.0.1:81", "[::]:82", "10.1.2.3:83"} {
		s := listen(t, a, at)
		u, err := a.BindUDP(addr(at))
		wantErr(t, "UDP beside TCP", err, nil)
		for _, other := range []*Local{a, b} {
			_, err := other.Bind(netip.AddrPortFrom(netip.IPv4Unspecified(), s.Addr().Port()))
			wantErr(t, "TCP "+at, err, unix.EADDRINUSE)
			_, err = other.BindUDP(netip.AddrPortFrom(netip.IPv6Loopback(), s.Addr().Port()))
			wantErr(t, "UDP "+at, err, unix.EADDRINUSE)
		}
		wantErr(t, "close", errors.Join(s.Close(), u.Close()), nil)
		s = listen(t, b, at)
		wantErr(t, "close", s.Close(), nil)
	}
	_, err := a.Bind(addr("10.9.9.9:80"))
	wantErr(t, "address of another", err, unix.EADDRNOTAVAIL)
	other := container(t, pod(t))
	listen(t, a, "0.0.0.0:80")
	listen(t, other, "0.0.0.0:80")
}

func TestPortIsFreeAtOnceAfterItsHoldersDeath(t *testing.T) {
	dir := pod(t)
	l := container(t, dir)
	for range 5 {
		holder := exec.Command(os.Args[0])
		holder.Env = append(os.Environ(), "HOLD_PORTS_IN="+dir)
		_, err := holder.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := holder.StdoutPipe()
		if err == nil {
			err = holder.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		if said, err := bufio.NewReader(out).ReadString('\n'); said != "holding\n" || err != nil {
			t.Fatalf("the holder says %q, %v", said, err)
		}
		_, err = l.Bind(addr("127.0.0.1:8080"))
		wantErr(t, "TCP of the living", err, unix.EADDRINUSE)
		_, err = l.BindUDP(addr("127.0.0.1:8080"))
		wantErr(t, "UDP of the living", err, unix.EADDRINUSE)
		if err := holder.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := holder.Wait(); err == nil || err.Error() != "signal: killed" {
			t.Fatalf("the holder has ended by itself: %v", err)
		}
		_, err = dial(l, "127.0.0.1:8080")
		wantErr(t, "connect to the dead", err, unix.ECONNREFUSED)
		s := listen(t, l, "127.0.0.1:8080")
		u, err := l.BindUDP(addr("127.0.0.1:8080"))
		wantErr(t, "UDP of the dead", err, nil)
		if _, err := os.Lstat(filepath.Join(dir, "tcp-8080")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the socket of the dead is still there: %v", err)
		}
		wantErr(t, "close", errors.Join(s.Close(), u.Close()), nil)
	}
}

func TestNamesTellWhoMayConnect(t *testing.T) {
	dir := pod(t)
	l := container(t, dir)
	for at, want := range map[string]string{
		"0.0.0.0:80": "tcp-80", "[::]:81": "tcp-81", "10.1.2.3:82": "tcp-82",
		"127.0.0.1:83": "tcp-83.lo", "[::1]:84": "tcp-84.lo", "[::ffff:127.0.0.1]:85": "tcp-85.lo",
	} {
		s := listen(t, l, at)
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		if want := []string{"ports", want}; !slices.Equal(names, want) {
			t.Errorf("%s: folder holds %q, want %q", at, names, want)
		}
		port := netip.AddrPortFrom(netip.MustParseAddr("10.1.2.3"), s.Addr().Port()).String()
		_, err = dial(l, port)
		if strings.HasSuffix(want, ".lo") {
			wantErr(t, at+" through the pod's address", err, unix.ECONNREFUSED)
		} else {
			wantErr(t, at+" through the pod's address", err, nil)
		}
		for _, lo := range []string{"127.0.0.1", "::1", "127.5.5.5"} {
			_, err := dial(l, netip.AddrPortFrom(netip.MustParseAddr(lo), s.Addr().Port()).String())
			wantErr(t, at+" through "+lo, err, nil)
		}
		wantErr(t, "close", s.Close(), nil)
	}
}

func TestConnectionsTellBothAddresses(t *testing.T) {
	dir := pod(t)
	server, client := container(t, dir), container(t, dir)
	for _, c := range []struct{ listen, from, to, local, remote, seen string }{
		{"0.0.0.0:80", "", "127.0.0.1:80", "127.0.0.1:80", "127.0.0.1:80", "127.0.0.1"},
		{"0.0.0.0:80", "", "10.1.2.3:80", "10.1.2.3:80", "10.1.2.3:80", "10.1.2.3"},
		{"[::]:80", "", "[::1]:80", "[::1]:80", "[::1]:80", "::1"},
		{"[::]:80", "", "[::ffff:127.0.0.1]:80", "127.0.0.1:80", "127.0.0.1:80", "127.0.0.1"},
		{"127.0.0.1:80", "127.0.0.1:5000", "127.0.0.1:80", "127.0.0.1:80", "127.0.0.1:80", "127.0.0.1:5000"},
		{"127.0.0.1:80", "0.0.0.0:5000", "127.0.0.1:80", "127.0.0.1:80", "127.0.0.1:80", "127.0.0.1:5000"},
	} {
		s := listen(t, server, c.listen)
		var from netip.AddrPort
		if c.from != "" {
			from = addr(c.from)
		}
		p, err := client.Dial(from, addr(c.to))
		if err != nil {
			t.Fatal(err)
		}
		conn, err := p.Finish()
		if err != nil {
			t.Fatal(err)
		}
		peer, err := s.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if conn.Remote.String() != c.remote || peer.Local.String() != c.local || peer.Remote != conn.Local ||
			!strings.HasPrefix(conn.Local.String(), c.seen) && conn.Local.Addr().String() != c.seen {
			t.Errorf("%+v: client %v to %v, server %v from %v", c, conn.Local, conn.Remote, peer.Local, peer.Remote)
		}
		if c.from != "" {
			// Another pod has the same addresses.
			other := container(t, pod(t))
			defer listen(t, other, c.listen).Close()
			p, err := other.Dial(from, addr(c.to))
			wantErr(t, "the same connection in another pod", err, nil)
			wantErr(t, "close", p.Close(), nil)
			// A pair of addresses names one connection at a time.
			_, err = client.Dial(from, addr(c.to))
			wantErr(t, "the same connection again", err, unix.EADDRINUSE)
		}
		wantErr(t, "close", errors.Join(unix.Close(conn.FD), unix.Close(peer.FD), s.Close()), nil)
	}
	for _, to := range []string{"8.8.8.8:53", "[fd00::1]:80", "10.1.2.4:80"} {
		_, err := dial(client, to)
		wantErr(t, to, err, unix.ENETUNREACH)
	}
}

func TestFullQueueIsTriedAgain(t *testing.T) {
	dir := pod(t)
	server, client := container(t, dir), container(t, dir)
	s := listen(t, server, "127.0.0.1:80")
	var pending []Pending[*Conn]
	var first Pending[*Conn]
	for first == nil {
		p, err := client.Dial(netip.AddrPort{}, addr("127.0.0.1:80"))
		if err != nil {
			t.Fatal(err)
		}
		conn, err := p.Finish()
		switch err {
		case nil:
			defer unix.Close(conn.FD)
		case unix.EAGAIN:
			first = p
		default:
			t.Fatal(err)
		}
		pending = append(pending, p)
	}
	if len(pending) < minBacklog {
		t.Errorf("the queue took %d connections", len(pending)-1)
	}
	for range len(pending) - 1 {
		conn, err := s.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(conn.FD)
	}
	for {
		fds := []unix.PollFd{{Fd: int32(first.FD()), Events: unix.POLLIN}}
		if _, err := unix.Poll(fds, -1); err != nil && err != unix.EINTR {
			t.Fatal(err)
		}
		conn, err := first.Finish()
		if err == unix.EAGAIN {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		wantErr(t, "close", errors.Join(unix.Close(conn.FD), first.Close()), nil)
		break
	}
}

func TestLookup(t *testing.T) {
	l := container(t, pod(t))
	for name, want := range map[string]string{
		"localhost": "127.0.0.1 ::1", "LocalHost.": "127.0.0.1 ::1", "web-0": "10.1.2.3", "example.com": "", "": "",
	} {
		p, err := l.Lookup(name)
		if want == "" {
			wantErr(t, name, err, ErrNotFound)
			continue
		}
		addrs, err := p.Finish()
		var got []string
		for _, a := range addrs {
			got = append(got, a.String())
		}
		if strings.Join(got, " ") != want || err != nil || p.FD() >= 0 || p.Close() != nil {
			t.Errorf("%s: got %v, %v, want %s", name, got, err, want)
		}
	}
	bare, err := Open(Config{Dir: pod(t), Hostname: "x"})
	if err != nil {
		t.Fatal(err)
	}
	defer bare.Close()
	if p, err := bare.Lookup("x"); err != nil {
		t.Error(err)
	} else if addrs, err := p.Finish(); len(addrs) != 2 || err != nil {
		t.Errorf("got %v, %v", addrs, err)
	}
}

func TestFoldersThatCannotBeOpened(t *testing.T) {
	for dir, want := range map[string]string{
		"/" + strings.Repeat("x", 100):        "too long",
		filepath.Join(pod(t), "not", "there"): "no such file",
	} {
		if _, err := Open(Config{Dir: dir}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", dir, err, want)
		}
	}
}

// TestManyContainersNeverShareAPort has containers take and give up ports at once.
func TestManyContainersNeverShareAPort(t *testing.T) {
	dir := pod(t)
	var owners [1 << 16]atomic.Int32
	var wg sync.WaitGroup
	for i := range int32(8) {
		l := container(t, dir)
		wg.Go(func() {
			for round := range 200 {
				at := "127.0.0.1:0"
				if round%2 == 0 {
					at = "127.0.0.1:4000"
				}
				s, err := l.Bind(addr(at))
				if err == unix.EADDRINUSE && round%2 == 0 {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				owner := &owners[s.Addr().Port()]
				if !owner.CompareAndSwap(0, i+1) {
					t.Errorf("port %d has two holders", s.Addr().Port())
				}
				if err := s.Listen(1); err != nil {
					t.Error(err)
				}
				if _, err := os.Lstat(s.path); err != nil {
					t.Errorf("the socket is gone: %v", err)
				}
				owner.Store(0)
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}
