//go:build linux

package wasi

import (
	"encoding/binary"

	"edgepod/wasmrt/fs"
)

// direntSize is the size of what comes before each name in a listing.
const direntSize = 24

// fdReaddir fills a buffer with entries. The last one may be cut off, which tells the guest that there are more.
func (h *Host) fdReaddir(mem guestMemory, p params) error {
	d, err := h.fds.get(p.u32(0), rightFDReaddir)
	if err != nil {
		return err
	}
	dir, ok := d.object.(dirObject)
	if !ok {
		return fs.NotDir
	}
	b, err := view(mem, p.u32(1), p.u32(2))
	if err != nil {
		return err
	}
	count, err := view(mem, p.u32(4), 4)
	if err != nil {
		return err
	}
	used, entries := 0, 0
	err = dir.ReadDir(p.u64(3), func(e fs.Entry) bool {
		if entries++; entries%1024 == 0 {
			h.checkStopped()
		}
		var head [direntSize]byte
		binary.LittleEndian.PutUint64(head[:], e.Next)
		binary.LittleEndian.PutUint64(head[8:], e.Ino)
		binary.LittleEndian.PutUint32(head[16:], uint32(len(e.Name)))
		head[20] = byte(e.Type)
		used += copy(b[used:], head[:])
		n := copy(b[used:], e.Name)
		used += n
		return n == len(e.Name) && used < len(b)
	})
	if err != nil {
		return err
	}
	binary.LittleEndian.PutUint32(count, uint32(used))
	return nil
}
