//go:build linux

package wasi

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"edgepod/wasmrt/fs"
)

// The clocks of preview 1.
const (
	clockRealtime  = 0
	clockMonotonic = 1
	clockProcess   = 2
	clockThread    = 3
)

// clock reads the host's clocks without a system call, where the host's library can.
type clock struct {
	start time.Time
	base  uint64
}

func newClock() (clock, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return clock{}, err
	}
	return clock{start: time.Now(), base: uint64(ts.Nano())}, nil
}

// monotonic counts from the start of the machine, as the host's own clock does.
func (c clock) monotonic() uint64 { return c.base + uint64(time.Since(c.start)) }

func (c clock) realtime() uint64 { return uint64(max(time.Now().UnixNano(), 0)) }

// hostClock returns the host's number of a clock; the clock of a thread is that of the process, whose threads a guest
// does not choose.
func hostClock(id uint32) (int32, error) {
	switch id {
	case clockRealtime:
		return unix.CLOCK_REALTIME, nil
	case clockMonotonic:
		return unix.CLOCK_MONOTONIC, nil
	case clockProcess, clockThread:
		return unix.CLOCK_PROCESS_CPUTIME_ID, nil
	}
	return 0, fs.Inval
}

// clockResGet tells the resolution of a clock.
func (h *Host) clockResGet(mem guestMemory, p params) error {
	id, err := hostClock(p.u32(0))
	if err != nil {
		return err
	}
	var ts unix.Timespec
	if err := unix.ClockGetres(id, &ts); err != nil {
		return err
	}
	return putUint64(mem, p.u32(1), uint64(ts.Nano()))
}

// clockTimeGet reads a clock; the precision asked for does not matter.
func (h *Host) clockTimeGet(mem guestMemory, p params) error {
	id, err := hostClock(p.u32(0))
	if err != nil {
		return err
	}
	var now uint64
	switch id {
	case unix.CLOCK_REALTIME:
		now = h.clock.realtime()
	case unix.CLOCK_MONOTONIC:
		now = h.clock.monotonic()
	default:
		var ts unix.Timespec
		if err := unix.ClockGettime(id, &ts); err != nil {
			return err
		}
		now = uint64(ts.Nano())
	}
	return putUint64(mem, p.u32(2), now)
}

// schedYield lets others run.
func (h *Host) schedYield(guestMemory, params) error {
	runtime.Gosched()
	return nil
}
