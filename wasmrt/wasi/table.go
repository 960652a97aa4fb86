//go:build linux

package wasi

import (
	"golang.org/x/sys/unix"

	"edgepod/wasmrt/fs"
)

// object is what a descriptor refers to. What else it can do, it says by implementing one of the interfaces below.
type object interface {
	fileType() fs.FileType
	stat() (fs.Stat, error)
	close() error
}

// reader is an object that bytes can be read from. It returns 0 at the end; where nothing is there yet it waits, or
// returns Again if it may not.
type reader interface {
	read(h *Host, bufs [][]byte, nonblock bool) (int, error)
}

// writer is an object that bytes can be written to.
type writer interface {
	write(h *Host, bufs [][]byte, nonblock bool) (int, error)
}

// pollable is an object that may have to be waited for. An object that is not is always ready.
type pollable interface {
	// watch tells what to wait for until the object is ready for an event: a descriptor of the host and its events. The
	// descriptor is negative when it is ready already.
	watch(h *Host, typ uint8) (fd int, events int16)
	// event describes the event, after the host has answered with revents.
	event(h *Host, typ uint8, revents int16) readiness
}

// readiness is what a guest is told of an object that is ready.
type readiness struct {
	// nbytes is how many bytes can be read without waiting, as far as is known.
	nbytes uint64
	// hangup tells that the other side is gone.
	hangup bool
	// again tells that it is not ready after all: it is to be watched again.
	again bool
}

// pollEvents are the host's events for an event.
func pollEvents(typ uint8) int16 {
	if typ == eventWrite {
		return unix.POLLOUT
	}
	return unix.POLLIN
}

// descriptor is an entry of a guest's descriptor table.
type descriptor struct {
	object
	base, inheriting rights
	flags            fdflags
	// preopen is the name of a preopened folder, isPreopen tells that it is one.
	preopen   string
	isPreopen bool
}

// isStream tells that the object has no positions: neither file nor folder.
func (d *descriptor) isStream() bool {
	t := d.object.fileType()
	return t != fs.TypeDirectory && t != fs.TypeRegular
}

func (d *descriptor) nonblock() bool { return d.flags&flagNonblock != 0 }

// table holds a guest's descriptors by number.
type table struct {
	entries []*descriptor
	// free is a number below which none is free.
	free int
	max  int
}

// get returns the descriptor fd if it has the rights r.
func (t *table) get(fd uint32, r rights) (*descriptor, error) {
	if uint64(fd) >= uint64(len(t.entries)) || t.entries[fd] == nil {
		return nil, fs.BadF
	}
	d := t.entries[fd]
	return d, d.need(r)
}

// reserve returns the lowest number that is free, or MFile.
func (t *table) reserve() (int, error) {
	for t.free < len(t.entries) && t.entries[t.free] != nil {
		t.free++
	}
	if t.free >= t.max {
		return 0, fs.MFile
	}
	return t.free, nil
}

// put stores d under a number that reserve has returned.
func (t *table) put(fd int, d *descriptor) {
	if fd == len(t.entries) {
		t.entries = append(t.entries, d)
		return
	}
	t.entries[fd] = d
}

// close closes fd.
func (t *table) close(fd uint32) error {
	d, err := t.get(fd, 0)
	if err != nil {
		return err
	}
	t.clear(fd)
	return d.object.close()
}

func (t *table) clear(fd uint32) {
	t.entries[fd] = nil
	t.free = min(t.free, int(fd))
}

// renumber moves from over to, which must be open and is closed.
func (t *table) renumber(from, to uint32) error {
	d, err := t.get(from, 0)
	if err != nil {
		return err
	}
	old, err := t.get(to, 0)
	if err != nil || from == to {
		return err
	}
	t.entries[to] = d
	t.clear(from)
	// The descriptor is gone from the guest's sight whether or not the host could close it well.
	_ = old.object.close()
	return nil
}

// closeAll closes every descriptor.
func (t *table) closeAll() error {
	var first error
	for _, d := range t.entries {
		if d == nil {
			continue
		}
		if err := d.object.close(); first == nil {
			first = err
		}
	}
	t.entries = nil
	return first
}
