//go:build linux

package wasi

import (
	"golang.org/x/sys/unix"

	"edgepod/wasmrt/fs"
)

// maxSubscriptions bounds one poll: more than twice the descriptors that a guest may have are of no use.
const maxSubscriptions = 1 << 14

func (h *Host) pollOneoff(mem guestMemory, p params) error {
	return h.poll(mem, p, layout{size: 48, read: subscription1})
}

// poll waits until one of the subscriptions has an event, and writes all that have one by then.
func (h *Host) poll(mem guestMemory, p params, l layout) error {
	n := p.u32(2)
	switch {
	case n == 0 || n > maxSubscriptions:
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
	subs := make([]subscription, n)
	for i := range subs {
		subs[i] = l.read(in[i*l.size:])
	}
	h.pollAll(subs)
	written := uint32(0)
	for _, s := range subs {
		if s.done {
			s.put(out[written*eventSize:])
			written++
		}
	}
	return putUint32(mem, p.u32(3), written)
}

// pollAll waits, and marks what is done.
func (h *Host) pollAll(subs []subscription) {
	fds := make([]unix.PollFd, 1, len(subs)+1)
	slots := make(map[int]int)
	var until deadline
	ready := false
	for i := range subs {
		s := &subs[i]
		h.prepare(s)
		if fd := s.hostFD(); fd >= 0 {
			// The host takes no more entries than a process may have descriptors, so each of them gets one.
			if slots[fd] == 0 {
				fds = append(fds, unix.PollFd{Fd: int32(fd)})
				slots[fd] = len(fds) - 1
			}
			s.slot = slots[fd]
			fds[s.slot].Events |= s.events()
		}
		until = until.earlier(s.until)
		ready = ready || s.done
	}
	if ready {
		until = deadline{monotonic: 1}
	}
	for {
		h.wait(fds, until)
		if h.collect(subs, fds) {
			return
		}
	}
}

// prepare looks at a subscription before the wait: it may be done already, or wrong.
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
	r := rightFDRead
	if s.typ == eventWrite {
		r = rightFDWrite
	}
	d, err := h.fds.get(s.fd, 0)
	switch {
	case err != nil:
		s.done, s.err = true, err
		return
	case d.base&(rightPollFDReadwrite|r) != rightPollFDReadwrite|r:
		s.done, s.err = true, d.need(rightPollFDReadwrite|r)
		return
	}
	s.object = d.object
	if s.hostFD() < 0 {
		s.done = true
		s.describe(unix.POLLIN | unix.POLLOUT)
	}
}

// collect marks the subscriptions that are done after a wait.
func (h *Host) collect(subs []subscription, fds []unix.PollFd) (any bool) {
	monotonic, realtime := h.clock.monotonic(), h.clock.realtime()
	for i := range subs {
		s := &subs[i]
		switch {
		case s.done:
		case s.slot != 0 && fds[s.slot].Revents&(s.events()|unix.POLLERR|unix.POLLHUP|unix.POLLNVAL) != 0:
			s.done = true
			s.describe(fds[s.slot].Revents)
		case s.until.monotonic != 0 && s.until.monotonic <= monotonic, s.until.realtime != 0 && s.until.realtime <= realtime:
			s.done = true
		}
		any = any || s.done
	}
	return any
}
