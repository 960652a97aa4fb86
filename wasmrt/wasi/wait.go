//go:build linux

package wasi

import (
	"math"
	"time"

	"golang.org/x/sys/unix"
)

// deadline is when a wait ends: on the monotonic clock, on the clock of the day, or never where both are zero.
type deadline struct {
	monotonic uint64
	realtime  uint64
}

// dayCheck is how long a wait for the time of day lasts at most before that is looked at again: it may be set meanwhile.
const dayCheck = 10 * time.Second

// wait blocks until one of fds is ready or the deadline has passed, and ends the guest at a stop request. It leaves the
// kernel's answer in fds. The first of fds is overwritten with the stop event.
func (h *Host) wait(fds []unix.PollFd, until deadline) (ready int) {
	fds[0] = unix.PollFd{Fd: int32(h.stop.fd), Events: unix.POLLIN}
	for {
		timeout, passed := h.timeout(until)
		n, err := unix.Ppoll(fds, timeout, nil)
		h.checkStopped()
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			// Left are EINVAL and ENOMEM, of a kernel that takes fewer descriptors than were given to the guest.
			panic(err)
		case n > 0 || passed:
			return n
		}
	}
}

// timeout is how long to wait: nil for ever, and passed when the deadline was over before.
func (h *Host) timeout(until deadline) (ts *unix.Timespec, passed bool) {
	left := uint64(math.MaxInt64)
	if until.monotonic != 0 {
		left = remaining(until.monotonic, h.clock.monotonic())
	}
	if until.realtime != 0 {
		left = min(left, remaining(until.realtime, h.clock.realtime()))
		passed = left == 0
		left = min(left, uint64(dayCheck))
	}
	if left == math.MaxInt64 {
		return nil, false
	}
	t := unix.NsecToTimespec(int64(left))
	return &t, passed || left == 0
}

func remaining(until, now uint64) uint64 {
	if until <= now {
		return 0
	}
	return min(until-now, math.MaxInt64-1)
}

// waitFD blocks until fd is ready for events.
func (h *Host) waitFD(fd int, events int16) {
	h.wait([]unix.PollFd{{}, {Fd: int32(fd), Events: events}}, deadline{})
}

// pollNow tells whether fd is ready for events.
func pollNow(fd int, events int16) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: events}}
	n, err := ignoringEINTR(func() (int, error) { return unix.Ppoll(fds, &unix.Timespec{}, nil) })
	return n > 0 && err == nil
}
