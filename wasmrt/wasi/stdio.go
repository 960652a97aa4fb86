//go:build linux

package wasi

import (
	"io"
	"os"

	"golang.org/x/sys/unix"

	"edgepod/wasmrt/fs"
)

// stream is the guest's standard input or one of its outputs. The host's file, where there is one, belongs to the
// caller and to whoever shares it: its flags are left alone, and it is waited for before it is used.
type stream struct {
	// file is the host's; nil for an input that has ended and for a writer. Its descriptor is fd.
	file *os.File
	fd   int
	// waits tells that the file may have to be waited for.
	waits bool
	// w takes the output; nil for an input.
	w   io.Writer
	typ fs.FileType
}

// newInput makes an input from f, or one that has ended for nil.
func newInput(f *os.File, tty bool) (*stream, error) {
	s := &stream{typ: streamType(tty)}
	if f == nil {
		return s, nil
	}
	return s, s.open(f)
}

// newOutput makes the object of an output.
func newOutput(w io.Writer, tty bool) (*stream, error) {
	s := &stream{w: w, typ: streamType(tty)}
	if f, ok := w.(*os.File); ok && f != nil {
		return s, s.open(f)
	}
	if w == nil {
		s.w = io.Discard
	}
	return s, nil
}

func streamType(tty bool) fs.FileType {
	if tty {
		return fs.TypeCharacterDevice
	}
	return fs.TypeUnknown
}

func (s *stream) open(f *os.File) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	// The number is asked for in a way that leaves the file's mode as it is.
	if err := conn.Control(func(fd uintptr) { s.fd = int(fd) }); err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(s.fd, &st); err != nil {
		return err
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFIFO, unix.S_IFCHR, unix.S_IFSOCK:
		s.waits = true
	}
	s.file = f
	return nil
}

func (s *stream) fileType() fs.FileType  { return s.typ }
func (s *stream) stat() (fs.Stat, error) { return fs.Stat{Type: s.typ, Nlink: 1}, nil }
func (s *stream) close() error           { return nil }

func (s *stream) read(h *Host, bufs [][]byte, nonblock bool) (int, error) {
	if s.file == nil || len(bufs) == 0 {
		return 0, nil
	}
	for {
		if err := s.ready(h, unix.POLLIN, nonblock); err != nil {
			return 0, err
		}
		n, err := readv(s.fd, bufs)
		if err != unix.EAGAIN || nonblock {
			return n, errnoErr(err)
		}
	}
}

// ready waits until the file is ready, or returns Again if it is not and must not be waited for.
func (s *stream) ready(h *Host, events int16, nonblock bool) error {
	switch {
	case !s.waits:
		return nil
	case !nonblock:
		h.waitFD(s.fd, events)
		return nil
	case !pollNow(s.fd, events):
		return fs.Again
	}
	return nil
}

func (s *stream) write(h *Host, bufs [][]byte, nonblock bool) (int, error) {
	total := 0
	for _, b := range bufs {
		for len(b) > 0 {
			n, err := s.writeSome(h, b, nonblock)
			total += n
			b = b[n:]
			if err != nil && total > 0 {
				return total, nil
			}
			if err != nil {
				return 0, errnoErr(err)
			}
		}
	}
	return total, nil
}

// atomicWrite is what a pipe that is ready takes without blocking.
const atomicWrite = 4096

// writeSome writes some of b without blocking past a stop request.
func (s *stream) writeSome(h *Host, b []byte, nonblock bool) (int, error) {
	if s.file == nil {
		return s.w.Write(b)
	}
	if s.waits {
		b = b[:min(len(b), atomicWrite)]
	}
	for {
		if err := s.ready(h, unix.POLLOUT, nonblock); err != nil {
			return 0, err
		}
		n, err := ignoringEINTR(func() (int, error) { return unix.Write(s.fd, b) })
		if err != unix.EAGAIN || nonblock {
			return n, err
		}
	}
}

func (s *stream) watch(_ *Host, typ uint8) (fd int, events int16) {
	if !s.waits {
		return -1, 0
	}
	return s.fd, pollEvents(typ)
}

func (s *stream) event(_ *Host, typ uint8, revents int16) readiness {
	if typ == eventWrite {
		return readiness{hangup: s.file != nil && revents&(unix.POLLHUP|unix.POLLERR) != 0}
	}
	if s.file == nil {
		return readiness{hangup: true}
	}
	return readiness{nbytes: readable(s.fd), hangup: revents&unix.POLLHUP != 0}
}
