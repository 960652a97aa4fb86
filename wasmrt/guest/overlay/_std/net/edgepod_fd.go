//go:build wasip1

package net

import (
	"internal/poll"
	"os"
	"runtime"
	"syscall"
	"time"
)

// netFD is a socket of the host. Waiting is left to the runtime's poller, which comes to rest in poll_oneoff.
type netFD struct {
	pfd poll.FD

	// These stay the same until Close.
	family      int
	sotype      int
	isConnected bool
	net         string
	laddr       Addr
	raddr       Addr
}

func newFD(network string, family, sotype, sysfd int) *netFD {
	stream := sotype == syscall.SOCK_STREAM
	return &netFD{
		pfd:    poll.FD{Sysfd: sysfd, IsStream: stream, ZeroReadIsEOF: stream},
		family: family, sotype: sotype, net: network,
	}
}

func (fd *netFD) init() error { return fd.pfd.Init(fd.net, true) }

// setAddr also makes fd one that is closed when nobody can reach it any more.
func (fd *netFD) setAddr(laddr, raddr Addr) {
	fd.laddr, fd.raddr = laddr, raddr
	runtime.SetFinalizer(fd, (*netFD).Close)
}

func (fd *netFD) Close() error {
	runtime.SetFinalizer(fd, nil)
	return fd.pfd.Close()
}

func (fd *netFD) accept() (*netFD, error) {
	s, _, call, err := fd.pfd.Accept()
	runtime.KeepAlive(fd)
	if err != nil {
		if call != "" {
			err = wrapSyscallError(call, err)
		}
		return nil, err
	}
	accepted := newFD(fd.net, fd.family, fd.sotype, s)
	accepted.isConnected = true
	if err := accepted.init(); err != nil {
		_ = syscall.Close(s)
		return nil, err
	}
	accepted.learnAddresses(new(TCPAddr), new(TCPAddr))
	return accepted, nil
}

func (fd *netFD) shutdown(how int) error {
	err := fd.pfd.Shutdown(how)
	runtime.KeepAlive(fd)
	return wrapSyscallError("shutdown", err)
}

func (fd *netFD) closeRead() error  { return fd.shutdown(syscall.SHUT_RD) }
func (fd *netFD) closeWrite() error { return fd.shutdown(syscall.SHUT_WR) }

// dup always fails: WASI cannot double a descriptor.
func (fd *netFD) dup() (*os.File, error) { return nil, os.NewSyscallError("dup", syscall.ENOSYS) }

func (fd *netFD) Read(p []byte) (int, error) {
	n, err := fd.pfd.Read(p)
	runtime.KeepAlive(fd)
	return n, wrapSyscallError("read", err)
}

func (fd *netFD) Write(p []byte) (int, error) {
	n, err := fd.pfd.Write(p)
	runtime.KeepAlive(fd)
	return n, wrapSyscallError("write", err)
}

func (fd *netFD) SetDeadline(t time.Time) error      { return fd.pfd.SetDeadline(t) }
func (fd *netFD) SetReadDeadline(t time.Time) error  { return fd.pfd.SetReadDeadline(t) }
func (fd *netFD) SetWriteDeadline(t time.Time) error { return fd.pfd.SetWriteDeadline(t) }
