//go:build !linux

package harden

import (
	"errors"

	"edgepod/wasmrt/sandbox"
)

// Apply holds no layer on systems other than Linux.
func Apply(o Options) []sandbox.Layer { return append(Confine(o), Seal(o)) }

// Confine holds no layer on systems other than Linux.
func Confine(Options) []sandbox.Layer {
	var out []sandbox.Layer
	for _, n := range []string{LayerLimits, LayerUser, LayerCapabilities, LayerLandlock, LayerJail} {
		out = append(out, unsupported(n))
	}
	return out
}

// Seal holds no layer on systems other than Linux.
func Seal(Options) sandbox.Layer { return unsupported(LayerSeccomp) }

func unsupported(layer string) sandbox.Layer {
	return outcome(layer, errors.New("not supported on this system"), "run on Linux")
}
