//go:build !linux

package cgroup

import (
	"os"

	"edgepod/wasmrt/sandbox"
)

// Hierarchy holds nothing on systems without control groups.
type Hierarchy struct{}

// Open returns an empty hierarchy.
func Open(Config) *Hierarchy { return &Hierarchy{} }

// Controllers reports each as missing.
func (*Hierarchy) Controllers() []Controller {
	return allLost("this system has no control groups", "run on Linux")
}

// Root is no group.
func (*Hierarchy) Root() Ref { return nil }

// Create does nothing.
func (*Hierarchy) Create(Ref, sandbox.Limits) error { return nil }

// Add does nothing.
func (*Hierarchy) Add(Ref, int) error { return nil }

// Folder returns nil.
func (*Hierarchy) Folder(Ref) (*os.File, error) { return nil, nil }

// Join is empty.
func (*Hierarchy) Join(Ref) Join { return Join{} }

// SetCPU does nothing.
func (*Hierarchy) SetCPU(Ref, int64) error { return nil }

// Usage returns ErrNoGroup.
func (*Hierarchy) Usage(Ref) (Usage, error) { return Usage{}, ErrNoGroup }

// OOMKills returns ErrNoGroup.
func (*Hierarchy) OOMKills(Ref) (uint64, error) { return 0, ErrNoGroup }

// Children returns none.
func (*Hierarchy) Children(Ref) ([]string, error) { return nil, nil }

// Kill does nothing.
func (*Hierarchy) Kill(Ref) error { return nil }

// Remove does nothing.
func (*Hierarchy) Remove(Ref) error { return nil }
