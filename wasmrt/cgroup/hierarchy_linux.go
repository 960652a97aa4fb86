package cgroup

import (
	"os"

	"github.com/containerd/cgroups/v3"

	"edgepod/wasmrt/sandbox"
)

// tree is one version's way to do it.
type tree interface {
	controllers() []Controller
	root() Ref
	create(ref Ref, l sandbox.Limits) error
	add(ref Ref, pid int) error
	open(ref Ref) (*os.File, error)
	join(ref Ref) Join
	setCPU(ref Ref, milli int64) error
	usage(ref Ref) (Usage, error)
	oomKills(ref Ref) (uint64, error)
	kill(ref Ref) error
	remove(ref Ref) error
	children(ref Ref) ([]string, error)
}

// Hierarchy is where the groups of one runtime lie. Its methods may be called at the same time.
type Hierarchy struct{ tree tree }

// Open finds out what this machine and this user allow. It makes nothing but a probe.
func Open(cfg Config) *Hierarchy {
	if cfg.Disabled {
		return &Hierarchy{none{allLost("control groups are switched off in the node's configuration", "switch them on")}}
	}
	switch cgroups.Mode() {
	case cgroups.Unified:
		return &Hierarchy{openV2(cfg, "/sys/fs/cgroup")}
	case cgroups.Legacy, cgroups.Hybrid:
		return &Hierarchy{openV1(cfg)}
	default:
		return &Hierarchy{none{allLost("no control groups are mounted at /sys/fs/cgroup", "mount them")}}
	}
}

// Controllers tells which resources can be limited.
func (h *Hierarchy) Controllers() []Controller { return h.tree.controllers() }

// Root is the group of the runtime, parent of all others.
func (h *Hierarchy) Root() Ref { return h.tree.root() }

// Create makes a group with the limits of memory, threads and CPU share; its CPU ceiling is set by SetCPU, once loading
// is done. Creating one that exists sets its limits anew.
func (h *Hierarchy) Create(ref Ref, l sandbox.Limits) error {
	if len(ref) == 0 {
		return nil
	}
	return h.tree.create(ref, l)
}

// Add moves a process into the group, with all its threads.
func (h *Hierarchy) Add(ref Ref, pid int) error {
	if len(ref) == 0 {
		return nil
	}
	return h.tree.add(ref, pid)
}

// Folder opens the group so that a process can be cloned into it, and returns nil where the version knows no such thing.
func (h *Hierarchy) Folder(ref Ref) (*os.File, error) {
	if len(ref) == 0 {
		return nil, nil
	}
	return h.tree.open(ref)
}

// Join tells how a process gets into the group; it is empty where Folder knows a better way.
func (h *Hierarchy) Join(ref Ref) Join {
	if len(ref) == 0 {
		return Join{}
	}
	return h.tree.join(ref)
}

// SetCPU sets the ceiling in thousandths of a core; 0 is none.
func (h *Hierarchy) SetCPU(ref Ref, milli int64) error {
	if len(ref) == 0 || milli <= 0 {
		return nil
	}
	return h.tree.setCPU(ref, milli)
}

// Usage returns the group's figures, ErrNoGroup where there is none.
func (h *Hierarchy) Usage(ref Ref) (Usage, error) {
	if len(ref) == 0 {
		return Usage{}, ErrNoGroup
	}
	return h.tree.usage(ref)
}

// OOMKills is how many processes of this very group the kernel has killed for want of memory.
func (h *Hierarchy) OOMKills(ref Ref) (uint64, error) {
	if len(ref) == 0 {
		return 0, ErrNoGroup
	}
	return h.tree.oomKills(ref)
}

// Children returns the names of the groups in this one, sorted. A group that does not exist has none.
func (h *Hierarchy) Children(ref Ref) ([]string, error) {
	if len(ref) == 0 {
		return nil, nil
	}
	return h.tree.children(ref)
}

// Kill ends every process in the group, and in those within, with SIGKILL.
func (h *Hierarchy) Kill(ref Ref) error {
	if len(ref) == 0 {
		return nil
	}
	return h.tree.kill(ref)
}

// Remove removes the group and those within, which must hold no process. Removing one that doesn't exist is no error.
func (h *Hierarchy) Remove(ref Ref) error {
	if len(ref) == 0 {
		return nil
	}
	return h.tree.remove(ref)
}

// none is the tree of a machine without groups.
type none struct{ lost []Controller }

func (n none) controllers() []Controller      { return n.lost }
func (none) root() Ref                        { return nil }
func (none) create(Ref, sandbox.Limits) error { return nil }
func (none) add(Ref, int) error               { return nil }
func (none) open(Ref) (*os.File, error)       { return nil, nil }
func (none) join(Ref) Join                    { return Join{} }
func (none) setCPU(Ref, int64) error          { return nil }
func (none) usage(Ref) (Usage, error)         { return Usage{}, ErrNoGroup }
func (none) oomKills(Ref) (uint64, error)     { return 0, ErrNoGroup }
func (none) kill(Ref) error                   { return nil }
func (none) remove(Ref) error                 { return nil }
func (none) children(Ref) ([]string, error)   { return nil, nil }
