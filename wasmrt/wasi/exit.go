//go:build linux

package wasi

import (
	"errors"
	"fmt"
)

// CodeStopped is the exit code of a guest that was ended by a stop request: 128 and the number of SIGTERM.
const CodeStopped = 143

// ExitError ends a guest: the host functions panic with it, and the call into the guest returns it, perhaps wrapped.
type ExitError struct {
	// Code is what the guest gave to proc_exit, or CodeStopped.
	Code uint32
	// Stopped tells that a stop request ended the guest.
	Stopped bool
}

func (e *ExitError) Error() string {
	if e.Stopped {
		return "guest ended by a stop request"
	}
	return fmt.Sprintf("guest ended with code %d", e.Code)
}

// ExitCode tells how a call into the guest ended, from the error that it returned. Without an error, and for an exit of
// the guest's own or by a stop request, the error is nil. A trap or a fault of the engine is returned as it came.
func ExitCode(err error) (code uint32, stopped bool, _ error) {
	var exit *ExitError
	switch {
	case err == nil:
		return 0, false, nil
	case errors.As(err, &exit):
		return exit.Code, exit.Stopped, nil
	}
	return 0, false, err
}
