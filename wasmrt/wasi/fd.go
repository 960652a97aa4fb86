//go:build linux

package wasi

import (
	"encoding/binary"

	"golang.org/x/sys/unix"

	"edgepod/wasmrt/fs"
)

func (h *Host) fdClose(_ guestMemory, p params) error { return h.fds.close(p.u32(0)) }

func (h *Host) fdRenumber(_ guestMemory, p params) error { return h.fds.renumber(p.u32(0), p.u32(1)) }

// file returns the file at fd, which must have the rights r. What is no file answers as POSIX has it for a stream.
func (h *Host) file(fd uint32, r rights, otherwise fs.Errno) (*descriptor, *fs.File, error) {
	d, err := h.fds.get(fd, r)
	if err != nil {
		return nil, nil, err
	}
	f, ok := d.object.(fileObject)
	if !ok {
		return nil, nil, otherwise
	}
	return d, f.File, nil
}

// isFile tells that the descriptor is a regular file's.
func (d *descriptor) isFile() bool { return d.object.fileType() == fs.TypeRegular }

// fdAdvise passes on how a part of a file will be used.
func (h *Host) fdAdvise(_ guestMemory, p params) error {
	d, err := h.fds.get(p.u32(0), rightFDAdvise)
	if err != nil {
		return err
	}
	advice := p.u32(3)
	if advice > 5 {
		return fs.Inval
	}
	f, ok := d.object.(fileObject)
	if !ok {
		return fs.BadF
	}
	// The guest's numbers count normal, sequential, random, willneed, dontneed, noreuse.
	host := [...]int{
		unix.FADV_NORMAL, unix.FADV_SEQUENTIAL, unix.FADV_RANDOM, unix.FADV_WILLNEED, unix.FADV_DONTNEED, unix.FADV_NOREUSE,
	}
	return f.Advise(p.u64(1), p.u64(2), host[advice])
}

func (h *Host) fdAllocate(_ guestMemory, p params) error {
	_, f, err := h.file(p.u32(0), rightFDAllocate, fs.SPipe)
	if err != nil {
		return err
	}
	return f.Allocate(p.u64(1), p.u64(2))
}

func (h *Host) fdDatasync(_ guestMemory, p params) error {
	d, err := h.fds.get(p.u32(0), rightFDDatasync)
	if err != nil {
		return err
	}
	switch o := d.object.(type) {
	case fileObject:
		return o.DataSync()
	case dirObject:
		return o.Sync()
	}
	return fs.Inval
}

func (h *Host) fdSync(_ guestMemory, p params) error {
	d, err := h.fds.get(p.u32(0), rightFDSync)
	if err != nil {
		return err
	}
	switch o := d.object.(type) {
	case fileObject:
		return o.Sync()
	case dirObject:
		return o.Sync()
	}
	return fs.Inval
}

func (h *Host) fdFdstatGet(mem guestMemory, p params) error {
	d, err := h.fds.get(p.u32(0), 0)
	if err != nil {
		return err
	}
	b, err := view(mem, p.u32(1), 24)
	if err != nil {
		return err
	}
	clear(b)
	b[0] = byte(d.object.fileType())
	binary.LittleEndian.PutUint16(b[2:], uint16(d.flags))
	binary.LittleEndian.PutUint64(b[8:], uint64(d.base))
	binary.LittleEndian.PutUint64(b[16:], uint64(d.inheriting))
	return nil
}

// fdFdstatSetFlags changes append and nonblock; writing through to disk is fixed when a file is opened.
func (h *Host) fdFdstatSetFlags(_ guestMemory, p params) error {
	d, err := h.fds.get(p.u32(0), rightFDFdstatSetFlags)
	if err != nil {
		return err
	}
	flags := fdflags(p.u16(1))
	changed := flags ^ d.flags
	switch {
	case p.u32(1) > uint32(allFlags):
		return fs.Inval
	case changed&(flagDsync|flagRsync|flagSync) != 0:
		return fs.NotSup
	}
	if f, ok := d.object.(fileObject); ok && changed&flagAppend != 0 {
		if err := f.SetAppend(flags&flagAppend != 0); err != nil {
			return err
		}
	}
	d.flags = flags
	return nil
}

// fdFdstatSetRights takes rights away; none come back.
func (h *Host) fdFdstatSetRights(_ guestMemory, p params) error {
	d, err := h.fds.get(p.u32(0), 0)
	if err != nil {
		return err
	}
	base, inheriting := rights(p.u64(1)), rights(p.u64(2))
	if base&^d.base != 0 || inheriting&^d.inheriting != 0 {
		return fs.NotCapable
	}
	d.base, d.inheriting = base, inheriting
	return nil
}

// statFD returns what fd_filestat_get tells.
func (h *Host) statFD(fd uint32) (fs.Stat, error) {
	d, err := h.fds.get(fd, rightFDFilestatGet)
	if err != nil {
		return fs.Stat{}, err
	}
	return d.object.stat()
}

func (h *Host) fdFilestatGet(mem guestMemory, p params) error {
	st, err := h.statFD(p.u32(0))
	if err != nil {
		return err
	}
	return putFilestat(mem, p.u32(1), st)
}

func (h *Host) fdFilestatSetSize(_ guestMemory, p params) error {
	_, f, err := h.file(p.u32(0), rightFDFilestatSetSize, fs.Inval)
	if err != nil {
		return err
	}
	return f.SetSize(p.u64(1))
}

func (h *Host) fdFilestatSetTimes(_ guestMemory, p params) error {
	d, err := h.fds.get(p.u32(0), rightFDFilestatSetTimes)
	if err != nil {
		return err
	}
	times, err := timesOf(p.u64(1), p.u64(2), p.u16(3))
	if err != nil {
		return err
	}
	switch o := d.object.(type) {
	case fileObject:
		return o.SetTimes(times)
	case dirObject:
		return o.SetTimes(times)
	}
	return fs.Inval
}

func (h *Host) fdPrestatGet(mem guestMemory, p params) error {
	d, err := h.fds.get(p.u32(0), 0)
	if err != nil {
		return err
	}
	if !d.isPreopen {
		return fs.BadF
	}
	// The tag of a folder is zero.
	return putUint64(mem, p.u32(1), uint64(len(d.preopen))<<32)
}

func (h *Host) fdPrestatDirName(mem guestMemory, p params) error {
	d, err := h.fds.get(p.u32(0), 0)
	if err != nil {
		return err
	}
	if !d.isPreopen {
		return fs.BadF
	}
	if uint64(p.u32(2)) < uint64(len(d.preopen)) {
		return fs.NameTooLong
	}
	b, err := view(mem, p.u32(1), uint32(len(d.preopen)))
	if err != nil {
		return err
	}
	copy(b, d.preopen)
	return nil
}
