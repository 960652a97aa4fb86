//go:build wasip1

package net

import (
	"os"
	"syscall"
	_ "unsafe" // for go:linkname
)

// Package syscall tells what a descriptor is.
//
//go:linkname fd_fdstat_get_type syscall.fd_fdstat_get_type
func fd_fdstat_get_type(fd int) (uint8, error)

// fileFD makes a socket of a descriptor that the program was started with. Both share it: it is closed with the second.
func fileFD(f *os.File) (*netFD, error) {
	kind, err := fd_fdstat_get_type(f.PollFD().Sysfd)
	if err != nil {
		return nil, err
	}
	fd := &netFD{family: syscall.AF_INET}
	switch kind {
	case syscall.FILETYPE_SOCKET_STREAM:
		fd.net, fd.sotype = "tcp", syscall.SOCK_STREAM
	case syscall.FILETYPE_SOCKET_DGRAM:
		fd.net, fd.sotype = "udp", syscall.SOCK_DGRAM
	default:
		return nil, syscall.ENOTSOCK
	}
	if err := syscall.SetNonblock(f.PollFD().Sysfd, true); err != nil {
		return nil, os.NewSyscallError("setnonblock", err)
	}
	fd.pfd = f.PollFD().Copy()
	fd.pfd.IsStream = fd.sotype == syscall.SOCK_STREAM
	fd.pfd.ZeroReadIsEOF = fd.pfd.IsStream
	if err := fd.init(); err != nil {
		_ = fd.pfd.Close()
		return nil, err
	}
	// The family is not told otherwise.
	if sa, err := sysAddress(fd.pfd.Sysfd, syscall.AF_UNSPEC, hostLocalAddr); err == nil {
		if _, ok := sa.(*syscall.SockaddrInet6); ok {
			fd.family = syscall.AF_INET6
		}
	}
	return fd, nil
}

func fileListener(f *os.File) (Listener, error) {
	fd, err := fileFD(f)
	if err != nil {
		return nil, err
	}
	if fd.sotype != syscall.SOCK_STREAM {
		_ = fd.pfd.Close()
		return nil, syscall.EOPNOTSUPP
	}
	fd.learnAddresses(new(TCPAddr), nil)
	return &TCPListener{fd: fd}, nil
}

func fileConn(f *os.File) (Conn, error) {
	fd, err := fileFD(f)
	if err != nil {
		return nil, err
	}
	if fd.sotype == syscall.SOCK_DGRAM {
		fd.learnAddresses(new(UDPAddr), new(UDPAddr))
		fd.isConnected = true
		return &UDPConn{conn{fd: fd}}, nil
	}
	fd.learnAddresses(new(TCPAddr), new(TCPAddr))
	fd.isConnected = true
	return &TCPConn{conn{fd: fd}}, nil
}

func filePacketConn(f *os.File) (PacketConn, error) {
	fd, err := fileFD(f)
	if err != nil {
		return nil, err
	}
	if fd.sotype != syscall.SOCK_DGRAM {
		_ = fd.pfd.Close()
		return nil, syscall.ENOTSOCK
	}
	fd.learnAddresses(new(UDPAddr), nil)
	return &UDPConn{conn{fd: fd}}, nil
}
