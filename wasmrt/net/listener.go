//go:build linux

package net

import (
	"net/netip"
	"strings"

	"golang.org/x/sys/unix"
)

// Listener is a TCP port that is held. It serves one goroutine at a time.
type Listener struct {
	local *Local
	fd    int
	addr  netip.AddrPort
	path  string
}

// Bind claims a TCP port.
func (l *Local) Bind(at netip.AddrPort) (*Listener, error) {
	addr, path, err := l.claim(TCP, at)
	if err != nil {
		return nil, err
	}
	fd, err := bound(unix.SOCK_STREAM, path)
	if err != nil {
		l.claims.release(TCP, addr.Port())
		return nil, err
	}
	return &Listener{local: l, fd: fd, addr: addr, path: path}, nil
}

// bound makes a Unix socket with a path.
func bound(kind int, path string) (int, error) {
	fd, err := socket(kind)
	if err != nil {
		return -1, err
	}
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// FD is readable when there is a connection to accept, and negative while the listener is parked.
func (l *Listener) FD() int { return l.fd }

// Addr is where it is bound.
func (l *Listener) Addr() netip.AddrPort { return l.addr }

// A queue shorter than the first is not made, longer than the second is not of use. The queue of TCP holds only what the
// other side has answered, so the same number means more there.
const (
	minBacklog = 128
	maxBacklog = 4096
)

// Park keeps the port without a descriptor, for who connects from it. Listen makes a new one.
func (l *Listener) Park() {
	if l.fd < 0 {
		return
	}
	// A socket that stays is removed by Listen, or by the port's next holder.
	_ = unix.Unlink(l.path)
	// Nothing was written that could be lost.
	_ = unix.Close(l.fd)
	l.fd = -1
}

// Listen begins to take connections, of which about backlog may wait to be accepted. It may be called again.
func (l *Listener) Listen(backlog int) error {
	if l.fd < 0 {
		// Where it was not removed, binding tells.
		_ = unix.Unlink(l.path)
		fd, err := bound(unix.SOCK_STREAM, l.path)
		if err != nil {
			return err
		}
		l.fd = fd
	}
	return unix.Listen(l.fd, min(max(backlog, minBacklog), maxBacklog))
}

// Accept returns the first connection that waits, or EAGAIN.
func (l *Listener) Accept() (*Conn, error) {
	for {
		fd, from, err := unix.Accept4(l.fd, unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
		if err == unix.EINTR || err == unix.ECONNABORTED {
			continue
		}
		if err != nil {
			return nil, err
		}
		peer := peerOf(from)
		at := l.addr.Addr()
		if at.IsUnspecified() {
			at = l.local.near(peer.Addr())
		}
		return &Conn{FD: fd, Local: netip.AddrPortFrom(at, l.addr.Port()), Remote: peer}, nil
	}
}

// near is the pod's address that a peer has connected to, as far as its own tells.
func (l *Local) near(peer netip.Addr) netip.Addr {
	if l.isOwn(peer) {
		return source(peer)
	}
	for _, a := range l.cfg.Addrs {
		if a.Is4() == peer.Is4() {
			return a
		}
	}
	return loopbackOf(peer)
}

// Close gives up the port. Connections that were accepted stay.
func (l *Listener) Close() error {
	l.Park()
	l.local.claims.release(TCP, l.addr.Port())
	return nil
}

// peerOf reads the address in a peer's name. A peer that has none is localhost, port 0.
func peerOf(from unix.Sockaddr) netip.AddrPort {
	if u, ok := from.(*unix.SockaddrUnix); ok {
		if addr, err := netip.ParseAddrPort(u.Name[strings.LastIndexByte(u.Name, '/')+1:]); err == nil {
			return netip.AddrPortFrom(addr.Addr().Unmap(), addr.Port())
		}
	}
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 0)
}
