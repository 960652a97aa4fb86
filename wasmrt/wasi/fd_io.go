//go:build linux

package wasi

import (
	"encoding/binary"
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
	bufs, count, err := h.transfer(mem, p.u32(1), p.u32(2), p.u32(3))
	if err != nil {
		return err
	}
	n, err := h.inPieces(bufs, !d.isFile(), func(piece [][]byte, _ int64) (int, error) {
		return r.read(h, piece, d.nonblock())
	})
	if err != nil {
		return err
	}
	binary.LittleEndian.PutUint32(count, uint32(n))
	return nil
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
	bufs, count, err := h.transfer(mem, p.u32(1), p.u32(2), p.u32(3))
	if err != nil {
		return err
	}
	n, err := h.inPieces(bufs, false, func(piece [][]byte, _ int64) (int, error) {
		return w.write(h, piece, d.nonblock())
	})
	if err != nil {
		return err
	}
	binary.LittleEndian.PutUint32(count, uint32(n))
	return nil
}

// positioned does a call at an offset of a file.
func (h *Host) positioned(mem guestMemory, p params, f *fs.File, do func(fd int, bufs [][]byte, at int64) (int, error)) error {
	if p.u64(3) > math.MaxInt64 {
		return fs.Inval
	}
	bufs, count, err := h.transfer(mem, p.u32(1), p.u32(2), p.u32(4))
	if err != nil {
		return err
	}
	n, err := h.inPieces(bufs, false, func(piece [][]byte, done int64) (int, error) {
		if p.i64(3) > math.MaxInt64-done {
			return 0, fs.FBig
		}
		return ignoringEINTR(func() (int, error) { return do(f.FD(), piece, p.i64(3)+done) })
	})
	if err != nil {
		return err
	}
	binary.LittleEndian.PutUint32(count, uint32(n))
	return nil
}

func (h *Host) fdPread(mem guestMemory, p params) error {
	_, f, err := h.file(p.u32(0), rightFDRead|rightFDSeek, fs.SPipe)
	if err != nil {
		return err
	}
	return h.positioned(mem, p, f, preadv)
}

// fdPwrite writes at the offset also where the file is open for appending, unlike the host.
func (h *Host) fdPwrite(mem guestMemory, p params) error {
	d, f, err := h.file(p.u32(0), rightFDWrite|rightFDSeek, fs.SPipe)
	if err != nil {
		return err
	}
	if d.flags&flagAppend == 0 {
		return h.positioned(mem, p, f, pwritev)
	}
	if err := f.SetAppend(false); err != nil {
		return err
	}
	err = h.positioned(mem, p, f, pwritev)
	if e := f.SetAppend(true); err == nil {
		err = e
	}
	return err
}

func preadv(fd int, bufs [][]byte, at int64) (int, error) {
	switch len(bufs) {
	case 0:
		return 0, nil
	case 1:
		return unix.Pread(fd, bufs[0], at)
	}
	return unix.Preadv(fd, bufs, at)
}

func pwritev(fd int, bufs [][]byte, at int64) (int, error) {
	switch len(bufs) {
	case 0:
		return 0, nil
	case 1:
		return unix.Pwrite(fd, bufs[0], at)
	}
	return unix.Pwritev(fd, bufs, at)
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
	out, err := view(mem, result, 8)
	if err != nil {
		return err
	}
	host := [...]int{unix.SEEK_SET, unix.SEEK_CUR, unix.SEEK_END}
	at, err := unix.Seek(f.FD(), offset, host[whence])
	if err != nil {
		return err
	}
	binary.LittleEndian.PutUint64(out, uint64(at))
	return nil
}

func (h *Host) fdSeek(mem guestMemory, p params) error {
	return h.seek(mem, p.u32(0), p.i64(1), p.u32(2), p.u32(3))
}

func (h *Host) fdTell(mem guestMemory, p params) error {
	return h.seek(mem, p.u32(0), 0, whenceCur, p.u32(1))
}
