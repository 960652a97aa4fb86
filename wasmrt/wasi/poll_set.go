//go:build linux

package wasi

import (
	"golang.org/x/sys/unix"
)

// setFrom is the number of subscriptions to sockets from which a poll uses the set.
const setFrom = 16

// pollSet is how many sockets are waited for at once: the kernel keeps what is waited for from one poll to the next
// (epoll), so that a poll costs little more for a thousand connections than for the few that are ready. What is in the
// set and not subscribed to any more is taken out when it wakes a poll, as most of it is subscribed to again before.
//
// A socket has one descriptor of the host in its life that can be in the set, so the two name an entry for good; the
// kernel drops one that is closed.
type pollSet struct {
	// fd is the kernel's set, negative while none was needed. entries has the host's descriptors as its index.
	fd      int
	entries []setEntry
	events  [128]unix.EpollEvent
}

// setEntry is a descriptor in the set.
type setEntry struct {
	owner *socket
	// have are the events in the kernel's set; want are those to have, as of a round.
	have, want int16
	round      uint64
	// revents are what was ready in a round.
	revents    int16
	readyRound uint64
}

// want notes that a socket's descriptor is waited for in this round.
func (p *pollSet) want(s *socket, fd int, events int16, round uint64) {
	for fd >= len(p.entries) {
		p.entries = append(p.entries, setEntry{})
	}
	e := &p.entries[fd]
	if e.owner != s {
		*e = setEntry{owner: s}
	}
	if e.round != round {
		e.round, e.want = round, 0
	}
	e.want |= events
}

// arm brings the kernel's set up to what is wanted of a descriptor.
func (p *pollSet) arm(fd int) error {
	e := &p.entries[fd]
	if e.have == e.want {
		return nil
	}
	if p.fd < 0 {
		ep, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
		if err != nil {
			return err
		}
		p.fd = ep
	}
	event := unix.EpollEvent{Events: uint32(uint16(e.want)), Fd: int32(fd)}
	op, other := unix.EPOLL_CTL_ADD, unix.EPOLL_CTL_MOD
	if e.have != 0 {
		op, other = other, op
	}
	err := unix.EpollCtl(p.fd, op, fd, &event)
	if err == unix.EEXIST || err == unix.ENOENT {
		err = unix.EpollCtl(p.fd, other, fd, &event)
	}
	if err == nil {
		e.have = e.want
	}
	return err
}

// fetch notes what is ready in this round, and takes out of the set what nobody waits for.
func (p *pollSet) fetch(round uint64) {
	n, err := ignoringEINTR(func() (int, error) { return unix.EpollWait(p.fd, p.events[:], 0) })
	if err != nil {
		// A set that is one, and room for its events: there is nothing else to complain of.
		panic(err)
	}
	for _, event := range p.events[:n] {
		e := &p.entries[event.Fd]
		if e.round == round {
			e.revents, e.readyRound = int16(event.Events), round
			continue
		}
		e.have = 0
		// One that could not be taken out would be found again.
		_ = unix.EpollCtl(p.fd, unix.EPOLL_CTL_DEL, int(event.Fd), nil)
	}
}

// ready returns what was ready of a descriptor in this round, or 0.
func (p *pollSet) ready(fd int, round uint64) int16 {
	if e := &p.entries[fd]; e.readyRound == round {
		return e.revents
	}
	return 0
}

func (p *pollSet) close() error {
	if p.fd < 0 {
		return nil
	}
	fd := p.fd
	p.fd = -1
	return unix.Close(fd)
}
