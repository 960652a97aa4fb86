//go:build linux

package wasi

import (
	"golang.org/x/sys/unix"

	"edgepod/wasmrt/fs"
)

// maxSubscriptions bounds one poll: more than twice the descriptors that a guest may have are of no use.
const maxSubscriptions = 1 << 14

// poller is what polls work with, kept from one to the next: a server sits in them.
type poller struct {
	subs []subscription
	fds  []unix.PollFd
	// slots says, by the host's descriptor, where it is among fds, as long as round is the present one: two subscriptions
	// to one descriptor share a place, because the host takes no more places than a process may have descriptors.
	slots []pollSlot
	round uint64
	// set is used where setFrom or more subscriptions are to sockets; setSlot is its own place among fds, 0 for none.
	set     pollSet
	setFrom int
	setSlot int
}

type pollSlot struct {
	round uint64
	index int
}

func (h *Host) pollOneoff(mem guestMemory, p params) error {
	return h.pollWith(mem, p, layout{size: 48, read: subscription1})
}

// pollWith waits until one of the subscriptions has an event, and writes all that have one by then.
func (h *Host) pollWith(mem guestMemory, p params, l layout) error {
	n := p.u32(2)
	if n == 0 || n > maxSubscriptions {
		return fs.Inval
	}
	in, err := view(mem, p.u32(0), n*uint32(l.size))
	if err != nil {
		return err
	}
	out, err := view(mem, p.u32(1), n*eventSize)
	if err != nil {
		return err
	}
	count, err := view(mem, p.u32(3), 4)
	if err != nil {
		return err
	}
	subs := h.poller.subs[:0]
	for i := range int(n) {
		subs = append(subs, l.read(in[i*l.size:]))
	}
	h.poller.subs = subs
	h.pollAll(subs)
	written := uint32(0)
	for i := range subs {
		if s := &subs[i]; s.done {
			s.put(out[written*eventSize:])
			written++
		}
	}
	// What was subscribed to may be closed before the next poll.
	clear(subs)
	putCount(count, written)
	return nil
}

// pollAll waits, and marks what is done.
func (h *Host) pollAll(subs []subscription) {
	sockets := 0
	for i := range subs {
		s := &subs[i]
		h.prepare(s)
		if _, ok := s.object.(*socket); ok {
			sockets++
		}
	}
	for {
		until, ready := h.gather(subs, sockets >= h.poller.setFrom)
		if ready {
			until = deadline{monotonic: 1}
		}
		h.wait(h.poller.fds, until)
		if h.collect(subs) {
			return
		}
	}
}

// gather lists what to wait for, and how long. Something may be ready without a wait.
func (h *Host) gather(subs []subscription, useSet bool) (until deadline, ready bool) {
	p := &h.poller
	p.round++
	p.fds, p.setSlot = append(p.fds[:0], unix.PollFd{}), 0
	for i := range subs {
		s := &subs[i]
		s.slot, s.inSet = 0, false
		if s.object != nil && !s.done {
			fd, events := s.object.watch(h, s.typ)
			if fd >= 0 {
				p.place(s, fd, events, useSet)
			} else {
				s.describe(h, unix.POLLIN|unix.POLLOUT)
			}
		}
		until = until.earlier(s.until)
		ready = ready || s.done
	}
	if useSet {
		p.armSet(subs)
	}
	return until, ready
}

// place puts a descriptor of the host where it is waited for. That of a connection that is being made belongs to the
// network, which may change it: it is not for the set.
func (p *poller) place(s *subscription, fd int, events int16, useSet bool) {
	s.hostFD, s.events = fd, events
	if so, ok := s.object.(*socket); ok && useSet && so.dialing == nil {
		s.inSet = true
		p.set.want(so, fd, events, p.round)
		return
	}
	s.slot = p.slot(fd)
	p.fds[s.slot].Events |= events
}

// armSet brings the set up to date, and waits for it too. What cannot be in it is waited for without.
func (p *poller) armSet(subs []subscription) {
	armed := false
	for i := range subs {
		s := &subs[i]
		if !s.inSet {
			continue
		}
		if err := p.set.arm(s.hostFD); err != nil {
			s.inSet = false
			s.slot = p.slot(s.hostFD)
			p.fds[s.slot].Events |= s.events
			continue
		}
		armed = true
	}
	if armed {
		p.setSlot = p.slot(p.set.fd)
		p.fds[p.setSlot].Events = unix.POLLIN
	}
}

// slot returns the place of a descriptor of the host.
func (p *poller) slot(fd int) int {
	for fd >= len(p.slots) {
		p.slots = append(p.slots, pollSlot{})
	}
	if at := &p.slots[fd]; at.round != p.round {
		*at = pollSlot{p.round, len(p.fds)}
		p.fds = append(p.fds, unix.PollFd{Fd: int32(fd)})
	}
	return p.slots[fd].index
}

// prepare looks at a subscription before the wait: it may be wrong.
func (h *Host) prepare(s *subscription) {
	switch s.typ {
	case eventClock:
		s.until, s.err = h.deadlineOf(s)
		s.done = s.err != nil
		return
	case eventRead, eventWrite:
	default:
		s.done, s.err = true, fs.Inval
		return
	}
	r := rightPollFDReadwrite | rightFDRead
	if s.typ == eventWrite {
		r = rightPollFDReadwrite | rightFDWrite
	}
	d, err := h.fds.get(s.fd, r)
	if err != nil {
		s.done, s.err = true, err
		return
	}
	p, ok := d.object.(pollable)
	if !ok {
		s.done = true
		return
	}
	s.object = p
}

// collect marks the subscriptions that are done after a wait.
func (h *Host) collect(subs []subscription) (some bool) {
	p := &h.poller
	if p.setSlot != 0 && p.fds[p.setSlot].Revents != 0 {
		p.set.fetch(p.round)
	}
	var now deadline
	for i := range subs {
		s := &subs[i]
		switch {
		case s.done:
		case s.inSet || s.slot != 0:
			if revents := p.revents(s); revents&(s.events|unix.POLLERR|unix.POLLHUP|unix.POLLNVAL) != 0 {
				s.describe(h, revents)
			}
		case s.typ == eventClock:
			if now.monotonic == 0 {
				now = deadline{monotonic: h.clock.monotonic(), realtime: h.clock.realtime()}
			}
			s.done = s.until.passed(now)
		}
		some = some || s.done
	}
	return some
}

// revents is the host's answer to a subscription.
func (p *poller) revents(s *subscription) int16 {
	if s.inSet {
		return p.set.ready(s.hostFD, p.round)
	}
	return p.fds[s.slot].Revents
}
