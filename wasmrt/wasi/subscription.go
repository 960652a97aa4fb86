//go:build linux

package wasi

import (
	"encoding/binary"
	"math"

	"golang.org/x/sys/unix"

	"edgepod/wasmrt/fs"
)

// The types of event.
const (
	eventClock = iota
	eventRead
	eventWrite
)

// eventSize is the size of an event.
const eventSize = 32

// eventHangup is the flag of an event whose other side is gone.
const eventHangup = 1

// subscription is what a guest waits for, and what came of it.
type subscription struct {
	userdata uint64
	typ      uint8
	fd       uint32
	clock    uint32
	timeout  uint64
	absolute bool

	until  deadline
	object pollable
	// hostFD is the host's descriptor that is waited for, events are those waited for: inSet in the poller's set, or at a
	// slot of its list, 0 for none.
	hostFD int
	events int16
	inSet  bool
	slot   int
	// done tells that there is an event, described by err, nbytes and hangup.
	done   bool
	err    error
	nbytes uint64
	hangup bool
}

// layout is how a version of the interface writes subscriptions.
type layout struct {
	size int
	read func(b []byte) subscription
}

// subscription1 reads the subscription of preview 1.
func subscription1(b []byte) subscription {
	le := binary.LittleEndian
	return subscription{
		userdata: le.Uint64(b), typ: b[8], fd: le.Uint32(b[16:]),
		clock: le.Uint32(b[16:]), timeout: le.Uint64(b[24:]), absolute: le.Uint16(b[40:])&1 != 0,
	}
}

// deadlineOf returns when a clock's event is due. A deadline of zero would mean never.
func (h *Host) deadlineOf(s *subscription) (deadline, error) {
	switch {
	case s.clock == clockProcess || s.clock == clockThread:
		return deadline{}, fs.NotSup
	case s.clock != clockRealtime && s.clock != clockMonotonic:
		return deadline{}, fs.Inval
	case s.absolute && s.clock == clockRealtime:
		return deadline{realtime: max(s.timeout, 1)}, nil
	case s.absolute:
		return deadline{monotonic: max(s.timeout, 1)}, nil
	}
	now := h.clock.monotonic()
	return deadline{monotonic: now + min(s.timeout, math.MaxInt64-now)}, nil
}

// earlier joins two deadlines: a wait ends at the first.
func (d deadline) earlier(e deadline) deadline {
	return deadline{monotonic: sooner(d.monotonic, e.monotonic), realtime: sooner(d.realtime, e.realtime)}
}

func sooner(a, b uint64) uint64 {
	if a == 0 || b == 0 {
		return a | b
	}
	return min(a, b)
}

// passed tells whether a deadline was over at a time on both clocks.
func (d deadline) passed(now deadline) bool {
	return d.monotonic != 0 && d.monotonic <= now.monotonic || d.realtime != 0 && d.realtime <= now.realtime
}

// describe fills in the event of a descriptor that is ready, unless it turns out that it is not.
func (s *subscription) describe(h *Host, revents int16) {
	if revents&unix.POLLNVAL != 0 {
		s.done, s.err = true, fs.BadF
		return
	}
	e := s.object.event(h, s.typ, revents)
	s.done, s.nbytes, s.hangup = !e.again, e.nbytes, e.hangup
}

// put writes the event.
func (s *subscription) put(b []byte) {
	b = b[:eventSize]
	clear(b)
	le := binary.LittleEndian
	le.PutUint64(b, s.userdata)
	le.PutUint16(b[8:], uint16(fs.ErrnoOf(s.err)))
	b[10] = s.typ
	le.PutUint64(b[16:], s.nbytes)
	if s.hangup {
		le.PutUint16(b[24:], eventHangup)
	}
}

// putCount writes how many events there are.
func putCount(b []byte, n uint32) { binary.LittleEndian.PutUint32(b, n) }
