//go:build linux

package wasi

import (
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"edgepod/wasmrt/fs"
	"edgepod/wasmrt/net"
)

// slowNetwork is a network whose answers come from elsewhere: each is waited for by a descriptor.
type slowNetwork struct {
	*net.Local
	t *testing.T
	// dials and names are what was asked for and not answered.
	dials chan *answer[*net.Conn]
	names chan *answer[[]netip.Addr]
}

func newSlowNetwork(t *testing.T) *slowNetwork {
	return &slowNetwork{network(t, pod(t)), t, make(chan *answer[*net.Conn], 10), make(chan *answer[[]netip.Addr], 10)}
}

// answer is a result that a test gives.
type answer[T any] struct {
	fd     int
	mu     sync.Mutex
	value  T
	err    error
	closed bool
}

func newAnswer[T any](t *testing.T) *answer[T] {
	t.Helper()
	fd, err := newEvent()
	if err != nil {
		t.Fatal(err)
	}
	return &answer[T]{fd: fd, err: unix.EAGAIN}
}

func (a *answer[T]) give(value T, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.value, a.err = value, err
	raise(a.fd)
}

func (a *answer[T]) FD() int { return a.fd }

func (a *answer[T]) Finish() (T, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.value, a.err
}

func (a *answer[T]) Close() error {
	a.closed = true
	return unix.Close(a.fd)
}

func (n *slowNetwork) Dial(_, _ netip.AddrPort) (net.Pending[*net.Conn], error) {
	a := newAnswer[*net.Conn](n.t)
	n.dials <- a
	return a, nil
}

func (n *slowNetwork) Lookup(string) (net.Pending[[]netip.Addr], error) {
	a := newAnswer[[]netip.Addr](n.t)
	n.names <- a
	return a, nil
}

func TestConnectionsThatComeLater(t *testing.T) {
	n := newSlowNetwork(t)
	g := newGuest(t, Config{Net: n}, "")
	g.h.poller.setFrom = 1
	const there = "10.1.2.3:80"
	fd := g.socket(familyINET4, typeStream)
	g.nonblock(fd)
	if errno := g.connect(fd, there); errno != fs.InProgress {
		t.Fatal(errno)
	}
	subs := []sub{{typ: eventWrite, fd: uint32(fd)}, {typ: eventRead, fd: uint32(fd)}}
	short := sub{clock: clockMonotonic, timeout: uint64(time.Millisecond)}
	if diff := cmp.Diff([]event{{Userdata: 2}}, g.poll(append(subs, short)...)); diff != "" {
		t.Error(diff)
	}
	if got := g.option(fd, levelSocket, optionError); got != 0 {
		t.Errorf("error %d", got)
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pair[1])
	dial := <-n.dials
	var wg sync.WaitGroup
	wg.Go(func() {
		dial.give(&net.Conn{FD: pair[0], Local: netip.MustParseAddrPort("10.1.2.4:99"), Remote: netip.MustParseAddrPort(there)}, nil)
	})
	if diff := cmp.Diff([]event{{Type: eventWrite}}, g.poll(subs...)); diff != "" {
		t.Error(diff)
	}
	wg.Wait()
	if at, errno := g.remote(fd); at.String() != there || errno != 0 || g.local(fd).String() != "10.1.2.4:99" || !dial.closed {
		t.Errorf("connected from %v to %v, %v", g.local(fd), at, errno)
	}
	g.write(fd, "hello")

	// A guest that waits in connect, and one that is refused, with the error told once.
	blocking := g.socket(familyINET4, typeStream)
	wg.Go(func() { (<-n.dials).give(nil, unix.EHOSTUNREACH) })
	if errno := g.connect(blocking, there); errno != fs.HostUnreach {
		t.Error(errno)
	}
	wg.Wait()
	refused := g.socket(familyINET4, typeStream)
	g.nonblock(refused)
	if errno := g.connect(refused, there); errno != fs.InProgress {
		t.Fatal(errno)
	}
	wg.Go(func() { (<-n.dials).give(nil, unix.ECONNREFUSED) })
	if diff := cmp.Diff([]event{{Type: eventWrite, Hangup: true}}, g.poll(sub{typ: eventWrite, fd: uint32(refused)})); diff != "" {
		t.Error(diff)
	}
	wg.Wait()
	if _, errno := g.read(refused, 1); errno != fs.ConnRefused {
		t.Errorf("read: %v", errno)
	}
	if got := g.option(refused, levelSocket, optionError); got != 0 {
		t.Errorf("error %d, told twice", got)
	}
	// One that is closed while it waits.
	gone := g.socket(familyINET4, typeStream)
	g.nonblock(gone)
	if errno := g.connect(gone, there); errno != fs.InProgress {
		t.Fatal(errno)
	}
	g.ok("fd_close", gone)
	if dial := <-n.dials; !dial.closed {
		t.Error("the dial goes on")
	}
}

func TestNamesThatComeLater(t *testing.T) {
	n := newSlowNetwork(t)
	g := newGuest(t, Config{Net: n}, "")
	var wg sync.WaitGroup
	wg.Go(func() { (<-n.names).give([]netip.Addr{netip.MustParseAddr("10.1.2.3")}, nil) })
	got, _, errno := g.lookup("web.default.svc", "80", hints{typ: typeStream}, 4)
	if errno != 0 || len(got) != 1 || got[0].String() != "10.1.2.3:80" {
		t.Errorf("got %v, %v", got, errno)
	}
	wg.Go(func() { (<-n.names).give(nil, net.ErrNotFound) })
	if _, _, errno := g.lookup("nobody", "", hints{}, 4); errno != addrinfoNoName {
		t.Error(errno)
	}
	wg.Go(func() { (<-n.names).give(nil, unix.EIO) })
	if _, _, errno := g.lookup("nobody", "", hints{}, 4); errno != addrinfoAgain {
		t.Error(errno)
	}
	wg.Wait()
	for what, wait := range map[string]func(){
		"look-up": func() { g.lookup("nobody", "", hints{}, 4) },
		"connect": func() { g.connect(g.socket(familyINET4, typeStream), "10.1.2.3:80") },
	} {
		wg.Go(func() { g.h.Stop() })
		if exit := ends(t, wait); exit == nil || !exit.Stopped {
			t.Errorf("%s: got %+v", what, exit)
		}
		wg.Wait()
	}
}
