//go:build linux

package main

import (
	"errors"
	"strings"
	"testing"

	"edgepod/wasmrt/sandbox"
)

// testRealMessages holds what users are told when they give a large module too little, or one that cannot run.
func testRealMessages(t *testing.T, r *realRuntime) {
	t.Run("too little memory to load", func(t *testing.T) {
		t.Parallel()
		_, err := r.pod(t, nil).start(t, realContainer{image: "./python.wasm", args: []string{"-c", "print(1)"}, memory: 32 << 20})
		var refused *sandbox.StartError
		if !errors.As(err, &refused) || !strings.Contains(err.Error(), "32 MiB is too small to load the module: raise limits.memory") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("too little memory to run", func(t *testing.T) {
		t.Parallel()
		out, exit := r.pod(t, nil).run(t, realContainer{
			image: "./python.wasm", args: []string{"-c", "a = bytearray(500 << 20); print(len(a))"}, memory: 192 << 20,
		})
		wantEnd(t, out, exit, 1, "MemoryError")
	})
}
