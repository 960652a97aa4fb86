//go:build linux

package wasi

import (
	"net/netip"

	"golang.org/x/sys/unix"

	"edgepod/wasmrt/fs"
	"edgepod/wasmrt/net"
)

// receiveFlags say how to receive.
type receiveFlags struct {
	// peek leaves what was received where it is; all waits until every buffer is full.
	peek, all, nonblock bool
}

// received describes what was received.
type received struct {
	from netip.AddrPort
	// cut tells that a datagram did not fit.
	cut bool
}

// receive receives into the buffers.
func (s *socket) receive(h *Host, bufs [][]byte, f receiveFlags) (int, received, error) {
	if s.protocol == net.UDP {
		return s.receivePacket(h, bufs, f)
	}
	fd, err := s.connected(h, f.nonblock)
	if err != nil {
		return 0, received{}, err
	}
	from := received{from: s.conn.Remote}
	if s.noRead || len(bufs) == 0 {
		return 0, from, nil
	}
	until, total := h.after(s.options.receiveTimeout), 0
	for {
		n, err := receiveSome(fd, bufs, f.peek)
		total += n
		switch {
		case err == unix.EAGAIN && !f.nonblock && h.waitFDUntil(fd, unix.POLLIN, until):
			continue
		case total > 0 && err != nil:
			// What has come in counts; the next call meets the error again.
			return total, from, nil
		case err != nil || !f.all || f.peek || n == 0:
			return total, from, errnoErr(err)
		}
		if bufs = skip(bufs, n); len(bufs) == 0 || total >= maxMoved {
			return total, from, nil
		}
	}
}

// receiveSome receives with one call.
func receiveSome(fd int, bufs [][]byte, peek bool) (int, error) {
	if !peek {
		return readv(fd, bufs)
	}
	return ignoringEINTR(func() (int, error) {
		n, _, _, _, err := unix.RecvmsgBuffers(fd, bufs, nil, unix.MSG_PEEK|unix.MSG_DONTWAIT)
		return n, err
	})
}

// connectUDP limits a socket of UDP to one peer. The zero value ends that.
func (s *socket) connectUDP(h *Host, to netip.AddrPort) error {
	if err := s.ensureBound(h); err != nil {
		return err
	}
	if err := s.packets.Connect(to); err != nil {
		return err
	}
	s.peer = to
	return nil
}

func (s *socket) sendPacket(h *Host, to netip.AddrPort, bufs [][]byte) (int, error) {
	switch {
	case s.noWrite:
		return 0, fs.Pipe
	case !to.IsValid() && !s.peer.IsValid():
		return 0, fs.DestAddrReq
	case !to.IsValid():
		to = s.peer
	case to.Port() == 0:
		return 0, fs.Inval
	}
	if err := s.ensureBound(h); err != nil {
		return 0, err
	}
	n, err := s.packets.Send(to, bufs)
	if err == unix.ECONNREFUSED && to != s.peer {
		// Only who is connected hears that nobody is there.
		err = nil
	}
	return n, errnoErr(err)
}

func (s *socket) receivePacket(h *Host, bufs [][]byte, f receiveFlags) (int, received, error) {
	if s.noRead {
		return 0, received{}, nil
	}
	if err := s.ensureBound(h); err != nil {
		return 0, received{}, err
	}
	until := h.after(s.options.receiveTimeout)
	for {
		p, err := s.packets.Receive(bufs, f.peek)
		if err == nil {
			room := size(bufs)
			return min(p.Size, room), received{from: p.From, cut: p.Size > room}, nil
		}
		if err != unix.EAGAIN || f.nonblock || !h.waitFDUntil(s.packets.FD(), unix.POLLIN, until) {
			return 0, received{}, errnoErr(err)
		}
	}
}
