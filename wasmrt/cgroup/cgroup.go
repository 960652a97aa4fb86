// Package cgroup limits and measures containers by Linux control groups, of version 1 and 2.
//
// Where groups are missing or may not be made, everything here still works and does nothing: Controllers tells what
// holds, and why the rest doesn't.
package cgroup

import (
	"errors"
	"maps"
	"path"
	"time"

	"edgepod/wasmrt/sandbox"
)

// MinPIDs is the fewest threads that a container may be limited to: the engine's own.
const MinPIDs = 32

// Config of a Hierarchy.
type Config struct {
	// Name of the group that all sandboxes of this runtime lie in.
	Name string
	// Parent is the group above it. "" is the root of the tree in version 2 if that may be written, and otherwise the
	// group of this process.
	Parent string
	// Disabled makes no groups at all.
	Disabled bool
}

// Ref names a group by its path in each tree that it is in: by controller in version 1, as "unified" in version 2. An
// empty Ref is no group. It may be stored, and stays right when this process moves to another group.
type Ref map[string]string

// Child returns the group of this name in r.
func (r Ref) Child(name string) Ref {
	out := maps.Clone(r)
	for tree, p := range out {
		out[tree] = path.Join(p, name)
	}
	return out
}

// Join is how a process gets into its group without being moved there by another: each file takes a 0 that the thread itself
// writes. The kernel does that at once, whereas for Add it waits until all processors have taken notice, some milliseconds
// as a rule.
type Join struct {
	// Starter are for the thread that starts the process, which is born where that thread is.
	Starter []string
	// All are for each thread of the process itself: they limit memory, and where that runs short the kernel kills any
	// process that has a thread in the group, so that the starter must not be there.
	All []string
}

// Controller is one resource that can be limited.
type Controller struct {
	// Name is memory, cpu or pids.
	Name string
	Held bool
	// Reason why it cannot be limited, and Fix what the user could do.
	Reason, Fix string
}

// Usage of a group.
type Usage struct {
	CPU    time.Duration
	Memory int64
	PIDs   int64
}

// ErrNoGroup is returned for figures of a group that does not exist.
var ErrNoGroup = errors.New("there is no such cgroup")

const (
	controllerMemory = "memory"
	controllerCPU    = "cpu"
	controllerPIDs   = "pids"
)

// names are the controllers that are used, in the order in which they are reported.
var names = []string{controllerMemory, controllerCPU, controllerPIDs}

// cpuPeriod is the scheduler's accounting period in microseconds.
const cpuPeriod = 100_000

// quota turns a ceiling in thousandths of a core into microseconds of each period.
func quota(milli int64) int64 { return max(milli*cpuPeriod/1000, 1000) }

// shares turns a share in thousandths of a core into version 1's cpu.shares.
func shares(milli int64) uint64 { return uint64(min(max(milli*1024/1000, 2), 262144)) }

// weight turns a share into version 2's cpu.weight, by the formula that Kubernetes uses for the same.
func weight(milli int64) uint64 { return 1 + (shares(milli)-2)*9999/262142 }

func pids(n int64) int64 { return max(n, MinPIDs) }

// allLost reports no controller as held.
func allLost(reason, fix string) []Controller {
	var out []Controller
	for _, n := range names {
		out = append(out, Controller{Name: n, Reason: reason, Fix: fix})
	}
	return out
}

// limited tells whether l limits what is set before the guest begins.
func limited(l sandbox.Limits) bool { return l.Memory > 0 || l.PIDs > 0 || l.CPUShareMilli > 0 }
