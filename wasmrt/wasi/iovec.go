//go:build linux

package wasi

import (
	"encoding/binary"
	"math"

	"edgepod/wasmrt/fs"
)

// maxBufs is how many buffers one call works on. A guest that gave more is told a smaller count, and comes again.
const maxBufs = 1024

// iovecs returns the buffers that n iovecs at p describe. Empty ones are left out, so that a count of 0 means the end.
// Nothing is reserved for the number that the guest names.
func (h *Host) iovecs(mem guestMemory, p, n uint32) ([][]byte, error) {
	if uint64(n)*8 > math.MaxUint32 {
		return nil, fs.Fault
	}
	list, err := view(mem, p, n*8)
	if err != nil {
		return nil, err
	}
	bufs := h.bufs[:0]
	for i := uint32(0); i < n && len(bufs) < maxBufs; i++ {
		if i%(1<<16) == 0 {
			h.checkStopped()
		}
		size := binary.LittleEndian.Uint32(list[i*8+4:])
		if size == 0 {
			continue
		}
		b, err := view(mem, binary.LittleEndian.Uint32(list[i*8:]), size)
		if err != nil {
			return nil, err
		}
		bufs = append(bufs, b)
	}
	h.bufs = bufs
	return bufs, nil
}
