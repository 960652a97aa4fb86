//go:build linux

package wasi

import (
	"golang.org/x/sys/unix"

	"edgepod/wasmrt/fs"
)

// openInput is a standard input that stays open until the guest is to stop, and is at its end from then on.
type openInput struct {
	in  *stream
	end *notice
	// fd is readable when there is something to read, or the end has come. It belongs to the input where both had to be
	// brought together in one, which watches tells.
	fd      int
	watches bool
}

func newOpenInput(in *stream, end *notice) (*openInput, error) {
	o := &openInput{in: in, end: end, fd: end.fd}
	if !in.waits {
		return o, nil
	}
	ep, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	for _, fd := range []int{in.fd, end.fd} {
		err := unix.EpollCtl(ep, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)})
		if err == unix.EPERM {
			// It never has to be waited for.
			_ = unix.Close(ep)
			in.waits = false
			return o, nil
		}
		if err != nil {
			_ = unix.Close(ep)
			return nil, err
		}
	}
	o.fd, o.watches = ep, true
	return o, nil
}

func (o *openInput) fileType() fs.FileType  { return o.in.fileType() }
func (o *openInput) stat() (fs.Stat, error) { return o.in.stat() }

func (o *openInput) close() error {
	if !o.watches {
		return o.end.close()
	}
	o.watches = false
	err := unix.Close(o.fd)
	if e := o.end.close(); err == nil {
		err = e
	}
	return err
}

func (o *openInput) read(h *Host, bufs [][]byte, nonblock bool) (int, error) {
	o.end.watched.Store(true)
	if len(bufs) == 0 {
		return 0, nil
	}
	for !o.end.raised() {
		if o.hasInput() {
			n, err := o.in.read(h, bufs, true)
			if err != fs.Again {
				return n, err
			}
			continue
		}
		if nonblock {
			return 0, fs.Again
		}
		h.waitFD(o.fd, unix.POLLIN)
	}
	return 0, nil
}

// hasInput tells whether the file has something to say, if it is only that it has ended.
func (o *openInput) hasInput() bool {
	return o.in.file != nil && (!o.in.waits || pollNow(o.in.fd, unix.POLLIN))
}

func (o *openInput) watch(*Host, uint8) (fd int, events int16) {
	o.end.watched.Store(true)
	if o.in.file != nil && !o.in.waits {
		return -1, 0
	}
	return o.fd, unix.POLLIN
}

func (o *openInput) event(*Host, uint8, int16) readiness {
	switch {
	case o.end.raised():
		return readiness{hangup: true}
	case o.hasInput():
		n := readable(o.in.fd)
		return readiness{nbytes: n, hangup: n == 0 && o.in.waits}
	}
	return readiness{again: true}
}
