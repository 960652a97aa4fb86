//go:build wasip1

package net

import (
	"runtime"
	"syscall"
)

// receive waits for one datagram.
func (fd *netFD) receive(p []byte) (n, flags int, from syscall.Sockaddr, err error) {
	waitErr := fd.pfd.RawRead(func(uintptr) bool {
		n, flags, from, err = sysReceive(fd.pfd.Sysfd, p, fd.family)
		return err != syscall.EAGAIN && err != syscall.EINTR
	})
	runtime.KeepAlive(fd)
	if waitErr != nil {
		return 0, 0, nil, waitErr
	}
	return n, flags, from, wrapSyscallError("recvfrom", err)
}

// send waits until one datagram can be sent, to a socket's peer where to is nil.
func (fd *netFD) send(p []byte, to syscall.Sockaddr) (n int, err error) {
	if to == nil {
		return fd.Write(p)
	}
	waitErr := fd.pfd.RawWrite(func(uintptr) bool {
		n, err = sysSend(fd.pfd.Sysfd, p, to)
		return err != syscall.EAGAIN && err != syscall.EINTR
	})
	runtime.KeepAlive(fd)
	if waitErr != nil {
		return 0, waitErr
	}
	return n, wrapSyscallError("sendto", err)
}

func (fd *netFD) readFrom(p []byte) (int, syscall.Sockaddr, error) {
	n, _, from, err := fd.receive(p)
	return n, from, err
}

func (fd *netFD) readFromInet4(p []byte, from *syscall.SockaddrInet4) (int, error) {
	n, _, _, err := fd.readMsgInet4(p, nil, 0, from)
	return n, err
}

func (fd *netFD) readFromInet6(p []byte, from *syscall.SockaddrInet6) (int, error) {
	n, _, _, err := fd.readMsgInet6(p, nil, 0, from)
	return n, err
}

// readMsg never fills oob: the host has no control messages.
func (fd *netFD) readMsg(p, oob []byte, flags int) (n, oobn, outFlags int, from syscall.Sockaddr, err error) {
	if flags != 0 {
		return 0, 0, 0, nil, wrapSyscallError("recvmsg", syscall.ENOTSUP)
	}
	n, outFlags, from, err = fd.receive(p)
	return n, 0, outFlags, from, err
}

func (fd *netFD) readMsgInet4(p, oob []byte, flags int, from *syscall.SockaddrInet4) (n, oobn, outFlags int, err error) {
	n, _, outFlags, sa, err := fd.readMsg(p, oob, flags)
	if got, ok := sa.(*syscall.SockaddrInet4); ok {
		*from = *got
	}
	return n, 0, outFlags, err
}

func (fd *netFD) readMsgInet6(p, oob []byte, flags int, from *syscall.SockaddrInet6) (n, oobn, outFlags int, err error) {
	n, _, outFlags, sa, err := fd.readMsg(p, oob, flags)
	if got, ok := sa.(*syscall.SockaddrInet6); ok {
		*from = *got
	}
	return n, 0, outFlags, err
}

func (fd *netFD) writeTo(p []byte, to syscall.Sockaddr) (int, error) { return fd.send(p, to) }

func (fd *netFD) writeToInet4(p []byte, to *syscall.SockaddrInet4) (int, error) {
	return fd.send(p, to)
}

func (fd *netFD) writeToInet6(p []byte, to *syscall.SockaddrInet6) (int, error) {
	return fd.send(p, to)
}

// writeMsg takes no oob: the host has no control messages.
func (fd *netFD) writeMsg(p, oob []byte, to syscall.Sockaddr) (n, oobn int, err error) {
	if len(oob) > 0 {
		return 0, 0, wrapSyscallError("sendmsg", syscall.ENOTSUP)
	}
	n, err = fd.send(p, to)
	return n, 0, err
}

func (fd *netFD) writeMsgInet4(p, oob []byte, to *syscall.SockaddrInet4) (n, oobn int, err error) {
	if to == nil {
		return fd.writeMsg(p, oob, nil)
	}
	return fd.writeMsg(p, oob, to)
}

func (fd *netFD) writeMsgInet6(p, oob []byte, to *syscall.SockaddrInet6) (n, oobn int, err error) {
	if to == nil {
		return fd.writeMsg(p, oob, nil)
	}
	return fd.writeMsg(p, oob, to)
}
