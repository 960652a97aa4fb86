//go:build wasip1

package net

import (
	"syscall"
	"time"
)

func setDefaultMulticastSockopts(int) error { return nil }

func setReadBuffer(fd *netFD, bytes int) error {
	return wrapSyscallError("setsockopt", sysSetOption(fd.pfd.Sysfd, hostReceiveBuffer, int32(bytes)))
}

func setWriteBuffer(fd *netFD, bytes int) error {
	return wrapSyscallError("setsockopt", sysSetOption(fd.pfd.Sysfd, hostSendBuffer, int32(bytes)))
}

func setLinger(fd *netFD, sec int) error {
	on := int32(1)
	if sec < 0 {
		on, sec = 0, 0
	}
	return wrapSyscallError("setsockopt", sysSetOption(fd.pfd.Sysfd, hostLinger, on, int32(sec)))
}

// setKeepAlive succeeds also where the host has no such option: there it looks after dead peers by itself.
func setKeepAlive(fd *netFD, keepalive bool) error {
	on := int32(0)
	if keepalive {
		on = 1
	}
	err := sysSetOption(fd.pfd.Sysfd, hostKeepAlive, on)
	if err == syscall.ENOPROTOOPT || err == syscall.ENOTSUP || err == syscall.ENOSYS {
		return nil
	}
	return wrapSyscallError("setsockopt", err)
}

// The host sends what it is given without delay, and how it finds out that a peer is dead is its own affair.

func setNoDelay(*netFD, bool) error                    { return nil }
func setKeepAliveIdle(*netFD, time.Duration) error     { return nil }
func setKeepAliveInterval(*netFD, time.Duration) error { return nil }
func setKeepAliveCount(*netFD, int) error              { return nil }
