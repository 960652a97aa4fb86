//go:build linux

package wasi

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"edgepod/wasmrt/fs"
	"edgepod/wasmrt/net"
)

// peer is a guest that is client and server at once: it opens, binds, connects, accepts, sends, receives, polls and
// closes as chance has it, among others that do the same.
type peer struct {
	*guest
	rand *rand.Rand
	// list describes a buffer of 64 bytes, wide an address.
	list, wide, out uint64
	fds             []uint64
}

func newPeer(t *testing.T, h *Host, seed uint64) *peer {
	g := &guest{t: t, h: h, mem: make(memory, memorySize)}
	p := &peer{guest: g, rand: rand.New(rand.NewPCG(seed, 3))}
	p.list, _ = g.iovs(64)
	p.wide = g.addr(netip.MustParseAddr("127.0.0.1"), sizeWide)
	p.out = g.alloc(64)
	return p
}

// keep notes a descriptor that a call has made.
func (p *peer) keep(errno fs.Errno) {
	if errno != 0 {
		return
	}
	fd := uint64(p.u32(p.out))
	p.ok("fd_fdstat_set_flags", fd, uint64(flagNonblock))
	p.fds = append(p.fds, fd)
}

// act makes one call.
func (p *peer) act() {
	if len(p.fds) == 0 || p.rand.IntN(8) == 0 {
		p.keep(p.call("sock_open", familyINET4, uint64(1+p.rand.IntN(2)), p.out))
		return
	}
	i := p.rand.IntN(len(p.fds))
	fd, port := p.fds[i], uint64(8000+p.rand.IntN(6))
	switch p.rand.IntN(12) {
	case 0:
		p.call("sock_bind", fd, p.wide, port)
	case 1:
		p.call("sock_listen", fd, 4)
	case 2, 3:
		p.call("sock_connect", fd, p.wide, port)
	case 4, 5:
		p.keep(p.callAs("sock_accept", "iii", fd, 0, p.out))
	case 6:
		p.call("fd_write", fd, p.list, 1, p.out)
	case 7:
		p.call("sock_send_to", fd, p.list, 1, p.wide, port, 0, p.out)
	case 8:
		p.call("fd_read", fd, p.list, 1, p.out)
	case 9:
		p.callAs("sock_recv_from", "iiiiiiii", fd, p.list, 1, p.wide, 0, p.out+8, p.out, p.out+16)
	case 10:
		p.next = uint32(p.out) + 64
		p.poll(sub{typ: eventRead, fd: uint32(fd)}, sub{typ: eventWrite, fd: uint32(fd)}, sub{clock: clockMonotonic})
	case 11:
		p.ok("fd_close", fd)
		p.fds = append(p.fds[:i], p.fds[i+1:]...)
	}
}

// TestPodOfBusyGuests has guests of one pod make calls at once; some are stopped on their way. What they hold is gone
// with them.
func TestPodOfBusyGuests(t *testing.T) {
	before := hostFiles(t)
	dir := pod(t)
	var wg sync.WaitGroup
	for i := range uint64(6) {
		n, err := net.Open(net.Config{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		h, err := New(Config{Net: n, MaxFiles: 50})
		if err != nil {
			t.Fatal(err)
		}
		h.poller.setFrom = 1 + int(i%3)
		p := newPeer(t, h, i)
		var stopper sync.WaitGroup
		wg.Go(func() {
			exit := endsOr(func() {
				for j := range 4000 {
					if j == 2000 && i%2 == 0 {
						stopper.Go(func() { h.Stop() })
					}
					p.act()
				}
			})
			stopper.Wait()
			if exit != nil && !exit.Stopped {
				t.Errorf("guest %d: %v", i, exit)
			}
			if err := errors.Join(h.Close(), n.Close()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if diff := cmp.Diff(before, hostFiles(t)); diff != "" {
		t.Errorf("descriptors of the host: %s", diff)
	}
	l, err := net.Open(net.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	for port := range uint16(6) {
		at := netip.MustParseAddrPort(fmt.Sprintf("0.0.0.0:%d", 8000+port))
		s, err := l.Bind(at)
		if err != nil {
			t.Errorf("port %v is not free: %v", at, err)
			continue
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// endsOr runs f, and returns how it ended the guest, or nil.
func endsOr(f func()) (exit *ExitError) {
	defer func() {
		r := recover()
		if err, ok := r.(error); r != nil && (!ok || !errors.As(err, &exit)) {
			panic(r)
		}
	}()
	f()
	return nil
}
