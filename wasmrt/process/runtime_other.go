//go:build !linux

package process

import (
	"errors"

	"edgepod/wasmrt/sandbox"
)

// New tells that containers do not run on this system.
func New(Config) (sandbox.Runtime, error) {
	return nil, errors.New("running containers is not supported on this system: run edgepod's agent on Linux")
}
