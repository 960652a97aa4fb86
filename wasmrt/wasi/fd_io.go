//go:build linux

package wasi

import (
	"math"

	"golang.org/x/sys/unix"

	"edgepod/wasmrt/fs"
)

func (h *Host) fdRead(mem guestMemory, p params) error {
	d, err := h.fds.get(p.u32(0), rightFDRead)
	if err != nil {
		return err
	}
	r, ok := d.object.(reader)
	if !ok {
		return fs.BadF
	}
	bufs, err := h.iovecs(mem, p.u32(1), p.u32(2))
	if err != nil {
		return err
	}
	n, err := r.read(h, bufs, d.nonblock())
	if err != nil {
		return err
	}
	return putUint32(mem, p.u32(3), uint32(n))
}

func (h *Host) fdWrite(mem guestMemory, p params) error {
	d, err := h.fds.get(p.u32(0), rightFDWrite)
	if err != nil {
		return err
	}
	w, ok := d.object.(writer)
	if !ok {
		return fs.BadF
	}
	bufs, err := h.iovecs(mem, p.u32(1), p.u32(2))
	if err != nil {
		return err
	}
	n, err := w.write(h, bufs, d.nonblock())
	if err != nil {
		return err
	}
	return putUint32(mem, p.u32(3), uint32(n))
}

// positioned prepares a call at an offset of a file.
func (h *Host) positioned(mem guestMemory, p params, r rights) (*descriptor, *fs.File, [][]byte, error) {
	d, f, err := h.file(p.u32(0), r, fs.SPipe)
	if err != nil {
		return nil, nil, nil, err
	}
	if p.u64(3) > math.MaxInt64 {
		return nil, nil, nil, fs.Inval
	}
	bufs, err := h.iovecs(mem, p.u32(1), p.u32(2))
	return d, f, bufs, err
}

func (h *Host) fdPread(mem guestMemory, p params) error {
	_, f, bufs, err := h.positioned(mem, p, rightFDRead|rightFDSeek)
	if err != nil {
		return err
	}
	n, err := ignoringEINTR(func() (int, error) {
		if len(bufs) == 1 {
			return unix.Pread(f.FD(), bufs[0], p.i64(3))
		}
		return unix.Preadv(f.FD(), bufs, p.i64(3))
	})
	if err != nil {
		return err
	}
	return putUint32(mem, p.u32(4), uint32(n))
}

// fdPwrite writes at the offset also where the file is open for appending, unlike the host.
func (h *Host) fdPwrite(mem guestMemory, p params) error {
	d, f, bufs, err := h.positioned(mem, p, rightFDWrite|rightFDSeek)
	if err != nil {
		return err
	}
	if d.flags&flagAppend != 0 {
		if err := f.SetAppend(false); err != nil {
			return err
		}
	}
	n, err := ignoringEINTR(func() (int, error) {
		if len(bufs) == 1 {
			return unix.Pwrite(f.FD(), bufs[0], p.i64(3))
		}
		return unix.Pwritev(f.FD(), bufs, p.i64(3))
	})
	if d.flags&flagAppend != 0 {
		if e := f.SetAppend(true); err == nil {
			err = e
		}
	}
	if err != nil {
		return err
	}
	return putUint32(mem, p.u32(4), uint32(n))
}

// The origins of a seek in preview 1.
const (
	whenceSet = iota
	whenceCur
	whenceEnd
)

// seek moves the position of a file. Asking where it is needs less than moving it.
func (h *Host) seek(mem guestMemory, fd uint32, offset int64, whence uint32, result uint32) error {
	r := rightFDSeek | rightFDTell
	if whence == whenceCur && offset == 0 {
		r = rightFDTell
	}
	if whence > whenceEnd {
		return fs.Inval
	}
	d, err := h.fds.get(fd, 0)
	if err != nil {
		return err
	}
	// Either right will do for the position, as the right to seek says.
	if d.base&rightFDSeek == 0 {
		if err := d.need(r); err != nil {
			return err
		}
	}
	f, ok := d.object.(fileObject)
	if !ok {
		return fs.SPipe
	}
	host := [...]int{unix.SEEK_SET, unix.SEEK_CUR, unix.SEEK_END}
	at, err := unix.Seek(f.FD(), offset, host[whence])
	if err != nil {
		return err
	}
	return putUint64(mem, result, uint64(at))
}

func (h *Host) fdSeek(mem guestMemory, p params) error {
	return h.seek(mem, p.u32(0), p.i64(1), p.u32(2), p.u32(3))
}

func (h *Host) fdTell(mem guestMemory, p params) error {
	return h.seek(mem, p.u32(0), 0, whenceCur, p.u32(1))
}
