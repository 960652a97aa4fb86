//go:build linux

package wasi

import (
	"encoding/binary"
	"net/netip"

	"edgepod/wasmrt/fs"
)

// The flags of receiving, of what was received, and of shutting down.
const (
	receivePeek    = 1
	receiveWaitAll = 2

	receivedTruncated = 1

	shutdownRead  = 1
	shutdownWrite = 2
)

// socket returns the socket at fd, which must have the rights r.
func (h *Host) socket(fd uint32, r rights) (*descriptor, *socket, error) {
	d, err := h.fds.get(fd, 0)
	if err != nil {
		return nil, nil, err
	}
	s, ok := d.object.(*socket)
	if !ok {
		return nil, nil, fs.NotSock
	}
	return d, s, d.need(r)
}

// sockAccept is preview 1's, and version 2 of the extension.
func (h *Host) sockAccept(mem guestMemory, p params) error {
	return h.accept(mem, p.u32(0), p.u32(1), p.u32(2))
}

// accept makes a descriptor of the first connection that waits. The place for it is found before, so that none is lost.
func (h *Host) accept(mem guestMemory, fd, flags, result uint32) error {
	d, s, err := h.socket(fd, rightSockAccept)
	if err != nil {
		return err
	}
	if flags&^uint32(flagNonblock) != 0 {
		return fs.Inval
	}
	out, err := view(mem, result, 4)
	if err != nil {
		return err
	}
	n, err := h.fds.reserve()
	if err != nil {
		return err
	}
	conn, err := s.accept(h, d.nonblock())
	if err != nil {
		return err
	}
	h.fds.put(n, &descriptor{object: conn, base: socketRights, inheriting: socketRights, flags: fdflags(flags)})
	binary.LittleEndian.PutUint32(out, uint32(n))
	return nil
}

func (h *Host) sockRecv(mem guestMemory, p params) error {
	d, s, err := h.socket(p.u32(0), rightFDRead)
	if err != nil {
		return err
	}
	_, err = h.recv(mem, d, s, p.u32(1), p.u32(2), p.u32(3), p.u32(4), p.u32(5))
	return err
}

// recv receives into n buffers at iovs, and writes the size and the flags.
func (h *Host) recv(mem guestMemory, d *descriptor, s *socket, iovs, n, flags, size, outFlags uint32) (received, error) {
	if flags&^(receivePeek|receiveWaitAll) != 0 {
		return received{}, fs.Inval
	}
	bufs, count, err := h.transfer(mem, iovs, n, size)
	if err != nil {
		return received{}, err
	}
	out, err := view(mem, outFlags, 2)
	if err != nil {
		return received{}, err
	}
	got, from, err := s.receive(h, bufs, receiveFlags{
		peek: flags&receivePeek != 0, all: flags&receiveWaitAll != 0, nonblock: d.nonblock(),
	})
	if err != nil {
		return received{}, err
	}
	var told uint16
	if from.cut {
		told = receivedTruncated
	}
	binary.LittleEndian.PutUint16(out, told)
	binary.LittleEndian.PutUint32(count, uint32(got))
	return from, nil
}

func (h *Host) sockSend(mem guestMemory, p params) error {
	d, s, err := h.socket(p.u32(0), rightFDWrite)
	switch {
	case err != nil:
		return err
	case p.u32(3) != 0:
		return fs.Inval
	}
	return h.sendTo(mem, d, s, p.u32(1), p.u32(2), netip.AddrPort{}, p.u32(4))
}

func (h *Host) sockShutdown(_ guestMemory, p params) error {
	_, s, err := h.socket(p.u32(0), rightSockShutdown)
	if err != nil {
		return err
	}
	how := p.u32(1)
	if how == 0 || how&^(shutdownRead|shutdownWrite) != 0 {
		return fs.Inval
	}
	return s.shutdown(how&shutdownRead != 0, how&shutdownWrite != 0)
}
