//go:build linux

package wasi

import (
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"edgepod/wasmrt/fs"
	"edgepod/wasmrt/net"
)

// socketRights are what a socket may be used for.
const socketRights = streamRights | rightFDRead | rightFDWrite | rightSockShutdown | rightSockAccept

// socket is a guest's socket:
//
//	TCP  open ── bind ──► bound ── listen ──► listening ── accept ──► (another socket, connected)
//	       └─────────────────┴──── connect ──► connecting ──► connected
//	                         ▲                      └ refused ┘
//	UDP  open ── bind, connect, send, receive or poll ──► bound
type socket struct {
	family   uint8
	protocol net.Protocol

	// listener is there from bind on; listening tells that it takes connections. preopened is a listener that the guest
	// started with, which takes them as soon as the guest looks for them.
	listener  *net.Listener
	listening bool
	preopened bool
	// dialing is there while a connection is made, conn when it is; failed is why there is none, told once.
	dialing net.Pending[*net.Conn]
	conn    *net.Conn
	failed  error
	// packets is the bound socket of UDP; peer is what it is connected to.
	packets net.PacketConn
	peer    netip.AddrPort
	// noRead and noWrite tell that a direction was shut down.
	noRead, noWrite bool

	options options
}

func (s *socket) fileType() fs.FileType {
	if s.protocol == net.UDP {
		return fs.TypeSocketDgram
	}
	return fs.TypeSocketStream
}

func (s *socket) stat() (fs.Stat, error) { return fs.Stat{Type: s.fileType(), Nlink: 1}, nil }

// close gives up all that the socket holds. A port that it was bound to is free afterwards.
func (s *socket) close() error {
	var first error
	keep := func(err error) {
		if first == nil {
			first = err
		}
	}
	if s.dialing != nil {
		keep(s.dialing.Close())
	}
	if s.conn != nil {
		keep(unix.Close(s.conn.FD))
	}
	if s.listener != nil {
		keep(s.listener.Close())
	}
	if s.packets != nil {
		keep(s.packets.Close())
	}
	return first
}

// bind claims a port.
func (s *socket) bind(h *Host, at netip.AddrPort) (err error) {
	if s.conn != nil || s.dialing != nil || s.listener != nil || s.packets != nil {
		return fs.Inval
	}
	if h.cfg.Net == nil {
		return fs.AddrNotAvail
	}
	if s.protocol == net.UDP {
		s.packets, err = h.cfg.Net.BindUDP(at)
		return err
	}
	s.listener, err = h.cfg.Net.Bind(at)
	return err
}

// anywhere is the address of a socket that was bound to none.
func (s *socket) anywhere() netip.AddrPort {
	if s.family == familyINET6 {
		return netip.AddrPortFrom(netip.IPv6Unspecified(), 0)
	}
	return netip.AddrPortFrom(netip.IPv4Unspecified(), 0)
}

// ensureBound gives a socket of UDP a port if it has none.
func (s *socket) ensureBound(h *Host) error {
	if s.packets != nil {
		return nil
	}
	return s.bind(h, s.anywhere())
}

// listen begins to take connections.
func (s *socket) listen(h *Host, backlog int) error {
	switch {
	case s.protocol == net.UDP:
		return fs.NotSup
	case s.conn != nil || s.dialing != nil:
		return fs.Inval
	case s.listener == nil:
		if err := s.bind(h, s.anywhere()); err != nil {
			return err
		}
	}
	if err := s.listener.Listen(backlog); err != nil {
		return err
	}
	s.listening = true
	return nil
}

// defaultBacklog is the length of the queue of a listener that the guest did not make itself.
const defaultBacklog = 1024

// open makes a listener that the guest started with take connections.
func (s *socket) open(h *Host) error {
	if !s.preopened || s.listening || s.listener == nil {
		return nil
	}
	return s.listen(h, defaultBacklog)
}

// accept returns a socket for the first connection that waits.
func (s *socket) accept(h *Host, nonblock bool) (*socket, error) {
	if s.protocol == net.UDP {
		return nil, fs.NotSup
	}
	if err := s.open(h); err != nil {
		return nil, err
	}
	if !s.listening {
		return nil, fs.Inval
	}
	until := h.after(s.options.receiveTimeout)
	for {
		conn, err := s.listener.Accept()
		if err == nil {
			return &socket{family: s.family, protocol: net.TCP, conn: conn}, nil
		}
		if err != unix.EAGAIN || nonblock || !h.waitFDUntil(s.listener.FD(), unix.POLLIN, until) {
			return nil, err
		}
	}
}

// connect connects, or begins to.
func (s *socket) connect(h *Host, to netip.AddrPort, nonblock bool) error {
	if s.protocol == net.UDP {
		return s.connectUDP(h, to)
	}
	switch {
	case s.conn != nil || s.listening:
		return fs.IsConn
	case s.dialing != nil:
		return fs.Already
	case h.cfg.Net == nil:
		return fs.NetUnreach
	case to.Port() == 0:
		return fs.ConnRefused
	}
	var from netip.AddrPort
	if s.listener != nil {
		from = s.listener.Addr()
		s.listener.Park()
	}
	s.failed = nil
	var err error
	if s.dialing, err = h.cfg.Net.Dial(from, to); err != nil {
		s.dialing = nil
		return err
	}
	return s.finish(h, nonblock)
}

// finish waits for the connection.
func (s *socket) finish(h *Host, nonblock bool) error {
	until := h.after(s.options.sendTimeout)
	for !s.progress() {
		if nonblock || !h.waitFDUntil(s.dialing.FD(), unix.POLLIN, until) {
			return fs.InProgress
		}
	}
	err := s.failed
	s.failed = nil
	return err
}

// progress moves the making of a connection on, and tells whether it is over.
func (s *socket) progress() (over bool) {
	if s.dialing == nil {
		return true
	}
	conn, err := s.dialing.Finish()
	if err == unix.EAGAIN {
		return false
	}
	// What was made is in conn.
	_ = s.dialing.Close()
	s.dialing, s.conn, s.failed = nil, conn, err
	if conn != nil {
		s.options.apply(conn.FD)
	}
	return true
}

// after returns when a time limit that begins now is over; 0 is none.
func (h *Host) after(limit time.Duration) deadline {
	if limit <= 0 {
		return deadline{}
	}
	return deadline{monotonic: h.clock.monotonic() + uint64(limit)}
}

// connected returns the host's descriptor of a connection. It waits for one that is being made.
func (s *socket) connected(h *Host, nonblock bool) (int, error) {
	for s.dialing != nil && !s.progress() {
		if nonblock {
			return -1, fs.Again
		}
		h.waitFD(s.dialing.FD(), unix.POLLIN)
	}
	if s.conn != nil {
		return s.conn.FD, nil
	}
	if err := s.failed; err != nil {
		s.failed = nil
		return -1, err
	}
	return -1, fs.NotConn
}

// read is fd_read.
func (s *socket) read(h *Host, bufs [][]byte, nonblock bool) (int, error) {
	n, _, err := s.receive(h, bufs, receiveFlags{nonblock: nonblock})
	return n, err
}

// write is fd_write.
func (s *socket) write(h *Host, bufs [][]byte, nonblock bool) (int, error) {
	return s.send(h, netip.AddrPort{}, bufs, nonblock)
}

// send sends; to is the receiver of a datagram, or the zero value for the one that the socket is connected to.
func (s *socket) send(h *Host, to netip.AddrPort, bufs [][]byte, nonblock bool) (int, error) {
	if s.protocol == net.UDP {
		return s.sendPacket(h, to, bufs)
	}
	fd, err := s.connected(h, nonblock)
	if err != nil {
		return 0, err
	}
	until, total := h.after(s.options.sendTimeout), 0
	for {
		n, err := writev(fd, bufs)
		total += n
		bufs = skip(bufs, n)
		switch {
		case err == nil && (len(bufs) == 0 || nonblock || total >= maxMoved):
			return total, nil
		case err == nil:
			continue
		case err == unix.EAGAIN && !nonblock && h.waitFDUntil(fd, unix.POLLOUT, until):
			continue
		case total > 0:
			// What went out counts; the next call meets the error again.
			return total, nil
		}
		return 0, errnoErr(err)
	}
}

// skip returns the buffers without their first n bytes. It changes the list.
func skip(bufs [][]byte, n int) [][]byte {
	for len(bufs) > 0 && n >= len(bufs[0]) {
		n -= len(bufs[0])
		bufs = bufs[1:]
	}
	if n > 0 {
		bufs[0] = bufs[0][n:]
	}
	return bufs
}

// shutdown ends one or both directions.
func (s *socket) shutdown(read, write bool) error {
	if s.protocol == net.UDP && !s.peer.IsValid() || s.protocol == net.TCP && s.conn == nil {
		return fs.NotConn
	}
	if write && s.conn != nil {
		// Reading is not shut down on the host: it would make the peer's writing fail, which it does not with TCP.
		if err := unix.Shutdown(s.conn.FD, unix.SHUT_WR); err != nil {
			return err
		}
	}
	s.noRead, s.noWrite = s.noRead || read, s.noWrite || write
	return nil
}
