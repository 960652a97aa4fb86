package edgepod

import (
	"errors"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"time"
)

// conn is a connected socket. Waiting and deadlines are those of its file.
type conn struct {
	network     string
	local, peer netip.AddrPort
	file        *os.File
}

func newConn(network string, fd int) *conn {
	c := &conn{network: network, file: os.NewFile(uintptr(fd), network)}
	c.learn(fd)
	return c
}

// learn asks for the two addresses.
func (c *conn) learn(fd int) {
	local, peer := ends(fd)
	c.local = local
	if peer.IsValid() {
		c.peer = peer
	}
}

// opError makes an error such as package net's, nil of nil.
func opError(op, network string, source, addr net.Addr, err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	if path := (*fs.PathError)(nil); errors.As(err, &path) {
		err = path.Err
	}
	if errors.Is(err, os.ErrClosed) {
		err = net.ErrClosed
	}
	return &net.OpError{Op: op, Net: network, Source: source, Addr: addr, Err: err}
}

func (c *conn) failed(op string, err error) error {
	return opError(op, c.network, c.LocalAddr(), c.RemoteAddr(), err)
}

// Read implements net.Conn.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.file.Read(p)
	return n, c.failed("read", err)
}

// Write implements net.Conn.
func (c *conn) Write(p []byte) (int, error) {
	n, err := c.file.Write(p)
	return n, c.failed("write", err)
}

// Close implements net.Conn.
func (c *conn) Close() error { return c.failed("close", c.file.Close()) }

// CloseWrite tells the peer that no more comes.
func (c *conn) CloseWrite() error {
	raw, err := c.file.SyscallConn()
	if err != nil {
		return c.failed("close", err)
	}
	var refused error
	err = raw.Control(func(fd uintptr) { refused = check(sockShutdown(int32(fd), shutWrite)) })
	return c.failed("close", errors.Join(err, os.NewSyscallError("shutdown", refused)))
}

// LocalAddr implements net.Conn.
func (c *conn) LocalAddr() net.Addr { return net.TCPAddrFromAddrPort(c.local) }

// RemoteAddr implements net.Conn.
func (c *conn) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(c.peer) }

// SetDeadline implements net.Conn.
func (c *conn) SetDeadline(t time.Time) error { return c.failed("set", c.file.SetDeadline(t)) }

// SetReadDeadline implements net.Conn.
func (c *conn) SetReadDeadline(t time.Time) error { return c.failed("set", c.file.SetReadDeadline(t)) }

// SetWriteDeadline implements net.Conn.
func (c *conn) SetWriteDeadline(t time.Time) error {
	return c.failed("set", c.file.SetWriteDeadline(t))
}
