package process_test

import (
	"testing"

	"edgepod/wasmrt/sandbox"
	"edgepod/wasmrt/sandbox/sandboxtest"
)

func TestRuntimePassesTheSuite(t *testing.T) {
	sandboxtest.Run(t, func(t *testing.T) *sandboxtest.Subject {
		dir := t.TempDir()
		r := open(t, dir)
		return &sandboxtest.Subject{
			Runtime: r, Image: "./guest.wasm",
			Reopen: func(t *testing.T) sandbox.Runtime {
				if err := r.Close(); err != nil {
					t.Fatal(err)
				}
				return open(t, dir)
			},
		}
	})
}
