//go:build linux

package wasi

import (
	"encoding/binary"
	"net/netip"

	"edgepod/wasmrt/fs"
	"edgepod/wasmrt/net"
)

// The types of sockets.
const (
	typeDgram  = 1
	typeStream = 2
)

// socketExtension lists WasmEdge's functions for sockets. Two versions share their names and differ in their parameters, by
// which each import is told apart: programs mix them. Version 2 has names of its own too.
func socketExtension() []function {
	return []function{
		{name: "sock_open", params: "iii", run: (*Host).sockOpen},
		{name: "sock_open_v2", params: "iii", run: (*Host).sockOpen},
		{name: "sock_bind", params: "iii", run: (*Host).sockBind},
		{name: "sock_bind_v2", params: "iii", run: (*Host).sockBind},
		{name: "sock_connect", params: "iii", run: (*Host).sockConnect},
		{name: "sock_connect_v2", params: "iii", run: (*Host).sockConnect},
		{name: "sock_listen", params: "ii", run: (*Host).sockListen},
		{name: "sock_listen_v2", params: "ii", run: (*Host).sockListen},
		{name: "sock_accept", params: "ii", run: (*Host).sockAccept1},
		{name: "sock_accept_v2", params: "iii", run: (*Host).sockAccept},
		{name: "sock_recv_v2", params: "iiiiii", run: (*Host).sockRecv},
		{name: "sock_recv_from", params: "iiiiiii", run: (*Host).sockRecvFrom1},
		{name: "sock_recv_from", params: "iiiiiiii", run: (*Host).sockRecvFrom},
		{name: "sock_recv_from_v2", params: "iiiiiiii", run: (*Host).sockRecvFrom},
		{name: "sock_send_v2", params: "iiiii", run: (*Host).sockSend},
		{name: "sock_send_to", params: "iiiiiii", run: (*Host).sockSendTo},
		{name: "sock_send_to_v2", params: "iiiiiii", run: (*Host).sockSendTo},
		{name: "sock_getlocaladdr", params: "iiii", run: (*Host).sockGetlocaladdr1},
		{name: "sock_getlocaladdr", params: "iii", run: (*Host).sockGetlocaladdr},
		{name: "sock_getlocaladdr_v2", params: "iii", run: (*Host).sockGetlocaladdr},
		{name: "sock_getpeeraddr", params: "iiii", run: (*Host).sockGetpeeraddr1},
		{name: "sock_getpeeraddr", params: "iii", run: (*Host).sockGetpeeraddr},
		{name: "sock_getpeeraddr_v2", params: "iii", run: (*Host).sockGetpeeraddr},
		{name: "sock_getsockopt", params: "iiiii", run: (*Host).sockGetsockopt},
		{name: "sock_setsockopt", params: "iiiii", run: (*Host).sockSetsockopt},
		{name: "sock_getaddrinfo", params: "iiiiiiii", run: (*Host).sockGetaddrinfo},
	}
}

func (h *Host) sockOpen(mem guestMemory, p params) error {
	s := &socket{family: uint8(p.u32(0))}
	switch {
	case s.family != familyINET4 && s.family != familyINET6 || h.cfg.Net == nil:
		return fs.AFNoSupport
	case uint8(p.u32(1)) == typeStream:
		s.protocol = net.TCP
	case uint8(p.u32(1)) == typeDgram:
		s.protocol = net.UDP
	default:
		return fs.Inval
	}
	out, err := view(mem, p.u32(2), 4)
	if err != nil {
		return err
	}
	fd, err := h.add(&descriptor{object: s, base: socketRights, inheriting: socketRights})
	if err != nil {
		return err
	}
	binary.LittleEndian.PutUint32(out, fd)
	return nil
}

// socketAndAddr returns the socket of a call whose next parameters are an address and a port.
func (h *Host) socketAndAddr(mem guestMemory, p params) (*descriptor, *socket, netip.AddrPort, error) {
	d, s, err := h.socket(p.u32(0), 0)
	if err != nil {
		return nil, nil, netip.AddrPort{}, err
	}
	a, err := addrAt(mem, p.u32(1))
	if err != nil {
		return nil, nil, netip.AddrPort{}, err
	}
	to, err := s.target(a, p.u32(2))
	return d, s, to, err
}

func (h *Host) sockBind(mem guestMemory, p params) error {
	_, s, at, err := h.socketAndAddr(mem, p)
	switch {
	case err != nil:
		return err
	case !at.IsValid():
		return fs.Inval
	}
	return s.bind(h, at)
}

// sockConnect connects; the unspecified family ends what a socket of UDP is connected to.
func (h *Host) sockConnect(mem guestMemory, p params) error {
	d, s, to, err := h.socketAndAddr(mem, p)
	switch {
	case err != nil:
		return err
	case !to.IsValid() && s.protocol != net.UDP:
		return fs.Inval
	}
	return s.connect(h, to, d.nonblock())
}

func (h *Host) sockListen(_ guestMemory, p params) error {
	_, s, err := h.socket(p.u32(0), rightSockAccept)
	if err != nil {
		return err
	}
	return s.listen(h, int(int32(p.u32(1))))
}

// sockAccept1 is version 1, which has no flags.
func (h *Host) sockAccept1(mem guestMemory, p params) error {
	return h.accept(mem, p.u32(0), 0, p.u32(1))
}

// sockRecvFrom1 is version 1, which does not tell the port.
func (h *Host) sockRecvFrom1(mem guestMemory, p params) error {
	return h.recvFrom(mem, p, 0, p.u32(5), p.u32(6))
}

func (h *Host) sockRecvFrom(mem guestMemory, p params) error {
	if _, err := view(mem, p.u32(5), 4); err != nil {
		return err
	}
	return h.recvFrom(mem, p, p.u32(5), p.u32(6), p.u32(7))
}

// recvFrom receives and writes the address of who sent it, and the port where it is not 0.
func (h *Host) recvFrom(mem guestMemory, p params, port, size, flags uint32) error {
	d, s, err := h.socket(p.u32(0), rightFDRead)
	if err != nil {
		return err
	}
	a, err := addrAt(mem, p.u32(3))
	if err != nil {
		return err
	}
	if a != nil && !a.fits(s) {
		return fs.NoMem
	}
	from, err := h.recv(mem, d, s, p.u32(1), p.u32(2), p.u32(4), size, flags)
	if err != nil {
		return err
	}
	if a != nil {
		if err := a.put(s, from.from.Addr()); err != nil {
			return err
		}
	}
	if port == 0 {
		return nil
	}
	return putUint32(mem, port, uint32(from.from.Port()))
}

func (h *Host) sockSendTo(mem guestMemory, p params) error {
	d, s, err := h.socket(p.u32(0), rightFDWrite)
	if err != nil {
		return err
	}
	a, err := addrAt(mem, p.u32(3))
	if err != nil {
		return err
	}
	to, err := s.target(a, p.u32(4))
	switch {
	case err != nil:
		return err
	case p.u32(5) != 0:
		return fs.Inval
	}
	return h.sendTo(mem, d, s, p.u32(1), p.u32(2), to, p.u32(6))
}

// sendTo sends n buffers at iovs, and writes how many bytes went out.
func (h *Host) sendTo(mem guestMemory, d *descriptor, s *socket, iovs, n uint32, to netip.AddrPort, size uint32) error {
	bufs, out, err := h.transfer(mem, iovs, n, size)
	if err != nil {
		return err
	}
	sent, err := s.send(h, to, bufs, d.nonblock())
	if err != nil {
		return err
	}
	binary.LittleEndian.PutUint32(out, uint32(sent))
	return nil
}

// local is where the socket is; there is no error.
func (s *socket) local() (netip.AddrPort, error) {
	switch {
	case s.conn != nil:
		return s.conn.Local, nil
	case s.listener != nil:
		return s.listener.Addr(), nil
	case s.packets != nil:
		return s.packets.Addr(), nil
	}
	return s.anywhere(), nil
}

// remote is where the socket is connected to.
func (s *socket) remote() (netip.AddrPort, error) {
	switch {
	case s.conn != nil:
		return s.conn.Remote, nil
	case s.peer.IsValid():
		return s.peer, nil
	}
	return netip.AddrPort{}, fs.NotConn
}

// putAddr writes an address, and the port.
func putAddr(mem guestMemory, s *socket, p uint32, at netip.AddrPort, port uint32) error {
	a, err := addrAt(mem, p)
	if err != nil {
		return err
	}
	if a == nil {
		return fs.Inval
	}
	out, err := view(mem, port, 4)
	if err != nil {
		return err
	}
	if err := a.put(s, at.Addr()); err != nil {
		return err
	}
	binary.LittleEndian.PutUint32(out, uint32(at.Port()))
	return nil
}

// putFamily writes the family as version 1 has it: 4 or 6.
func putFamily(mem guestMemory, s *socket, p uint32) error {
	if s.family == familyINET6 {
		return putUint32(mem, p, 6)
	}
	return putUint32(mem, p, 4)
}

// tell writes one of a socket's two addresses, and the port.
func (h *Host) tell(mem guestMemory, p params, which func(*socket) (netip.AddrPort, error)) error {
	_, s, err := h.socket(p.u32(0), 0)
	if err != nil {
		return err
	}
	at, err := which(s)
	if err != nil {
		return err
	}
	return putAddr(mem, s, p.u32(1), at, p.u32(2))
}

// tell1 is version 1, which has the family beside the address.
func (h *Host) tell1(mem guestMemory, p params, which func(*socket) (netip.AddrPort, error)) error {
	_, s, err := h.socket(p.u32(0), 0)
	if err != nil {
		return err
	}
	at, err := which(s)
	if err != nil {
		return err
	}
	if err := putFamily(mem, s, p.u32(2)); err != nil {
		return err
	}
	return putAddr(mem, s, p.u32(1), at, p.u32(3))
}

func (h *Host) sockGetlocaladdr(mem guestMemory, p params) error {
	return h.tell(mem, p, (*socket).local)
}

func (h *Host) sockGetlocaladdr1(mem guestMemory, p params) error {
	return h.tell1(mem, p, (*socket).local)
}

func (h *Host) sockGetpeeraddr(mem guestMemory, p params) error {
	return h.tell(mem, p, (*socket).remote)
}

func (h *Host) sockGetpeeraddr1(mem guestMemory, p params) error {
	return h.tell1(mem, p, (*socket).remote)
}
