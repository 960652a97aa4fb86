//go:build linux

package wasi

import (
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"edgepod/wasmrt/fs"
)

// StopVariable is the environment variable that holds the number of the guest's stop descriptor.
const StopVariable = "EDGEPOD_STOP_FD"

// stopping is how a guest is told to stop, or ended:
//
//	Stop ── the guest has looked at a notice ──► every notice is at its end; the guest goes on as it likes
//	  └──── it has not ──► Terminate ──► the guest ends at its next host call, or at once in one that waits
//
// A notice is the stop descriptor, or a standard input that stays open until the guest is to stop.
type stopping struct {
	// ending is set by Terminate; fd is an eventfd that is readable from then on.
	ending  atomic.Bool
	fd      int
	notices []*notice
}

// newEvent makes an eventfd.
func newEvent() (int, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return -1, fmt.Errorf("make stop event: %w", err)
	}
	return fd, nil
}

// raise makes an eventfd readable for good: nobody reads it.
func raise(fd int) {
	one := [8]byte{1}
	// A counter as low as this one takes the write.
	_, _ = unix.Write(fd, one[:])
}

// Stop asks the guest to stop. A guest that has waited for or read its stop descriptor, or an input that is open until
// then, sees the request and goes on; Stop returns true then. Any other guest is ended as by Terminate. It may be called
// from any goroutine, more than once, until Close.
func (h *Host) Stop() (seen bool) {
	if !h.SeesStop() {
		h.Terminate()
		return false
	}
	for _, n := range h.stop.notices {
		raise(n.fd)
	}
	return true
}

// SeesStop tells whether the guest would see a request by Stop, as it has waited for one already.
func (h *Host) SeesStop() bool {
	return slices.ContainsFunc(h.stop.notices, func(n *notice) bool { return n.watched.Load() })
}

// Terminate ends the guest with an *ExitError of code CodeStopped at its next host call, or at once when it is blocked in
// one. It may be called from any goroutine, more than once, until Close.
func (h *Host) Terminate() {
	if !h.stop.ending.Swap(true) {
		raise(h.stop.fd)
	}
}

// checkStopped ends the guest if it is to be ended.
func (h *Host) checkStopped() {
	if h.stop.ending.Load() {
		panic(&ExitError{Code: CodeStopped, Stopped: true})
	}
}

// newNotice makes a notice, which is closed with the Host.
func (h *Host) newNotice() (*notice, error) {
	fd, err := newEvent()
	if err != nil {
		return nil, err
	}
	n := &notice{fd: fd}
	h.stop.notices = append(h.stop.notices, n)
	return n, nil
}

// openStop gives the guest its stop descriptor.
func (h *Host) openStop() error {
	n, err := h.newNotice()
	if err != nil {
		return err
	}
	fd, err := h.add(&descriptor{object: n, base: inputRights, flags: h.patience()})
	if err != nil {
		return fmt.Errorf("stop descriptor: %w", err)
	}
	h.setEnv(StopVariable, strconv.Itoa(int(fd)))
	return nil
}

// notice is a descriptor that has nothing to read until the guest is asked to stop, and is at its end from then on.
type notice struct {
	fd int
	// watched tells that the guest has read it or waited for it.
	watched atomic.Bool
}

func (n *notice) fileType() fs.FileType  { return fs.TypeUnknown }
func (n *notice) stat() (fs.Stat, error) { return fs.Stat{Nlink: 1}, nil }

// close makes the guest one that does not see requests. The event stays until the Host is closed, as a request may
// be on its way.
func (n *notice) close() error {
	n.watched.Store(false)
	return nil
}

func (n *notice) read(h *Host, _ [][]byte, nonblock bool) (int, error) {
	n.watched.Store(true)
	if nonblock && !n.raised() {
		return 0, fs.Again
	}
	h.waitFD(n.fd, unix.POLLIN)
	return 0, nil
}

// raised tells whether the guest was asked to stop.
func (n *notice) raised() bool { return pollNow(n.fd, unix.POLLIN) }

func (n *notice) watch(*Host, uint8) (fd int, events int16) {
	n.watched.Store(true)
	return n.fd, unix.POLLIN
}

func (n *notice) event(*Host, uint8, int16) readiness { return readiness{hangup: true} }
