//go:build linux

package wasi

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"edgepod/wasmrt/fs"
	"edgepod/wasmrt/net"
)

func TestOptionsOfSockets(t *testing.T) {
	g := newSocketGuest(t)
	l, _ := g.listen("127.0.0.1:80")
	a, _ := g.pair()
	u := g.socket(familyINET6, typeDgram)
	for _, c := range []struct {
		fd   uint64
		name uint64
		want uint32
	}{
		{l, optionType, typeStream},
		{u, optionType, typeDgram},
		{l, optionAccepts, 1},
		{a, optionAccepts, 0},
		{a, optionError, 0},
		{a, optionReuseAddr, 0},
		{u, optionSendBuffer, 208 << 10},
	} {
		if got := g.option(c.fd, levelSocket, c.name); got != c.want {
			t.Errorf("option %d is %d, want %d", c.name, got, c.want)
		}
	}
	value := g.alloc(16)
	g.put32(value, 1<<16)
	for _, name := range []uint64{optionReuseAddr, 3, 4, optionSendBuffer, 7, 8, 10} {
		g.ok("sock_setsockopt", a, levelSocket, name, value, 4)
		if got := g.option(a, levelSocket, name); got < 1<<16 {
			t.Errorf("option %d is %d", name, got)
		}
	}
	g.ok("sock_setsockopt", a, levelTCP, 1, value, 4)
	if got := g.option(a, levelTCP, 1); got != 1<<16 {
		t.Errorf("TCP_NODELAY is %d", got)
	}
	g.put32(value, 1)
	g.put32(value+4, 7)
	g.ok("sock_setsockopt", a, levelSocket, optionLinger, value, 8)
	out, size := g.alloc(16), g.alloc(64)
	g.put32(size, 16)
	g.ok("sock_getsockopt", a, levelSocket, optionLinger, out, size)
	if g.u32(out) != 1 || g.u32(out+4) != 7 || g.u32(size) != 8 {
		t.Errorf("linger is %d, %d in %d bytes", g.u32(out), g.u32(out+4), g.u32(size))
	}
	for _, name := range []uint64{optionType, optionError, optionAccepts, optionDevice, 99} {
		g.want(fs.NoProtoOpt, "sock_setsockopt", a, levelSocket, name, value, 4)
	}
	g.want(fs.NoProtoOpt, "sock_getsockopt", a, levelSocket, optionDevice, out, 4)
	g.want(fs.NoProtoOpt, "sock_getsockopt", a, 41, 26, out, 4)
	g.want(fs.Inval, "sock_setsockopt", a, levelSocket, optionReuseAddr, value, 3)
	g.want(fs.Inval, "sock_setsockopt", a, levelSocket, optionReuseAddr, value, 1<<31)
	g.want(fs.Inval, "sock_setsockopt", a, levelSocket, optionLinger, value, 4)
}

// TestCallsInTheWrongState holds that each call answers as it does on Linux.
func TestCallsInTheWrongState(t *testing.T) {
	g := newSocketGuest(t)
	a, _ := g.pair()
	l, _ := g.listen("127.0.0.1:80")
	fresh, u := g.socket(familyINET4, typeStream), g.socket(familyINET4, typeDgram)
	list, _ := g.iovs(4)
	out := g.alloc(64)
	local := g.addr(netip.MustParseAddr("127.0.0.1"), sizeINET4)
	for _, c := range []struct {
		want fs.Errno
		name string
		args []uint64
	}{
		{fs.AFNoSupport, "sock_open", []uint64{0, typeStream, out}},
		{fs.AFNoSupport, "sock_open", []uint64{3, typeStream, out}},
		{fs.Inval, "sock_open", []uint64{familyINET4, 0, out}},
		{fs.Inval, "sock_open", []uint64{familyINET4, 3, out}},
		{fs.Inval, "sock_bind", []uint64{a, local, 81}},
		{fs.Inval, "sock_bind", []uint64{l, local, 81}},
		{fs.AddrInUse, "sock_bind", []uint64{fresh, local, 80}},
		{fs.AddrNotAvail, "sock_bind", []uint64{fresh, g.addr(netip.MustParseAddr("10.1.1.1"), sizeINET4), 80}},
		{fs.Inval, "sock_listen", []uint64{a, 1}},
		{fs.NotSup, "sock_listen", []uint64{u, 1}},
		{fs.IsConn, "sock_connect", []uint64{a, local, 80}},
		{fs.IsConn, "sock_connect", []uint64{l, local, 80}},
		{fs.Inval, "sock_connect", []uint64{fresh, g.addr(netip.Addr{}, sizeWide), 80}},
		{fs.NotConn, "sock_recv", []uint64{fresh, list, 1, 0, out, out + 8}},
		{fs.NotConn, "sock_recv", []uint64{l, list, 1, 0, out, out + 8}},
		{fs.NotConn, "sock_send", []uint64{fresh, list, 1, 0, out}},
		{fs.DestAddrReq, "sock_send", []uint64{u, list, 1, 0, out}},
		{fs.Inval, "sock_send", []uint64{a, list, 1, 1, out}},
		{fs.Inval, "sock_recv", []uint64{a, list, 1, 4, out, out + 8}},
		{fs.NotConn, "sock_shutdown", []uint64{fresh, 3}},
		{fs.NotConn, "sock_shutdown", []uint64{l, 3}},
		{fs.NotConn, "sock_shutdown", []uint64{u, 3}},
		{fs.Inval, "sock_shutdown", []uint64{a, 0}},
		{fs.Inval, "sock_shutdown", []uint64{a, 4}},
		{fs.SPipe, "fd_seek", []uint64{a, 0, whenceSet, out}},
		{fs.SPipe, "fd_tell", []uint64{l, out}},
		{fs.NotSock, "sock_listen", []uint64{0, 1}},
		{fs.BadF, "sock_listen", []uint64{99, 1}},
	} {
		g.want(c.want, c.name, c.args...)
	}
	for fd, want := range map[uint64]fs.Errno{fresh: fs.Inval, a: fs.Inval, u: fs.NotSup, 0: fs.NotSock} {
		if _, errno := g.accept(fd); errno != want {
			t.Errorf("accept on %d: got %v, want %v", fd, errno, want)
		}
	}
	if got := g.callAs("sock_accept", "iii", l, uint64(flagAppend), out); got != fs.Inval {
		t.Errorf("accept with a flag of files: %v", got)
	}
	g.ok("fd_fdstat_set_rights", a, uint64(rightFDRead), 0)
	for name, args := range map[string][]uint64{
		"sock_send": {a, list, 1, 0, out}, "fd_write": {a, list, 1, out}, "sock_shutdown": {a, 1},
	} {
		if got := g.call(name, args...); got == 0 {
			t.Errorf("%s without the right for it succeeded", name)
		}
	}
	typ, _, _, _ := g.fdstat(u)
	stat := g.alloc(64)
	g.ok("fd_filestat_get", l, stat)
	if typ != fs.TypeSocketDgram || fs.FileType(g.mem[stat+16]) != fs.TypeSocketStream {
		t.Errorf("got types %d and %d", typ, g.mem[stat+16])
	}
}

func TestSocketsWithoutANetwork(t *testing.T) {
	g := newGuest(t, Config{}, "")
	g.want(fs.AFNoSupport, "sock_open", familyINET4, typeStream, g.alloc(4))
	if got, _, errno := g.lookup("localhost", "", hints{}, 4); errno != addrinfoNoName {
		t.Errorf("got %v, %v", got, errno)
	}
	if got, _, errno := g.lookup("127.0.0.1", "", hints{typ: typeStream}, 4); errno != 0 || fmt.Sprint(got) != "[127.0.0.1:0]" {
		t.Errorf("got %v, %v", got, errno)
	}
	for want, cfg := range map[string]Config{
		"without a network": {Listeners: []Listener{{Protocol: net.TCP, Addr: netip.MustParseAddrPort("0.0.0.0:80")}}},
		"neither TCP":       {Listeners: []Listener{{Protocol: "SCTP", Addr: netip.MustParseAddrPort("0.0.0.0:80")}}},
		"no address":        {Listeners: []Listener{{Protocol: net.TCP, Addr: netip.MustParseAddrPort("0.0.0.0:0")}}},
		"colon":             {Listeners: []Listener{{Name: "a:b", Protocol: net.TCP, Addr: netip.MustParseAddrPort("0.0.0.0:80")}}},
	} {
		if h, err := New(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, %v, want %s", h, err, want)
		}
	}
}

// lookup calls sock_getaddrinfo with a list of n entries, and returns the addresses, the types and the canonical name.
func (g *guest) lookup(name, service string, q hints, n int) (addrs []netip.AddrPort, canonical string, errno fs.Errno) {
	g.t.Helper()
	entries, first, count, hint := g.alloc(n*addrinfoSize), g.alloc(4), g.alloc(4), g.alloc(addrinfoSize)
	for i := range n {
		e, sockaddr, data, text := entries+uint64(i*addrinfoSize), g.alloc(12), g.alloc(26), g.alloc(32)
		g.put32(e+12, uint32(sockaddr))
		g.put32(e+16, uint32(text))
		g.put32(e+20, 32)
		g.put32(sockaddr+4, 14)
		g.put32(sockaddr+8, uint32(data))
		if i+1 < n {
			g.put32(e+24, uint32(e)+addrinfoSize)
		}
	}
	g.put32(first, uint32(entries))
	b := g.mem[hint : hint+addrinfoSize]
	binary.LittleEndian.PutUint16(b, q.flags)
	b[2], b[3], b[4] = q.family, q.typ, q.protocol
	p, size := g.str(name)
	s, ssize := g.str(service)
	errno = g.call("sock_getaddrinfo", p, size, s, ssize, hint, first, uint64(n), count)
	for i := range uint64(g.u32(count)) {
		e := g.mem[entries+i*addrinfoSize:][:addrinfoSize]
		sockaddr := g.mem[binary.LittleEndian.Uint32(e[12:]):][:12]
		data := g.mem[binary.LittleEndian.Uint32(sockaddr[8:]):][:26]
		ip, _ := netip.AddrFromSlice(data[2:6])
		if sockaddr[0] == familyINET6 {
			ip, _ = netip.AddrFromSlice(data[2:18])
		}
		if e[2] != sockaddr[0] || e[3] == typeStream != (e[4] == protocolTCP) {
			g.t.Errorf("entry %d: %v", i, e)
		}
		addrs = append(addrs, netip.AddrPortFrom(ip, binary.BigEndian.Uint16(data)))
		if n := binary.LittleEndian.Uint32(e[20:]); n > 0 {
			canonical += string(g.mem[binary.LittleEndian.Uint32(e[16:]):][:n])
		}
	}
	return addrs, canonical, errno
}

func TestLookups(t *testing.T) {
	g := newSocketGuest(t)
	const both = 0
	for _, c := range []struct {
		name, service string
		hints         hints
		n             int
		want          string
		errno         fs.Errno
	}{
		{"localhost", "80", hints{typ: typeStream}, 9, "[127.0.0.1:80 [::1]:80]", 0},
		{"localhost\x00", "http\x00", hints{family: familyINET4}, 9, "[127.0.0.1:80 127.0.0.1:80]", 0},
		{"LOCALHOST", "domain", hints{family: familyINET6, protocol: protocolUDP}, 9, "[[::1]:53]", 0},
		{"web-0", "", hints{typ: typeDgram, family: both}, 9, "[127.0.0.1:0 [::1]:0]", 0},
		{"localhost", "1", hints{}, 3, "[127.0.0.1:1 127.0.0.1:1 [::1]:1]", 0},
		{"10.1.2.3", "443", hints{typ: typeStream, flags: addrinfoNumericHost}, 1, "[10.1.2.3:443]", 0},
		{"fd00::1", "", hints{typ: typeStream}, 1, "[[fd00::1]:0]", 0},
		{"", "8080", hints{typ: typeStream, flags: addrinfoPassive}, 9, "[0.0.0.0:8080 [::]:8080]", 0},
		{"", "8080", hints{typ: typeStream}, 9, "[127.0.0.1:8080 [::1]:8080]", 0},
		{"example.com", "", hints{}, 9, "[]", addrinfoNoName},
		{"", "", hints{}, 9, "[]", addrinfoNoName},
		{"localhost", "", hints{flags: addrinfoNumericHost}, 9, "[]", addrinfoNoName},
		{"localhost", "http", hints{flags: addrinfoNumericService}, 9, "[]", addrinfoNoName},
		{"localhost", "gopher", hints{}, 9, "[]", addrinfoService},
		{"localhost", "65536", hints{}, 9, "[]", addrinfoService},
		{"10.1.2.3", "", hints{family: familyINET6}, 9, "[]", addrinfoNoData},
		{"localhost", "", hints{family: 3}, 9, "[]", addrinfoFamily},
		{"localhost", "", hints{typ: 3}, 9, "[]", addrinfoType},
		{"localhost", "", hints{typ: typeDgram, protocol: protocolTCP}, 9, "[]", addrinfoType},
		{"localhost", "", hints{flags: 1 << 7}, 9, "[]", addrinfoBadFlags},
		{"localhost", "", hints{}, 0, "[]", addrinfoMemory},
		{strings.Repeat("x", 256), "", hints{}, 9, "[]", addrinfoNoName},
	} {
		got, _, errno := g.lookup(c.name, c.service, c.hints, c.n)
		if fmt.Sprint(got) != c.want || errno != c.errno {
			t.Errorf("%.20q %q %+v: got %v, %d, want %s, %d", c.name, c.service, c.hints, got, errno, c.want, c.errno)
		}
		g.next = 0
		clear(g.mem)
	}
	_, name, _ := g.lookup("localhost", "", hints{flags: addrinfoCanonicalName}, 9)
	if name != "localhost" {
		t.Errorf("canonical name is %q", name)
	}
}

func TestDatagrams(t *testing.T) {
	dir := pod(t)
	g := newGuest(t, Config{Net: network(t, dir), Listeners: []Listener{
		{Name: "dns", Protocol: net.UDP, Addr: netip.MustParseAddrPort("0.0.0.0:53")},
	}}, "")
	client := g.beside(dir)
	fd := client.socket(familyINET4, typeDgram)
	if errno := client.connect(fd, "127.0.0.1:53"); errno != 0 {
		t.Fatal(errno)
	}
	client.write(fd, "question")
	list, buf := g.iovs(4)
	out, port, from := g.alloc(64), g.alloc(4), g.addr(netip.Addr{}, sizeWide)
	for _, flags := range []uint64{receivePeek, 0} {
		if errno := g.callAs("sock_recv_from", "iiiiiiii", 3, list, 1, from, flags, port, out, out+8); errno != 0 {
			t.Fatal(errno)
		}
		if got := string(g.mem[buf : buf+4]); got != "ques" || g.u32(out) != 4 || g.mem[out+8] != receivedTruncated {
			t.Errorf("got %q, %d bytes, flags %d", got, g.u32(out), g.mem[out+8])
		}
	}
	if at := client.local(fd); uint16(g.u32(port)) != at.Port() || at.Addr().String() != "127.0.0.1" {
		t.Errorf("the sender is at %v, and seen at port %d", at, g.u32(port))
	}
	g.ok("sock_send_to", 3, list, 1, from, uint64(g.u32(port)), 0, out)
	if text, errno := client.read(fd, 100); text != "ques" || errno != 0 {
		t.Errorf("read %q, %v", text, errno)
	}
	if at, errno := client.remote(fd); at.String() != "127.0.0.1:53" || errno != 0 {
		t.Errorf("the peer is %v, %v", at, errno)
	}
	client.nonblock(fd)
	if _, errno := client.read(fd, 1); errno != fs.Again {
		t.Errorf("read: %v", errno)
	}
	client.ok("sock_shutdown", fd, shutdownRead|shutdownWrite)
	client.want(fs.Pipe, "fd_write", fd, list, 1, out)
	if text, errno := client.read(fd, 1); text != "" || errno != 0 {
		t.Errorf("read %q, %v", text, errno)
	}
	g.ok("fd_close", 3)
	other := client.socket(familyINET4, typeDgram)
	if errno := client.connect(other, "127.0.0.1:53"); errno != 0 {
		t.Fatal(errno)
	}
	client.want(fs.ConnRefused, "sock_send", other, list, 1, 0, out)
	client.ok("sock_connect", other, client.addr(netip.Addr{}, sizeWide), 0)
	client.want(fs.DestAddrReq, "sock_send", other, list, 1, 0, out)
	client.ok("sock_send_to", other, list, 1, client.addr(netip.MustParseAddr("127.0.0.1"), sizeINET4), 53, 0, out)
	if got := client.connect(other, "9.9.9.9:53"); got != fs.NetUnreach {
		t.Errorf("got %v", got)
	}
}

// TestFullTableOfDescriptors holds that a guest that takes all descriptors loses no connection by it, and that none of
// the host's are left when it is gone.
func TestFullTableOfDescriptors(t *testing.T) {
	dir := pod(t)
	before := hostFiles(t)
	n, err := net.Open(net.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	h, err := New(Config{Net: n, MaxFiles: 64})
	if err != nil {
		t.Fatal(err)
	}
	g := &guest{t: t, h: h, mem: make(memory, memorySize)}
	l, _ := g.listen("127.0.0.1:80")
	c := g.socket(familyINET4, typeStream)
	if errno := g.connect(c, "127.0.0.1:80"); errno != 0 {
		t.Fatal(errno)
	}
	out := g.alloc(4)
	var last uint64
	for {
		errno := g.call("sock_open", familyINET4, uint64(typeStream), out)
		if errno == fs.MFile {
			break
		}
		if errno != 0 {
			t.Fatal(errno)
		}
		last = uint64(g.u32(out))
		if errno := g.bind(last, "127.0.0.1:0"); errno != 0 {
			t.Fatal(errno)
		}
	}
	if _, errno := g.accept(l); errno != fs.MFile {
		t.Errorf("accept: %v", errno)
	}
	g.ok("fd_close", last)
	conn, errno := g.accept(l)
	if errno != 0 || conn != last {
		t.Errorf("accept: %v, descriptor %d, want %d", errno, conn, last)
	}
	g.write(c, "still there")
	if text, _ := g.read(conn, 100); text != "still there" {
		t.Errorf("read %q", text)
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	if err := n.Close(); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(before, hostFiles(t)); diff != "" {
		t.Error(diff)
	}
}

// hostFiles returns which descriptors of this process are sockets, timers or events, by number.
func hostFiles(t testing.TB) map[int]string {
	t.Helper()
	// The Go runtime makes such descriptors for itself where it first waits for a file.
	r, w, err := os.Pipe()
	if err = errors.Join(err, r.Close(), w.Close()); err != nil {
		t.Fatal(err)
	}
	files := map[int]string{}
	buf := make([]byte, 256)
	for fd := range 4096 {
		n, err := unix.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd), buf)
		if name := string(buf[:max(n, 0)]); err == nil && (strings.Contains(name, ":[") || strings.HasSuffix(name, "/ports")) {
			files[fd] = name
		}
	}
	return files
}
