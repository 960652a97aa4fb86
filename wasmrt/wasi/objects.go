//go:build linux

package wasi

import (
	"edgepod/wasmrt/fs"

	"golang.org/x/sys/unix"
)

// dirObject is a folder.
type dirObject struct{ *fs.Dir }

func (o dirObject) fileType() fs.FileType  { return fs.TypeDirectory }
func (o dirObject) stat() (fs.Stat, error) { return o.Stat() }
func (o dirObject) close() error           { return o.Close() }

// fileObject is a file of the tree, a pipe or a device among them.
type fileObject struct{ *fs.File }

func (o fileObject) fileType() fs.FileType  { return o.Type() }
func (o fileObject) stat() (fs.Stat, error) { return o.Stat() }
func (o fileObject) close() error           { return o.Close() }

func (o fileObject) read(h *Host, bufs [][]byte, nonblock bool) (int, error) {
	for {
		n, err := readv(o.FD(), bufs)
		if err != unix.EAGAIN || nonblock {
			return n, errnoErr(err)
		}
		h.waitFD(o.FD(), unix.POLLIN)
	}
}

func (o fileObject) write(h *Host, bufs [][]byte, nonblock bool) (int, error) {
	for {
		n, err := writev(o.FD(), bufs)
		if err != unix.EAGAIN || nonblock {
			return n, errnoErr(err)
		}
		h.waitFD(o.FD(), unix.POLLOUT)
	}
}

func (o fileObject) watch(_ *Host, typ uint8) (fd int, events int16) {
	if o.Type() == fs.TypeRegular {
		return -1, 0
	}
	return o.FD(), pollEvents(typ)
}

func (o fileObject) event(_ *Host, typ uint8, revents int16) readiness {
	e := readiness{hangup: revents&unix.POLLHUP != 0 || typ == eventWrite && revents&unix.POLLERR != 0}
	if typ == eventRead {
		e.nbytes = o.pending()
	}
	return e
}

// pending is how many bytes can be read without waiting.
func (o fileObject) pending() uint64 {
	if o.Type() != fs.TypeRegular {
		return readable(o.FD())
	}
	st, err := o.Stat()
	if err != nil {
		return 0
	}
	at, err := unix.Seek(o.FD(), 0, unix.SEEK_CUR)
	if err != nil || uint64(at) >= st.Size {
		return 0
	}
	return st.Size - uint64(at)
}

// readable asks the host how many bytes a pipe holds.
func readable(fd int) uint64 {
	n, err := unix.IoctlGetInt(fd, unix.TIOCINQ)
	if err != nil {
		return 0
	}
	return uint64(max(n, 0))
}

// readv reads into the buffers with one call.
func readv(fd int, bufs [][]byte) (int, error) {
	return ignoringEINTR(func() (int, error) {
		switch len(bufs) {
		case 0:
			return 0, nil
		case 1:
			return unix.Read(fd, bufs[0])
		}
		return unix.Readv(fd, bufs)
	})
}

// writev writes the buffers with one call.
func writev(fd int, bufs [][]byte) (int, error) {
	return ignoringEINTR(func() (int, error) {
		switch len(bufs) {
		case 0:
			return 0, nil
		case 1:
			return unix.Write(fd, bufs[0])
		}
		return unix.Writev(fd, bufs)
	})
}

// ignoringEINTR repeats a call that a signal of the Go runtime cut short. A count of -1 becomes 0.
func ignoringEINTR(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if err != unix.EINTR {
			return max(n, 0), err
		}
	}
}

func errnoErr(err error) error {
	if err == nil {
		return nil
	}
	return fs.ErrnoOf(err)
}
