//go:build linux

package wasi

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"edgepod/wasmrt/fs"
)

func TestGuestsTalkOverLocalhost(t *testing.T) {
	for _, c := range []struct{ listen, dial, local, peer string }{
		{"127.0.0.1:8080", "127.0.0.1:8080", "127.0.0.1:8080", "127.0.0.1"},
		{"0.0.0.0:8080", "127.0.0.1:8080", "127.0.0.1:8080", "127.0.0.1"},
		{"[::]:8080", "[::1]:8080", "[::1]:8080", "::1"},
		{"[::1]:8080", "[::1]:8080", "[::1]:8080", "::1"},
		{"0.0.0.0:8080", "0.0.0.0:8080", "127.0.0.1:8080", "127.0.0.1"},
		{"0.0.0.0:8080", "127.9.9.9:8080", "127.0.0.1:8080", "127.0.0.1"},
		{"0.0.0.0:8080", "[::1]:8080", "127.0.0.1:8080", "127.0.0.1"},
		{"[::]:8080", "127.0.0.1:8080", "[::ffff:127.0.0.1]:8080", "::ffff:127.0.0.1"},
	} {
		t.Run(c.listen+" "+c.dial, func(t *testing.T) {
			dir := pod(t)
			server := newGuest(t, Config{Net: network(t, dir)}, "")
			client := server.beside(dir)
			l, _ := server.listen(c.listen)
			to := netip.MustParseAddrPort(c.dial)
			fd := client.socket(uint64(familyOf(to.Addr())), typeStream)
			if errno := client.connect(fd, c.dial); errno != 0 {
				t.Fatalf("connect: %v", errno)
			}
			conn, errno := server.accept(l)
			if errno != 0 {
				t.Fatalf("accept: %v", errno)
			}
			client.write(fd, "question")
			if got, errno := server.read(conn, 100); got != "question" || errno != 0 {
				t.Errorf("server read %q, %v", got, errno)
			}
			server.write(conn, "answer")
			if got, errno := client.read(fd, 100); got != "answer" || errno != 0 {
				t.Errorf("client read %q, %v", got, errno)
			}
			if got := server.local(conn).String(); got != c.local {
				t.Errorf("server is at %s, want %s", got, c.local)
			}
			peer, _ := server.remote(conn)
			if at := client.local(fd); peer.Addr().String() != c.peer || peer.Port() != at.Port() || peer.Port() == 0 {
				t.Errorf("the peer is %v, and sees itself at %v", peer, at)
			}
			if got, _ := client.remote(fd); got.Port() != 8080 {
				t.Errorf("client sees %v", got)
			}
			client.ok("fd_close", fd)
			if got, errno := server.read(conn, 100); got != "" || errno != 0 {
				t.Errorf("server read %q, %v after the end", got, errno)
			}
		})
	}
}

func TestConnectsThatFail(t *testing.T) {
	g := newSocketGuest(t)
	bound := g.socket(familyINET4, typeStream)
	if errno := g.bind(bound, "127.0.0.1:9000"); errno != 0 {
		t.Fatal(errno)
	}
	for to, want := range map[string]fs.Errno{
		"127.0.0.1:1":    fs.ConnRefused,
		"127.0.0.1:9000": fs.ConnRefused,
		"127.0.0.1:0":    fs.ConnRefused,
		"10.1.2.3:80":    fs.NetUnreach,
		"8.8.8.8:53":     fs.NetUnreach,
	} {
		for _, nonblock := range []bool{false, true} {
			fd := g.socket(familyINET4, typeStream)
			if nonblock {
				g.nonblock(fd)
			}
			if got := g.connect(fd, to); got != want {
				t.Errorf("%s: got %v, want %v", to, got, want)
			}
			if _, errno := g.remote(fd); errno != fs.NotConn {
				t.Errorf("%s: peer: got %v", to, errno)
			}
		}
	}
	fd := g.socket(familyINET6, typeStream)
	if got := g.connect(fd, "[fd00::1]:80"); got != fs.NetUnreach {
		t.Errorf("got %v", got)
	}
	if got := g.connect(g.socket(familyINET4, typeStream), "[::1]:80"); got != fs.AFNoSupport {
		t.Errorf("got %v", got)
	}
}

func TestStreamsCarryMuchData(t *testing.T) {
	g := newSocketGuest(t)
	a, b := g.pair()
	g.nonblock(a)
	g.nonblock(b)
	text := strings.Repeat("0123456789abcdef", 1<<12)
	list, buf := g.iovs(len(text))
	out := g.alloc(4)
	var sent, got int
	for sent < 1<<22 {
		copy(g.mem[buf:], text)
		switch errno := g.call("fd_write", a, list, 1, out); errno {
		case fs.Success:
			sent += int(g.u32(out))
			continue
		case fs.Again:
		default:
			t.Fatal(errno)
		}
		for {
			errno := g.call("fd_read", b, list, 1, out)
			if errno == fs.Again {
				break
			}
			if errno != 0 {
				t.Fatal(errno)
			}
			got += int(g.u32(out))
		}
	}
	g.ok("sock_shutdown", a, shutdownWrite)
	for {
		g.ok("fd_read", b, list, 1, out)
		if g.u32(out) == 0 {
			break
		}
		got += int(g.u32(out))
	}
	if got != sent {
		t.Errorf("got %d bytes of %d", got, sent)
	}
	if errno := g.call("fd_write", a, list, 1, out); errno != fs.Pipe {
		t.Errorf("write after shutdown: %v", errno)
	}
}

func ExampleTakesListeners() {
	accepts := Import{Module: "wasi_snapshot_preview1", Name: "sock_accept"}
	listens := Import{Module: "wasi_snapshot_preview1", Name: "sock_listen"}
	fmt.Println(TakesListeners(nil), TakesListeners([]Import{accepts}), TakesListeners([]Import{accepts, listens}))
	// Output: false true false
}
