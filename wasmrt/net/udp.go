//go:build linux

package net

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"
)

// headerSize is the size of a datagram's header; maxDatagram that of the largest datagram, as UDP has it over IPv4.
const (
	headerSize  = 20
	maxDatagram = 65507
)

// packets is a UDP port that is held.
type packets struct {
	local *Local
	fd    int
	addr  netip.AddrPort
	path  string
	// peer is the only address that it hears, where there is one.
	peer netip.AddrPort
	// header and bufs are used by one call at a time.
	header [headerSize]byte
	bufs   [][]byte
}

// BindUDP claims a UDP port.
func (l *Local) BindUDP(at netip.AddrPort) (PacketConn, error) {
	addr, path, err := l.claim(UDP, at)
	if err != nil {
		return nil, err
	}
	fd, err := bound(unix.SOCK_DGRAM, path)
	if err != nil {
		l.claims.release(UDP, addr.Port())
		return nil, err
	}
	return &packets{local: l, fd: fd, addr: addr, path: path}, nil
}

func (p *packets) FD() int { return p.fd }

// Addr tells the pod's address that the peer sees, once there is a peer.
func (p *packets) Addr() netip.AddrPort {
	if p.peer.IsValid() {
		return p.source(p.peer.Addr())
	}
	return p.addr
}

// source is where a datagram to an address comes from.
func (p *packets) source(to netip.Addr) netip.AddrPort {
	from := p.addr.Addr().Unmap()
	if from.IsUnspecified() {
		from = source(to)
	}
	return netip.AddrPortFrom(from, p.addr.Port())
}

// Connect limits the socket to a port of the pod.
func (p *packets) Connect(to netip.AddrPort) error {
	if !to.IsValid() {
		p.peer = to
		return nil
	}
	to = destination(to)
	if !p.local.isOwn(to.Addr()) {
		return unix.ENETUNREACH
	}
	p.peer = to
	return nil
}

func (p *packets) Close() error {
	// A socket that stays is removed by the port's next holder.
	_ = unix.Unlink(p.path)
	err := unix.Close(p.fd)
	p.local.claims.release(UDP, p.addr.Port())
	return err
}

// Send sends a datagram to a port of the pod. It returns ECONNREFUSED where nobody holds the port.
func (p *packets) Send(to netip.AddrPort, bufs [][]byte) (int, error) {
	to = destination(to)
	size := 0
	for _, b := range bufs {
		size += len(b)
	}
	switch {
	case !p.local.isOwn(to.Addr()):
		return 0, unix.ENETUNREACH
	case size > maxDatagram:
		return 0, unix.EMSGSIZE
	}
	putHeader(&p.header, p.source(to.Addr()))
	list := p.list(bufs)
	err := p.send(to.Port(), false, list)
	if err == unix.ECONNREFUSED && to.Addr().IsLoopback() {
		err = p.send(to.Port(), true, list)
	}
	clear(list)
	return size, err
}

// list puts the header before the buffers.
func (p *packets) list(bufs [][]byte) [][]byte {
	p.bufs = append(append(p.bufs[:0], p.header[:]), bufs...)
	return p.bufs
}

// send tries one of the two names that a port may have.
func (p *packets) send(port uint16, loopback bool, bufs [][]byte) error {
	to := &unix.SockaddrUnix{Name: p.local.path(UDP, port, loopback)}
	for {
		_, err := unix.SendmsgBuffers(p.fd, bufs, nil, to, unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT)
		switch err {
		case unix.EINTR:
			continue
		case unix.ENOENT, unix.EACCES:
			return unix.ECONNREFUSED
		case unix.EAGAIN, unix.ENOBUFS:
			// There is no room: the datagram is lost.
			return nil
		}
		return err
	}
}

// maxThrown is how many datagrams one call throws away: whoever sends them fast must not keep it from coming back.
const maxThrown = 64

// Receive takes a datagram. One without a header comes from no guest, and is thrown away as one that is not from the peer.
func (p *packets) Receive(bufs [][]byte, peek bool) (Packet, error) {
	flags := unix.MSG_DONTWAIT | unix.MSG_TRUNC
	if peek {
		flags |= unix.MSG_PEEK
	}
	// The host takes so many buffers, the header among them.
	const most = 1024
	list := p.list(bufs[:min(len(bufs), most-1)])
	defer clear(list)
	for range maxThrown {
		n, _, _, _, err := unix.RecvmsgBuffers(p.fd, list, nil, flags)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return Packet{}, err
		}
		from, ok := readHeader(&p.header)
		if ok && n >= headerSize && p.hears(from) {
			return Packet{Size: n - headerSize, From: from}, nil
		}
		if peek {
			// Left in place, it would stand before the others for good.
			_, _, _ = unix.Recvfrom(p.fd, nil, unix.MSG_DONTWAIT)
		}
	}
	return Packet{}, unix.EAGAIN
}

// hears tells whether a datagram from an address is for this socket. IPv4 and IPv6 localhost are one place.
func (p *packets) hears(from netip.AddrPort) bool {
	if !p.peer.IsValid() || from == p.peer {
		return true
	}
	return from.Port() == p.peer.Port() && from.Addr().IsLoopback() && p.peer.Addr().IsLoopback()
}

func putHeader(h *[headerSize]byte, from netip.AddrPort) {
	*h = [headerSize]byte{0: 6}
	binary.BigEndian.PutUint16(h[2:], from.Port())
	if from.Addr().Is4() {
		h[0] = 4
		a := from.Addr().As4()
		copy(h[4:], a[:])
		return
	}
	a := from.Addr().As16()
	copy(h[4:], a[:])
}

func readHeader(h *[headerSize]byte) (from netip.AddrPort, ok bool) {
	port := binary.BigEndian.Uint16(h[2:])
	switch h[0] {
	case 4:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(h[4:8])), port), true
	case 6:
		return netip.AddrPortFrom(netip.AddrFrom16([16]byte(h[4:20])), port), true
	}
	return netip.AddrPort{}, false
}
