//go:build linux

package fs

import "golang.org/x/sys/unix"

// maxName and maxPath are the longest name and path, in bytes.
const (
	maxName = 255
	maxPath = 4095
)

// handle is a descriptor of a host's folder that several values share.
type handle struct {
	fd   int
	refs int
}

func (h *handle) retain() *handle {
	h.refs++
	return h
}

// release closes the descriptor when the last value lets go of it.
func (h *handle) release() error {
	h.refs--
	if h.refs > 0 {
		return nil
	}
	return unix.Close(h.fd)
}
