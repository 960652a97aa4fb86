//go:build linux

package wasi

import (
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"edgepod/wasmrt/fs"
	"edgepod/wasmrt/net"
)

// TestStopWakesSocketsThatWait stops guests that wait for ever in a socket call; the test's own time limit is the
// assertion.
func TestStopWakesSocketsThatWait(t *testing.T) {
	for name, wait := range map[string]func(g *guest){
		"accept": func(g *guest) {
			l, _ := g.listen("127.0.0.1:80")
			g.accept(l)
		},
		"accept on a listener from the start": func(g *guest) { g.accept(3) },
		"recv": func(g *guest) {
			a, _ := g.pair()
			g.read(a, 1)
		},
		"recv all": func(g *guest) {
			a, b := g.pair()
			g.write(b, "some")
			list, _ := g.iovs(100)
			g.call("sock_recv", a, list, 1, receiveWaitAll, g.alloc(4), g.alloc(4))
		},
		"send": func(g *guest) {
			a, _ := g.pair()
			list, _ := g.iovs(1 << 19)
			g.call("sock_send", a, list, 1, 0, g.alloc(4))
		},
		"connect": func(g *guest) {
			g.listen("127.0.0.1:80")
			for {
				g.connect(g.socket(familyINET4, typeStream), "127.0.0.1:80")
			}
		},
		"recv_from": func(g *guest) { g.read(g.socket(familyINET4, typeDgram), 1) },
		"poll": func(g *guest) {
			l, _ := g.listen("127.0.0.1:80")
			a, _ := g.pair()
			g.poll(sub{typ: eventRead, fd: uint32(l)}, sub{typ: eventRead, fd: uint32(a)}, sub{typ: eventRead, fd: 3})
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGuest(t, Config{Net: network(t, pod(t)), StopDescriptor: true, Listeners: []Listener{
				{Protocol: net.TCP, Addr: netip.MustParseAddrPort("0.0.0.0:8080")},
			}}, "")
			var wg sync.WaitGroup
			wg.Go(func() { g.h.Stop() })
			exit := ends(t, func() { wait(g) })
			wg.Wait()
			if exit == nil || exit.Code != CodeStopped || !exit.Stopped {
				t.Errorf("got %+v", exit)
			}
		})
	}
}

func TestTimeLimitsOfSockets(t *testing.T) {
	g := newSocketGuest(t)
	limit := g.alloc(16)
	g.put64(limit, 0)
	g.put64(limit+8, uint64(3*time.Millisecond/time.Microsecond))
	l, _ := g.listen("127.0.0.1:80")
	a, _ := g.pair()
	u := g.socket(familyINET4, typeDgram)
	for _, fd := range []uint64{l, a, u} {
		g.ok("sock_setsockopt", fd, levelSocket, optionReceiveTimeout, limit, 16)
		g.ok("sock_setsockopt", fd, levelSocket, optionSendTimeout, limit, 16)
	}
	if _, errno := g.accept(l); errno != fs.Again {
		t.Errorf("accept: %v", errno)
	}
	for _, fd := range []uint64{a, u} {
		if _, errno := g.read(fd, 1); errno != fs.Again {
			t.Errorf("read: %v", errno)
		}
	}
	list, _ := g.iovs(1 << 19)
	out := g.alloc(4)
	for {
		errno := g.call("sock_send", a, list, 1, 0, out)
		if errno == fs.Again {
			break
		}
		if errno != 0 {
			t.Fatal(errno)
		}
	}
	got, size := g.alloc(16), g.alloc(64)
	g.put32(size, 16)
	g.ok("sock_getsockopt", a, levelSocket, optionReceiveTimeout, got, size)
	if g.u64(got) != 0 || g.u64(got+8) != 3000 || g.u32(size) != 16 {
		t.Errorf("got %d s %d us, %d bytes", g.u64(got), g.u64(got+8), g.u32(size))
	}
	g.put64(limit+8, 1e6)
	g.want(fs.Dom, "sock_setsockopt", a, levelSocket, optionReceiveTimeout, limit, 16)
	g.want(fs.Inval, "sock_setsockopt", a, levelSocket, optionReceiveTimeout, limit, 4)
}

func TestPollOfSockets(t *testing.T) {
	for _, from := range []int{1, setFrom} {
		g := newSocketGuest(t)
		g.h.poller.setFrom = from
		testPollOfSockets(t, g)
	}
}

func testPollOfSockets(t *testing.T, g *guest) {
	l, port := g.listen("127.0.0.1:0")
	a, b := g.pair()
	u := g.socket(familyINET4, typeDgram)
	if errno := g.bind(u, "127.0.0.1:99"); errno != 0 {
		t.Fatal(errno)
	}
	fresh := g.socket(familyINET4, typeStream)
	subs := []sub{
		{typ: eventRead, fd: uint32(l)},
		{typ: eventRead, fd: uint32(a)},
		{typ: eventRead, fd: uint32(u)},
		{typ: eventRead, fd: uint32(b)},
		{clock: clockMonotonic},
	}
	want := func(what string, subs []sub, want ...event) {
		t.Helper()
		if diff := cmp.Diff(want, g.poll(subs...)); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
	want("nothing is ready", subs, event{Userdata: 4})
	g.write(b, "12345")
	list, _ := g.iovs(2, 2)
	g.ok("sock_send_to", u, list, 2, g.addr(netip.MustParseAddr("127.0.0.1"), sizeINET4), 99, 0, g.alloc(4))
	c := g.socket(familyINET4, typeStream)
	if errno := g.connect(c, netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port).String()); errno != 0 {
		t.Fatal(errno)
	}
	want("all but one are ready", subs[:4], event{Userdata: 0, Type: eventRead}, event{Userdata: 1, Type: eventRead, Nbytes: 5},
		event{Userdata: 2, Type: eventRead, Nbytes: 4})
	g.ok("sock_shutdown", b, shutdownWrite)
	want("half is closed, with something left", subs[1:2], event{Type: eventRead, Nbytes: 5})
	g.read(a, 5)
	want("half is closed", subs[1:2], event{Type: eventRead})
	want("writing", []sub{{typ: eventWrite, fd: uint32(a)}, {typ: eventWrite, fd: uint32(u)}},
		event{Type: eventWrite}, event{Userdata: 1, Type: eventWrite})
	g.ok("fd_close", b)
	want("the peer is gone", []sub{{typ: eventRead, fd: uint32(a)}, {typ: eventWrite, fd: uint32(a)}},
		event{Type: eventRead, Hangup: true}, event{Userdata: 1, Type: eventWrite, Hangup: true})
	want("not connected", []sub{{typ: eventRead, fd: uint32(fresh)}, {typ: eventWrite, fd: uint32(fresh)}},
		event{Type: eventRead, Hangup: true}, event{Userdata: 1, Type: eventWrite, Hangup: true})
	g.ok("sock_shutdown", c, shutdownRead)
	want("reading is shut down", []sub{{typ: eventRead, fd: uint32(c)}, {clock: clockMonotonic, timeout: never}}, event{Type: eventRead})
}

// TestPollOfAConnectionThatWaits connects to a listener whose queue is full, until there is room.
func TestPollOfAConnectionThatWaits(t *testing.T) {
	for _, from := range []int{1, setFrom} {
		g := newGuest(t, Config{Net: network(t, pod(t)), MaxFiles: 10000}, "")
		g.h.poller.setFrom = from
		testPollOfAConnectionThatWaits(t, g)
	}
}

func testPollOfAConnectionThatWaits(t *testing.T, g *guest) {
	l, _ := g.listen("127.0.0.1:80")
	var fd uint64
	queued := 0
	for ; ; queued++ {
		fd = g.socket(familyINET4, typeStream)
		g.nonblock(fd)
		errno := g.connect(fd, "127.0.0.1:80")
		if errno == fs.InProgress {
			break
		}
		if errno != 0 {
			t.Fatal(errno)
		}
	}
	if errno := g.connect(fd, "127.0.0.1:80"); errno != fs.Already {
		t.Errorf("connect again: %v", errno)
	}
	if _, errno := g.read(fd, 1); errno != fs.Again {
		t.Errorf("read: %v", errno)
	}
	both := []sub{{typ: eventRead, fd: uint32(fd)}, {typ: eventWrite, fd: uint32(fd)}}
	short := sub{clock: clockMonotonic, timeout: uint64(5 * time.Millisecond)}
	if diff := cmp.Diff([]event{{Userdata: 2}}, g.poll(append(both, short)...)); diff != "" {
		t.Error(diff)
	}
	if _, errno := g.accept(l); errno != 0 {
		t.Fatal(errno)
	}
	if diff := cmp.Diff([]event{{Userdata: 1, Type: eventWrite}}, g.poll(both...)); diff != "" {
		t.Error(diff)
	}
	if got := g.option(fd, levelSocket, optionError); got != 0 {
		t.Errorf("error %d", got)
	}
	if errno := g.connect(fd, "127.0.0.1:80"); errno != fs.IsConn {
		t.Errorf("connect again: %v", errno)
	}
	// Another that waits is refused when the listener ends.
	for range queued {
		other := g.socket(familyINET4, typeStream)
		g.nonblock(other)
		if errno := g.connect(other, "127.0.0.1:80"); errno == fs.InProgress {
			fd = other
			break
		}
	}
	g.ok("fd_close", l)
	if diff := cmp.Diff([]event{{Type: eventWrite, Hangup: true}}, g.poll(sub{typ: eventWrite, fd: uint32(fd)})); diff != "" {
		t.Error(diff)
	}
	if got := g.option(fd, levelSocket, optionError); fs.Errno(got) != fs.ConnRefused {
		t.Errorf("error %d", got)
	}
	if got := g.option(fd, levelSocket, optionError); got != 0 {
		t.Errorf("error %d, told twice", got)
	}
}

// TestInputThatIsOpenUntilTheStopRequest reads and polls such an input with and without something in it.
func TestInputThatIsOpenUntilTheStopRequest(t *testing.T) {
	for _, nonblock := range []bool{false, true} {
		r, w := pipe(t)
		for name, g := range map[string]*guest{
			"nobody writes":   newGuest(t, Config{StdinOpen: true, NonblockListeners: nonblock}, ""),
			"somebody writes": newGuest(t, Config{Stdin: r, StdinOpen: true, NonblockListeners: nonblock}, ""),
		} {
			in := sub{typ: eventRead, fd: 0}
			if diff := cmp.Diff([]event{{Userdata: 1}}, g.poll(in, sub{clock: clockMonotonic})); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
			if nonblock {
				if _, errno := g.read(0, 10); errno != fs.Again {
					t.Errorf("%s: read: %v", name, errno)
				}
			}
			if g.h.cfg.Stdin != nil {
				if _, err := w.WriteString("hello"); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff([]event{{Type: eventRead, Nbytes: 5}}, g.poll(in)); diff != "" {
					t.Errorf("%s: %s", name, diff)
				}
				if text, errno := g.read(0, 10); text != "hello" || errno != 0 {
					t.Errorf("%s: read %q, %v", name, text, errno)
				}
			}
			var wg sync.WaitGroup
			wg.Go(func() {
				if !g.h.Stop() {
					t.Errorf("%s: the request was not seen", name)
				}
			})
			if diff := cmp.Diff([]event{{Type: eventRead, Hangup: true}}, g.poll(in)); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
			if text, errno := g.read(0, 10); text != "" || errno != 0 {
				t.Errorf("%s: read %q, %v", name, text, errno)
			}
			wg.Wait()
		}
	}
	r, w := pipe(t)
	g := newGuest(t, Config{Stdin: r, StdinOpen: true}, "")
	w.Close()
	if diff := cmp.Diff([]event{{Type: eventRead, Hangup: true}}, g.poll(sub{typ: eventRead, fd: 0})); diff != "" {
		t.Error(diff)
	}
	if text, errno := g.read(0, 10); text != "" || errno != 0 {
		t.Errorf("read %q, %v", text, errno)
	}
	unwatched := newGuest(t, Config{StdinOpen: true, StopDescriptor: true}, "")
	if unwatched.h.Stop() {
		t.Error("a guest that does not look has seen the request")
	}
}
