//go:build linux

package wasi

import "edgepod/wasmrt/fs"

// procExit ends the guest with a code of its own.
func (h *Host) procExit(_ guestMemory, p params) error {
	panic(&ExitError{Code: p.u32(0)})
}

// The signals of preview 1 that do something other than end a process by default.
const (
	signalNone  = 0
	signalChld  = 16
	signalCont  = 17
	signalStop  = 18
	signalTstp  = 19
	signalTtin  = 20
	signalTtou  = 21
	signalUrg   = 22
	signalWinch = 27
	signalLast  = 30
)

// procRaise does what a signal does by default: a guest has no handlers. One that would end it ends it with 128 and the
// host's number, as a shell would show it.
func (h *Host) procRaise(_ guestMemory, p params) error {
	sig := p.u32(0)
	switch sig {
	case signalNone, signalChld, signalUrg, signalWinch, signalCont:
		return nil
	case signalStop, signalTstp, signalTtin, signalTtou:
		return fs.NotSup
	}
	if sig > signalLast {
		return fs.Inval
	}
	if sig >= signalChld {
		// The host has a signal more before this one, and the same order.
		sig++
	}
	panic(&ExitError{Code: 128 + sig})
}
