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
		left, passed := h.remaining(until)
		var timeout *unix.Timespec
		ts := unix.NsecToTimespec(left)
		if left != forever {
			timeout = &ts
		}
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

// forever is the time that is left where there is no deadline.
const forever = math.MaxInt64

// remaining is how many nanoseconds to wait, and passed when the deadline was over before.
func (h *Host) remaining(until deadline) (left int64, passed bool) {
	left = forever
	if until.monotonic != 0 {
		left = timeUntil(until.monotonic, h.clock.monotonic())
		passed = left == 0
	}
	if until.realtime != 0 {
		day := timeUntil(until.realtime, h.clock.realtime())
		passed = passed || day == 0
		left = min(left, day, int64(dayCheck))
	}
	return left, passed
}

func timeUntil(until, now uint64) int64 {
	if until <= now {
		return 0
	}
	return int64(min(until-now, forever-1))
}

// waitFD blocks until fd is ready for events.
func (h *Host) waitFD(fd int, events int16) { h.waitFDUntil(fd, events, deadline{}) }

// waitFDUntil blocks until fd is ready for events, or returns false when the deadline has passed.
func (h *Host) waitFDUntil(fd int, events int16, until deadline) bool {
	fds := [2]unix.PollFd{1: {Fd: int32(fd), Events: events}}
	return h.wait(fds[:], until) > 0
}

// pollNow tells whether fd is ready for events.
func pollNow(fd int, events int16) bool {
	fds := [1]unix.PollFd{{Fd: int32(fd), Events: events}}
	n, err := ignoringEINTR(func() (int, error) { return unix.Ppoll(fds[:], &unix.Timespec{}, nil) })
	return n > 0 && err == nil
}
