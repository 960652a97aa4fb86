//go:build linux

package wasi

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestPollOfManySocketsAnswersAsOfFew opens, fills, empties, shuts down and closes sockets as chance has it, polls any of
// them, and compares what is told with and without the set.
func TestPollOfManySocketsAnswersAsOfFew(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 5))
		g := newSocketGuest(t)
		listener, port := g.listen("127.0.0.1:0")
		to := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port)
		list, _ := g.iovs(64)
		wide, out := g.addr(to.Addr(), sizeWide), g.alloc(16)
		start := g.next
		fds := []uint64{listener}
		for round := range 300 {
			g.next = start
			switch fd := fds[r.IntN(len(fds))]; r.IntN(7) {
			case 0, 1:
				if len(fds) > 60 {
					break
				}
				fd := g.socket(familyINET4, 1+r.Uint64N(2))
				g.nonblock(fd)
				g.call("sock_connect", fd, wide, uint64(port))
				fds = append(fds, fd)
			case 2:
				g.nonblock(listener)
				if fd, errno := g.accept(listener); errno == 0 {
					g.nonblock(fd)
					fds = append(fds, fd)
				}
			case 3:
				g.call("fd_write", fd, list, 1, out)
			case 4:
				g.call("fd_read", fd, list, 1, out)
			case 5:
				g.call("sock_shutdown", fd, 1+r.Uint64N(3))
			case 6:
				if fd != listener {
					g.ok("fd_close", fd)
					fds = slices.DeleteFunc(fds, func(f uint64) bool { return f == fd })
				}
			}
			var subs []sub
			for _, fd := range fds {
				if r.IntN(3) > 0 {
					subs = append(subs, sub{typ: uint8(1 + r.IntN(2)), fd: uint32(fd)})
				}
			}
			subs = append(subs, sub{clock: clockMonotonic})
			g.h.poller.setFrom = 1
			with := g.poll(subs...)
			g.h.poller.setFrom = 1 << 30
			if diff := cmp.Diff(g.poll(subs...), with); diff != "" {
				t.Fatalf("seed %d, round %d: %s", seed, round, diff)
			}
		}
	}
}

// TestPollIsNotWokenByWhatIsNotAskedFor leaves connections ready that were subscribed to before, and waits for another.
func TestPollIsNotWokenByWhatIsNotAskedFor(t *testing.T) {
	g := newSocketGuest(t)
	g.h.poller.setFrom = 1
	var here, there []uint64
	var subs []sub
	for range 20 {
		a, b := g.pair()
		here, there = append(here, a), append(there, b)
		subs = append(subs, sub{typ: eventRead, fd: uint32(a)})
	}
	g.poll(append(slices.Clone(subs), sub{clock: clockMonotonic})...)
	for i, fd := range there[1:] {
		g.write(fd, "ready")
		if i%2 == 0 {
			g.ok("fd_close", here[i+1])
		}
	}
	if diff := cmp.Diff([]event{{Userdata: 1}}, g.poll(subs[0], sub{clock: clockMonotonic})); diff != "" {
		t.Error(diff)
	}
	for _, fd := range here[1:] {
		if d, err := g.h.fds.get(uint32(fd), 0); err == nil && g.h.poller.set.entries[d.object.(*socket).conn.FD].have != 0 {
			t.Errorf("descriptor %d is still waited for", fd)
		}
	}
}
