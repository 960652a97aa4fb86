//go:build linux

package net

import (
	"errors"
	"net/netip"
)

// Protocol is what a port speaks, spelt as the API spells it.
type Protocol string

// The protocols.
const (
	TCP Protocol = "TCP"
	UDP Protocol = "UDP"
)

// ErrNotFound says that a name does not exist.
var ErrNotFound = errors.New("no such name")

// Network is what a guest's sockets are made from. Its errors are those of the host (unix.Errno) and ErrNotFound. Nothing
// of it blocks, every descriptor of the host is non-blocking, and it serves one goroutine at a time.
type Network interface {
	// Bind claims a TCP port on an address of the pod, or on all of them where the address is unspecified; port 0 is one
	// that is free. Connections are refused until Listen.
	Bind(at netip.AddrPort) (*Listener, error)
	// Dial begins to connect to a TCP port. from is the address that the caller has bound, or the zero value for any.
	Dial(from, to netip.AddrPort) (Pending[*Conn], error)
	// BindUDP claims a UDP port, as Bind does for TCP.
	BindUDP(at netip.AddrPort) (PacketConn, error)
	// Lookup begins to look up the addresses of a host's name.
	Lookup(name string) (Pending[[]netip.Addr], error)
}

// Pending is a result that may have to be waited for.
type Pending[T any] interface {
	// FD is a descriptor of the host that is readable when it is time to call Finish, or negative when it is already.
	FD() int
	// Finish returns the result, or EAGAIN while there is none. It is not called again after any other answer.
	Finish() (T, error)
	// Close gives up, and releases what is held. It may be called after Finish, and does not touch the result.
	Close() error
}

// PacketConn is a UDP socket.
type PacketConn interface {
	// FD is readable when there is a datagram. It is always ready for sending, and is the same until Close.
	FD() int
	// Addr is where it is bound.
	Addr() netip.AddrPort
	// Connect limits it to datagrams from one address; the zero value ends that. What has come before is not looked at.
	Connect(to netip.AddrPort) error
	// Send sends one datagram, and returns its size. A datagram that the receiver has no room for is lost; ECONNREFUSED says
	// that there is no receiver.
	Send(to netip.AddrPort, bufs [][]byte) (int, error)
	// Receive takes the first datagram, or leaves it where it is with peek. EAGAIN says that there is none.
	Receive(bufs [][]byte, peek bool) (Packet, error)
	Close() error
}

// Packet describes a datagram that was received.
type Packet struct {
	// Size is the datagram's own, which may be more than the buffers could take.
	Size int
	From netip.AddrPort
}

// Conn is a TCP connection. The caller reads and writes its descriptor, and closes it.
type Conn struct {
	FD            int
	Local, Remote netip.AddrPort
}

// done is a result that is there from the beginning.
type done[T any] struct{ value T }

// Done returns a Pending that need not be waited for.
func Done[T any](value T) Pending[T] { return done[T]{value} }

func (d done[T]) FD() int            { return -1 }
func (d done[T]) Finish() (T, error) { return d.value, nil }
func (d done[T]) Close() error       { return nil }
