//go:build linux

package wasi

import "edgepod/wasmrt/fs"

// socket returns the answer to a socket call on a descriptor that is none.
func (h *Host) socket(fd uint32) error {
	if _, err := h.fds.get(fd, 0); err != nil {
		return err
	}
	return fs.NotSock
}

func (h *Host) sockAccept(_ guestMemory, p params) error   { return h.socket(p.u32(0)) }
func (h *Host) sockRecv(_ guestMemory, p params) error     { return h.socket(p.u32(0)) }
func (h *Host) sockSend(_ guestMemory, p params) error     { return h.socket(p.u32(0)) }
func (h *Host) sockShutdown(_ guestMemory, p params) error { return h.socket(p.u32(0)) }
