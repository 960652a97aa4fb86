//go:build linux

package wasi

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"edgepod/wasmrt/fs"
	"edgepod/wasmrt/guest/guesttest"
	"edgepod/wasmrt/net"
)

// pod makes a folder for a pod's network.
var pod = guesttest.Dir

// network opens the network of a container of the pod.
func network(t testing.TB, dir string) *net.Local {
	t.Helper()
	n, err := net.Open(net.Config{Dir: dir, Hostname: "web-0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

// newSocketGuest makes a guest in a pod of its own.
func newSocketGuest(t *testing.T) *guest {
	t.Helper()
	return newGuest(t, Config{Net: network(t, pod(t))}, "")
}

// beside makes another guest in the same pod.
func (g *guest) beside(dir string) *guest {
	g.t.Helper()
	return newGuest(g.t, Config{Net: network(g.t, dir)}, "")
}

// callAs calls a function by name and parameters: some names have two versions.
func (g *guest) callAs(name, params string, args ...uint64) fs.Errno {
	g.t.Helper()
	for _, f := range functionsOf("wasi_snapshot_preview1") {
		if f.name != name || f.params != params {
			continue
		}
		stack := make([]uint64, max(len(args), 1))
		for i, a := range args {
			stack[i] = a&0xffffffff | 0xdeadbeef<<32
		}
		g.h.call(f, g.mem, stack)
		return fs.Errno(stack[0])
	}
	g.t.Fatalf("no function %s (%s)", name, params)
	return 0
}

// socket opens a socket.
func (g *guest) socket(family, typ uint64) uint64 {
	g.t.Helper()
	out := g.alloc(4)
	g.ok("sock_open", family, typ, out)
	return uint64(g.u32(out))
}

// addr makes a buffer for an address of size bytes, with ip in it if that is valid, and returns its description.
func (g *guest) addr(ip netip.Addr, size int) uint64 {
	p, buf := g.alloc(8), g.alloc(size)
	g.put32(p, uint32(buf))
	g.put32(p+4, uint32(size))
	b := g.mem[buf : buf+uint64(size)]
	clear(b)
	if !ip.IsValid() {
		return p
	}
	if size == sizeWide {
		binary.LittleEndian.PutUint16(b, uint16(familyOf(ip)))
		b = b[2:]
	}
	copy(b, ip.AsSlice())
	return p
}

// bind binds to an address.
func (g *guest) bind(fd uint64, at string) fs.Errno {
	g.t.Helper()
	a := netip.MustParseAddrPort(at)
	return g.call("sock_bind", fd, g.addr(a.Addr(), sizeWide), uint64(a.Port()))
}

// connect connects to an address.
func (g *guest) connect(fd uint64, to string) fs.Errno {
	g.t.Helper()
	a := netip.MustParseAddrPort(to)
	return g.call("sock_connect", fd, g.addr(a.Addr(), sizeWide), uint64(a.Port()))
}

// listen makes a listener, and returns it and its port.
func (g *guest) listen(at string) (fd uint64, port uint16) {
	g.t.Helper()
	a := netip.MustParseAddrPort(at)
	fd = g.socket(uint64(familyOf(a.Addr())), typeStream)
	if errno := g.bind(fd, at); errno != 0 {
		g.t.Fatalf("bind %s: %v", at, errno)
	}
	g.ok("sock_listen", fd, 16)
	return fd, g.local(fd).Port()
}

// accept accepts a connection.
func (g *guest) accept(fd uint64) (uint64, fs.Errno) {
	g.t.Helper()
	out := g.alloc(4)
	errno := g.callAs("sock_accept", "iii", fd, 0, out)
	return uint64(g.u32(out)), errno
}

// local and remote return the addresses of a socket.
func (g *guest) local(fd uint64) netip.AddrPort {
	g.t.Helper()
	at, errno := g.addrOf("sock_getlocaladdr", fd)
	if errno != 0 {
		g.t.Fatalf("local address: %v", errno)
	}
	return at
}

func (g *guest) remote(fd uint64) (netip.AddrPort, fs.Errno) {
	g.t.Helper()
	return g.addrOf("sock_getpeeraddr", fd)
}

func (g *guest) addrOf(name string, fd uint64) (netip.AddrPort, fs.Errno) {
	g.t.Helper()
	a, port := g.addr(netip.Addr{}, sizeWide), g.alloc(4)
	errno := g.callAs(name, "iii", fd, a, port)
	ip, err := guestAddr(g.mem[g.u32(a):][:sizeWide]).get()
	if err != nil {
		g.t.Fatal(err)
	}
	return netip.AddrPortFrom(ip, uint16(g.u32(port))), errno
}

// option reads an option that is a number.
func (g *guest) option(fd, level, name uint64) uint32 {
	g.t.Helper()
	out := g.alloc(4)
	g.ok("sock_getsockopt", fd, level, name, out, 4)
	return g.u32(out)
}

// nonblock makes a descriptor one that does not wait.
func (g *guest) nonblock(fd uint64) {
	g.t.Helper()
	g.ok("fd_fdstat_set_flags", fd, uint64(flagNonblock))
}

// pair makes two connected sockets.
func (g *guest) pair() (a, b uint64) {
	g.t.Helper()
	l, port := g.listen("127.0.0.1:0")
	a = g.socket(familyINET4, typeStream)
	if errno := g.connect(a, netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port).String()); errno != 0 {
		g.t.Fatalf("connect: %v", errno)
	}
	b, errno := g.accept(l)
	if errno != 0 {
		g.t.Fatalf("accept: %v", errno)
	}
	g.ok("fd_close", l)
	return a, b
}
