package process

import (
	"slices"

	"golang.org/x/sys/unix"

	"edgepod/wasmrt/cgroup"
	"edgepod/wasmrt/sandbox"
)

const (
	pageSize = 64 << 10
	maxPages = 1 << 16
	// leastMemory is what a container takes before its module does anything. Most of it is there before the process joins its
	// memory cgroup, which counts only what comes later, so that a smaller limit would hold nothing back.
	leastMemory = 4 << 20
	// engineMemory is what the engine needs of a container's memory, beside the module's code.
	engineMemory = 8 << 20
)

// machineMemory is the machine's memory in bytes.
func machineMemory() int64 {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 1 << 30
	}
	return int64(info.Totalram) * int64(info.Unit)
}

// memoryLimit is the limit of a container's process: its own, else its pod's, else the default.
func (r *Runtime) memoryLimit(own, pod sandbox.Limits) int64 {
	switch {
	case own.Memory > 0:
		return own.Memory
	case pod.Memory > 0:
		return pod.Memory
	default:
		return r.cfg.MemoryDefault
	}
}

// pages is the most linear memory that fits a limit, room for the engine and the code left: at least half of it, so that
// a guest with a small limit sees it as its own memory.grow failing or as an OOM kill, and not as no memory at all.
func pages(memory, code int64) uint32 {
	room := min(engineMemory+2*code, memory/2)
	return uint32(min(max((memory-room)/pageSize, 1), maxPages))
}

// holds tells whether a resource is limited by cgroup.
func (r *Runtime) holds(controller string) bool {
	return slices.ContainsFunc(r.groups.Controllers(), func(c cgroup.Controller) bool { return c.Name == controller && c.Held })
}
