//go:build linux

package wasi

import (
	"math"
	"net/netip"
	"slices"
	"testing"

	"edgepod/wasmrt/fs"
)

// socketCall is a call of a socket function that succeeds: its parameters are told apart by version, and pointers are
// those that lead to memory.
type socketCall struct {
	name, params string
	args         []uint64
	pointers     []int
}

// socketCalls lists a good call for every function of sockets. What is received was sent before, twice.
func socketCalls(g *guest) []socketCall {
	a, b := g.pair()
	l, port := g.listen("127.0.0.1:0")
	for range 3 {
		to := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port).String()
		if errno := g.connect(g.socket(familyINET4, typeStream), to); errno != 0 {
			g.t.Fatal(errno)
		}
	}
	u := g.socket(familyINET4, typeDgram)
	if errno := g.bind(u, "127.0.0.1:99"); errno != 0 {
		g.t.Fatal(errno)
	}
	list, _ := g.iovs(2, 2)
	out, wide := g.alloc(64), g.addr(netip.MustParseAddr("127.0.0.1"), sizeWide)
	for range 5 {
		g.write(a, "text")
		g.ok("sock_send_to", u, list, 2, wide, 99, 0, out)
	}
	fresh := func() uint64 { return g.socket(familyINET4, typeStream) }
	hint, entry, sockaddr, data := g.alloc(addrinfoSize), g.alloc(addrinfoSize), g.alloc(12), g.alloc(26)
	first := g.alloc(4)
	g.put32(first, uint32(entry))
	g.put32(entry+12, uint32(sockaddr))
	g.put32(sockaddr+4, 26)
	g.put32(sockaddr+8, uint32(data))
	clear(g.mem[hint : hint+addrinfoSize])
	name, n := g.str("localhost")
	return []socketCall{
		{"sock_accept", "iii", []uint64{l, 0, out}, []int{2}},
		{"sock_accept", "ii", []uint64{l, out}, []int{1}},
		{"sock_accept_v2", "iii", []uint64{l, 0, out}, []int{2}},
		{"sock_recv", "iiiiii", []uint64{b, list, 2, 0, out, out + 8}, []int{1, 4, 5}},
		{"sock_recv_v2", "iiiiii", []uint64{b, list, 2, 0, out, out + 8}, []int{1, 4, 5}},
		{"sock_send", "iiiii", []uint64{a, list, 2, 0, out}, []int{1, 4}},
		{"sock_send_v2", "iiiii", []uint64{a, list, 2, 0, out}, []int{1, 4}},
		{"sock_shutdown", "ii", []uint64{a, shutdownRead}, nil},
		{"sock_open", "iii", []uint64{familyINET4, typeStream, out}, []int{2}},
		{"sock_open_v2", "iii", []uint64{familyINET6, typeDgram, out}, []int{2}},
		{"sock_bind", "iii", []uint64{fresh(), wide, 0}, []int{1}},
		{"sock_bind_v2", "iii", []uint64{fresh(), wide, 0}, []int{1}},
		{"sock_connect", "iii", []uint64{fresh(), wide, uint64(port)}, []int{1}},
		{"sock_connect_v2", "iii", []uint64{fresh(), wide, uint64(port)}, []int{1}},
		{"sock_listen", "ii", []uint64{l, 1}, nil},
		{"sock_listen_v2", "ii", []uint64{l, 1 << 31}, nil},
		{"sock_recv_from", "iiiiiii", []uint64{u, list, 2, wide, 0, out, out + 8}, []int{1, 3, 5, 6}},
		{"sock_recv_from", "iiiiiiii", []uint64{u, list, 2, wide, 0, out + 16, out, out + 8}, []int{1, 3, 5, 6, 7}},
		{"sock_recv_from_v2", "iiiiiiii", []uint64{b, list, 2, wide, 0, out + 16, out, out + 8}, []int{1, 3, 5, 6, 7}},
		{"sock_send_to", "iiiiiii", []uint64{u, list, 2, wide, 99, 0, out}, []int{1, 3, 6}},
		{"sock_send_to_v2", "iiiiiii", []uint64{a, list, 2, wide, 99, 0, out}, []int{1, 3, 6}},
		{"sock_getlocaladdr", "iiii", []uint64{a, wide, out, out + 8}, []int{1, 2, 3}},
		{"sock_getlocaladdr", "iii", []uint64{a, wide, out}, []int{1, 2}},
		{"sock_getlocaladdr_v2", "iii", []uint64{u, wide, out}, []int{1, 2}},
		{"sock_getpeeraddr", "iiii", []uint64{a, wide, out, out + 8}, []int{1, 2, 3}},
		{"sock_getpeeraddr", "iii", []uint64{b, wide, out}, []int{1, 2}},
		{"sock_getpeeraddr_v2", "iii", []uint64{b, wide, out}, []int{1, 2}},
		{"sock_getsockopt", "iiiii", []uint64{a, levelSocket, optionType, out, 4}, []int{3}},
		{"sock_setsockopt", "iiiii", []uint64{a, levelSocket, optionReuseAddr, out, 4}, []int{3}},
		{"sock_getaddrinfo", "iiiiiiii", []uint64{name, n, 0, 0, hint, first, 1, out}, []int{0, 2, 4, 5, 7}},
	}
}

// TestEveryPointerOfSocketsIsChecked gives each pointer values that lead out of memory or around its end. The answer is
// Fault, and nothing has happened: what can be received is still there, and no descriptor was made.
func TestEveryPointerOfSocketsIsChecked(t *testing.T) {
	g := newSocketGuest(t)
	called := map[string]bool{}
	for _, c := range socketCalls(g) {
		called[c.name+c.params] = true
		for _, i := range c.pointers {
			for _, bad := range []uint64{memorySize, memorySize - 1, memorySize + 1, 1 << 31, math.MaxUint32 - 3, math.MaxUint32} {
				args := slices.Clone(c.args)
				args[i] = bad
				if c.name == "sock_getaddrinfo" && i == 2 {
					args[3] = 2
				}
				before := len(g.h.fds.entries)
				if got := g.callAs(c.name, c.params, args...); got != fs.Fault || len(g.h.fds.entries) != before {
					t.Errorf("%s (%s) with parameter %d = %#x: got %v, want Fault", c.name, c.params, i, bad, got)
				}
			}
		}
		if got := g.callAs(c.name, c.params, c.args...); got != 0 {
			t.Errorf("%s (%s)%v: %v", c.name, c.params, c.args, got)
		}
	}
	for _, f := range functionsOf("wasi_snapshot_preview1") {
		if f.name[:5] == "sock_" && !called[f.name+f.params] {
			t.Errorf("%s (%s) is not called", f.name, f.params)
		}
	}
}

func TestAddressBuffersAreChecked(t *testing.T) {
	g := newSocketGuest(t)
	fd := g.socket(familyINET4, typeStream)
	local := netip.MustParseAddr("127.0.0.1")
	for _, c := range []struct {
		at, size uint32
		want     fs.Errno
	}{
		{memorySize - 3, 4, fs.Fault},
		{memorySize - 127, 128, fs.Fault},
		{math.MaxUint32, 16, fs.Fault},
		{0, 5, fs.Inval},
		{0, math.MaxUint32, fs.Inval},
		{0, 0, fs.Inval},
	} {
		p := g.alloc(8)
		g.put32(p, c.at)
		g.put32(p+4, c.size)
		g.want(c.want, "sock_bind", fd, p, 80)
		g.want(c.want, "sock_connect", fd, p, 80)
		if got := g.callAs("sock_getlocaladdr", "iii", fd, p, g.alloc(4)); got != c.want {
			t.Errorf("%+v: getlocaladdr: got %v", c, got)
		}
	}
	g.want(fs.Inval, "sock_bind", fd, g.addr(local, sizeINET4), 1<<16)
	wide := g.addr(local, sizeWide)
	g.mem[g.u32(wide)] = 3
	g.want(fs.AFNoSupport, "sock_bind", fd, wide, 80)
	six := g.socket(familyINET6, typeStream)
	if got := g.callAs("sock_getlocaladdr", "iiii", six, g.addr(local, sizeINET4), g.alloc(4), g.alloc(4)); got != fs.NoMem {
		t.Errorf("an address of 16 bytes in 4: got %v", got)
	}
	// IPv4 in either spelling, and in a socket of IPv6.
	g.ok("sock_bind", fd, g.addr(netip.MustParseAddr("::ffff:127.0.0.1"), sizeINET6), 80)
	g.ok("sock_bind", six, g.addr(local, sizeINET4), 81)
	family, port, a := g.alloc(4), g.alloc(4), g.addr(netip.Addr{}, sizeINET6)
	if got := g.callAs("sock_getlocaladdr", "iiii", fd, a, family, port); got != 0 || g.u32(family) != 4 || g.u32(port) != 80 ||
		!slices.Equal(g.mem[g.u32(a):][:4], []byte{127, 0, 0, 1}) {
		t.Errorf("got %v, family %d, port %d, %v", got, g.u32(family), g.u32(port), g.mem[g.u32(a):][:4])
	}
	if got := g.callAs("sock_getlocaladdr", "iiii", six, a, family, port); got != 0 || g.u32(family) != 6 || g.u32(port) != 81 {
		t.Errorf("got %v, family %d, port %d", got, g.u32(family), g.u32(port))
	}
}

// TestGiantListsOfBuffers gives counts and sizes that no memory holds.
func TestGiantListsOfBuffers(t *testing.T) {
	g := newSocketGuest(t)
	a, b := g.pair()
	out := g.alloc(64)
	for _, n := range []uint64{1 << 31, math.MaxUint32, memorySize / 8 * 2} {
		g.want(fs.Fault, "sock_send", a, 0, n, 0, out)
		g.want(fs.Fault, "sock_recv", b, 0, n, 0, out, out+8)
	}
	// More buffers than the host takes at once: some are done, and the guest is told how many bytes.
	const count = 3000
	sizes := make([]int, count)
	for i := range sizes {
		sizes[i] = 1
	}
	list, _ := g.iovs(sizes...)
	g.ok("sock_send", a, list, count, 0, out)
	sent := g.u32(out)
	g.ok("sock_recv", b, list, count, 0, out, out+8)
	if got := g.u32(out); got != sent || sent == 0 {
		t.Errorf("sent %d bytes, received %d", sent, got)
	}
}
