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

// transfer returns the buffers of a call and where the count of bytes goes. A place that is out of memory is found before
// any byte is moved.
func (h *Host) transfer(mem guestMemory, p, n, result uint32) (bufs [][]byte, count []byte, err error) {
	if bufs, err = h.iovecs(mem, p, n); err != nil {
		return nil, nil, err
	}
	count, err = view(mem, result, 4)
	return bufs, count, err
}

const (
	// pieceSize is how much one call of the host moves: so long a stop request waits at most.
	pieceSize = 16 << 20
	// maxMoved is how much one call of the guest moves at most, as on the host.
	maxMoved = math.MaxInt32 &^ 4095
)

// inPieces calls do with all buffers, where they are not large, or with pieces of them and the count of bytes done before:
// until a piece is not done wholly, or just once where going on could mean to wait for more. An error counts only where
// nothing was done.
func (h *Host) inPieces(bufs [][]byte, once bool, do func(piece [][]byte, done int64) (int, error)) (int, error) {
	if size(bufs) <= pieceSize {
		return do(bufs, 0)
	}
	done := 0
	for len(bufs) > 0 && done < maxMoved {
		h.checkStopped()
		piece, rest := cutPiece(bufs)
		n, err := do(piece, int64(done))
		done += n
		if err != nil && done == 0 {
			return 0, err
		}
		if err != nil || n < size(piece) || once {
			break
		}
		bufs = rest
	}
	return done, nil
}

// cutPiece takes a piece off the buffers: as many as fit, or a part of the first.
func cutPiece(bufs [][]byte) (piece, rest [][]byte) {
	if len(bufs[0]) > pieceSize {
		first := bufs[0]
		bufs[0] = first[pieceSize:]
		return [][]byte{first[:pieceSize]}, bufs
	}
	i := 1
	for total := len(bufs[0]); i < len(bufs) && total+len(bufs[i]) <= pieceSize; i++ {
		total += len(bufs[i])
	}
	return bufs[:i], bufs[i:]
}

func size(bufs [][]byte) int {
	total := 0
	for _, b := range bufs {
		total += len(b)
	}
	return total
}
