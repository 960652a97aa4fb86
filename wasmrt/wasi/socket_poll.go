//go:build linux

package wasi

import (
	"golang.org/x/sys/unix"

	"edgepod/wasmrt/net"
)

// watch tells what to wait for. A socket that is neither connected nor on its way is ready, as on Linux: whoever uses it
// learns why.
func (s *socket) watch(h *Host, typ uint8) (fd int, events int16) {
	switch {
	case s.protocol == net.UDP:
		return s.watchUDP(h, typ)
	case s.dialing != nil && !s.progress():
		return s.dialing.FD(), unix.POLLIN
	case s.conn != nil && typ == eventRead && s.noRead:
		return -1, 0
	case s.conn != nil:
		return s.conn.FD, pollEvents(typ)
	}
	// One that cannot be opened is ready, so that accept tells the error.
	if err := s.open(h); err == nil && s.listening {
		return s.listener.FD(), pollEvents(typ)
	}
	return -1, 0
}

// watchUDP is watch for UDP, which never waits to send.
func (s *socket) watchUDP(h *Host, typ uint8) (fd int, events int16) {
	if typ == eventWrite || s.noRead || s.ensureBound(h) != nil {
		return -1, 0
	}
	return s.packets.FD(), unix.POLLIN
}

// event tells what is ready.
func (s *socket) event(_ *Host, typ uint8, revents int16) (e readiness) {
	switch {
	case s.protocol == net.UDP:
		return s.eventUDP(typ)
	case s.dialing != nil:
		if !s.progress() {
			return readiness{again: true}
		}
		return readiness{hangup: s.conn == nil, again: s.conn != nil && typ == eventRead}
	case s.conn == nil:
		return readiness{hangup: !s.listening}
	}
	if typ == eventRead && !s.noRead {
		e.nbytes = readable(s.conn.FD)
		// A connection that was made in this round is not what was waited for.
		e.again = e.nbytes == 0 && !pollNow(s.conn.FD, unix.POLLIN)
	}
	// What was sent before the end is to be read before the end is told.
	e.hangup = revents&(unix.POLLHUP|unix.POLLERR) != 0 && e.nbytes == 0
	return e
}

// eventUDP is event for UDP. A datagram that is there may be none for this socket.
func (s *socket) eventUDP(typ uint8) readiness {
	if typ == eventWrite || s.noRead || s.packets == nil {
		return readiness{}
	}
	p, err := s.packets.Receive(nil, true)
	if err == unix.EAGAIN {
		return readiness{again: true}
	}
	return readiness{nbytes: uint64(p.Size)}
}
