//go:build !linux

package harden

import (
	"errors"

	"edgepod/wasmrt/sandbox"
)

// Apply holds no layer on systems other than Linux.
func Apply(Options) []sandbox.Layer {
	var out []sandbox.Layer
	for _, n := range []string{LayerLimits, LayerUser, LayerCapabilities, LayerLandlock, LayerJail, LayerSeccomp} {
		out = append(out, outcome(n, errors.New("not supported on this system"), "run on Linux"))
	}
	return out
}
