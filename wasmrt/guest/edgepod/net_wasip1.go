package edgepod

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
)

// parse splits an address into a host and a port, which must be a number: names of services are not known.
func parse(network, address string) (host string, port uint16, err error) {
	if network != "tcp" && network != "tcp4" && network != "tcp6" {
		return "", 0, net.UnknownNetworkError(network)
	}
	host, service, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, err
	}
	number, err := strconv.ParseUint(service, 10, 16)
	if err != nil {
		return "", 0, &net.AddrError{Err: "port must be a number", Addr: address}
	}
	return host, uint16(number), nil
}

// resolve returns the addresses that a host has in a network; there is one, or an error.
func resolve(network, host string) ([]netip.Addr, error) {
	ip, err := netip.ParseAddr(host)
	all := []netip.Addr{ip.Unmap()}
	if err != nil {
		if all, err = lookup(host); err != nil {
			return nil, &net.DNSError{Err: err.Error(), Name: host, IsNotFound: errors.Is(err, errNoHost)}
		}
	}
	var fit []netip.Addr
	for _, ip := range all {
		if network == "tcp" || ip.Is4() == (network == "tcp4") {
			fit = append(fit, ip)
		}
	}
	if len(fit) == 0 {
		return nil, &net.AddrError{Err: "no suitable address", Addr: host}
	}
	return fit, nil
}

func listen(network, address string) (net.Listener, error) {
	host, port, err := parse(network, address)
	if err != nil {
		return nil, opError("listen", network, nil, nil, err)
	}
	ip := netip.IPv6Unspecified()
	if network == "tcp4" {
		ip = netip.IPv4Unspecified()
	}
	if host != "" {
		all, err := resolve(network, host)
		if err != nil {
			return nil, opError("listen", network, nil, nil, err)
		}
		ip = all[0]
	}
	l := &listener{network: network, at: netip.AddrPortFrom(ip, port)}
	if err := l.begin(); err != nil {
		return nil, opError("listen", network, nil, l.Addr(), err)
	}
	return l, nil
}

// listener is a listening socket.
type listener struct {
	network string
	at      netip.AddrPort
	file    *os.File
	closed  atomic.Bool
}

func (l *listener) begin() error {
	fd, err := open(l.at.Addr())
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	file := os.NewFile(uintptr(fd), l.at.String())
	err = os.NewSyscallError("bind", bind(fd, l.at))
	if err == nil {
		err = os.NewSyscallError("listen", check(sockListen(int32(fd), 128)))
	}
	if err != nil {
		_ = file.Close() // what failed is told
		return err
	}
	if local, _ := ends(fd); local.IsValid() {
		l.at = local
	}
	l.file = file
	return nil
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	raw, err := l.file.SyscallConn()
	if err != nil {
		return nil, opError("accept", l.network, nil, l.Addr(), err)
	}
	fd := -1
	var refused error
	err = raw.Read(func(s uintptr) bool {
		fd, refused = accept(int(s))
		return refused != syscall.EAGAIN && refused != syscall.EINTR
	})
	if err == nil { // else it has not come to an end
		err = os.NewSyscallError("accept", refused)
	}
	if err != nil && l.closed.Load() {
		err = net.ErrClosed
	}
	if err != nil {
		return nil, opError("accept", l.network, nil, l.Addr(), err)
	}
	return newConn(l.network, fd), nil
}

// Close implements net.Listener.
func (l *listener) Close() error {
	l.closed.Store(true)
	return opError("close", l.network, nil, l.Addr(), l.file.Close())
}

// Addr implements net.Listener.
func (l *listener) Addr() net.Addr { return net.TCPAddrFromAddrPort(l.at) }

// SetDeadline is for Accept.
func (l *listener) SetDeadline(t time.Time) error { return l.file.SetDeadline(t) }

func dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := parse(network, address)
	if err != nil {
		return nil, opError("dial", network, nil, nil, err)
	}
	if host == "" {
		host = "localhost"
	}
	all, err := resolve(network, host)
	if err != nil {
		return nil, opError("dial", network, nil, nil, err)
	}
	var first error
	for _, ip := range all {
		to := netip.AddrPortFrom(ip, port)
		c, err := dialOne(ctx, network, to)
		if err == nil {
			return c, nil
		}
		if first == nil {
			first = opError("dial", network, nil, net.TCPAddrFromAddrPort(to), err)
		}
	}
	return nil, first
}

func dialOne(ctx context.Context, network string, to netip.AddrPort) (net.Conn, error) {
	fd, err := open(to.Addr())
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	c := &conn{network: network, peer: to, file: os.NewFile(uintptr(fd), to.String())}
	if err := c.connect(ctx, fd, to); err != nil {
		_ = c.file.Close() // what failed is told
		return nil, err
	}
	c.learn(fd)
	return c, nil
}

// connect waits until the socket is connected or ctx ends.
func (c *conn) connect(ctx context.Context, fd int, to netip.AddrPort) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	err := connect(fd, to)
	if err != syscall.EINPROGRESS {
		return os.NewSyscallError("connect", err)
	}
	raw, err := c.file.SyscallConn()
	if err != nil {
		return err
	}
	interrupted := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = c.file.SetWriteDeadline(time.Unix(1, 0)) // a file that waits has deadlines
		close(interrupted)
	})
	first := true
	waited := raw.Write(func(uintptr) bool {
		if first { // it has to be waited for once
			first = false
			return false
		}
		err = pending(fd)
		return err != syscall.EINPROGRESS && err != syscall.EALREADY
	})
	if !stop() {
		<-interrupted
		return ctx.Err()
	}
	if waited != nil {
		return waited
	}
	return os.NewSyscallError("connect", err)
}
