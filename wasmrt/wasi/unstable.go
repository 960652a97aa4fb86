//go:build linux

package wasi

import (
	"encoding/binary"
	"math"

	"edgepod/wasmrt/fs"
)

// unstable lists wasi_unstable, snapshot 0: preview 1 without sock_accept, with other layouts in four functions.
func unstable() []function {
	var list []function
	for _, f := range preview1() {
		switch f.name {
		case "sock_accept":
			continue
		case "fd_seek":
			f.run = (*Host).fdSeek0
		case "fd_filestat_get":
			f.run = (*Host).fdFilestatGet0
		case "path_filestat_get":
			f.run = (*Host).pathFilestatGet0
		case "poll_oneoff":
			f.run = (*Host).pollOneoff0
		}
		list = append(list, f)
	}
	return list
}

// fdSeek0 numbers the origins current, end, set.
func (h *Host) fdSeek0(mem guestMemory, p params) error {
	whence := p.u32(2)
	if whence > 2 {
		return fs.Inval
	}
	order := [...]uint32{whenceCur, whenceEnd, whenceSet}
	return h.seek(mem, p.u32(0), p.i64(1), order[whence], p.u32(3))
}

func (h *Host) fdFilestatGet0(mem guestMemory, p params) error {
	st, err := h.statFD(p.u32(0))
	if err != nil {
		return err
	}
	return putFilestat0(mem, p.u32(1), st)
}

func (h *Host) pathFilestatGet0(mem guestMemory, p params) error {
	st, err := h.statPath(mem, p)
	if err != nil {
		return err
	}
	return putFilestat0(mem, p.u32(4), st)
}

// putFilestat0 writes the filestat of snapshot 0, whose count of links has 32 bits.
func putFilestat0(mem guestMemory, p uint32, st fs.Stat) error {
	b, err := view(mem, p, 56)
	if err != nil {
		return err
	}
	clear(b)
	le := binary.LittleEndian
	le.PutUint64(b, st.Dev)
	le.PutUint64(b[8:], st.Ino)
	b[16] = byte(st.Type)
	le.PutUint32(b[20:], uint32(min(st.Nlink, math.MaxUint32)))
	le.PutUint64(b[24:], st.Size)
	le.PutUint64(b[32:], st.Atim)
	le.PutUint64(b[40:], st.Mtim)
	le.PutUint64(b[48:], st.Ctim)
	return nil
}

func (h *Host) pollOneoff0(mem guestMemory, p params) error {
	return h.pollWith(mem, p, layout{size: 56, read: subscription0})
}

// subscription0 reads the subscription of snapshot 0, whose clock has an identifier of its own before the rest.
func subscription0(b []byte) subscription {
	le := binary.LittleEndian
	return subscription{
		userdata: le.Uint64(b), typ: b[8], fd: le.Uint32(b[16:]),
		clock: le.Uint32(b[24:]), timeout: le.Uint64(b[32:]), absolute: le.Uint16(b[48:])&1 != 0,
	}
}
