package container

import (
	"golang.org/x/sys/unix"

	"edgepod/wasmrt/engine"
)

// allocator gives guests linear memory that is reserved at once and backed by pages only where the guest touches it.
// It never moves, and growing it copies nothing.
type allocator struct{}

// Allocate implements engine.Allocator.
func (allocator) Allocate(limit uint64) engine.LinearMemory {
	if limit == 0 {
		return &memory{}
	}
	buf, err := unix.Mmap(-1, 0, int(limit), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		// The engine shows a memory that cannot be made as a guest that cannot be started.
		return &memory{}
	}
	return &memory{reserved: buf}
}

type memory struct {
	reserved  []byte
	committed uint64
}

// Reallocate implements engine.LinearMemory.
func (m *memory) Reallocate(size uint64) []byte {
	if size > uint64(len(m.reserved)) {
		return nil
	}
	if size > m.committed {
		if err := unix.Mprotect(m.reserved[m.committed:size], unix.PROT_READ|unix.PROT_WRITE); err != nil {
			return nil
		}
		m.committed = size
	}
	return m.reserved[:size:size]
}

// Free implements engine.LinearMemory.
func (m *memory) Free() {
	if m.reserved != nil {
		_ = unix.Munmap(m.reserved) // nothing could be done about it
		m.reserved = nil
	}
}
