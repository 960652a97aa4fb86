//go:build linux

package net

import (
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// Config says what a pod's localhost is.
type Config struct {
	// Dir is the folder that the pod's containers share; "" is the working directory. Where it is long, make it the
	// working directory: the path of a socket has at most 107 bytes.
	Dir string
	// Hostname is the pod's own name, "" for none.
	Hostname string
	// Addrs are the pod's own addresses besides the loopback ones: it may bind to them, reaches itself through them, and
	// its name means them.
	Addrs []netip.Addr
}

// Local is a pod's own localhost. Whatever is beyond is unreachable, and only its own names exist.
type Local struct {
	cfg    Config
	dir    string
	claims claims
	retry  retry
}

var _ Network = (*Local)(nil)

// maxPath is what an address of a Unix socket has room for; longestName is the longest that we put into the folder.
const (
	maxPath     = 107
	longestName = "/tcp-65535.lo"
)

// Open opens the localhost in a folder that exists. Close it when all that was made with it is closed.
func Open(cfg Config) (*Local, error) {
	l := &Local{cfg: cfg, claims: claims{fd: -1}, retry: retry{fd: -1}}
	if dir := filepath.Clean(cfg.Dir); dir != "." {
		l.dir = dir + "/"
	}
	if len(l.dir)+len(longestName) > maxPath {
		return nil, fmt.Errorf("open network: the path of folder %s is too long for sockets", cfg.Dir)
	}
	l.cfg.Addrs = slices.Clone(cfg.Addrs)
	for i, a := range l.cfg.Addrs {
		l.cfg.Addrs[i] = a.Unmap()
	}
	var err error
	if l.claims, err = openClaims(l.dir + "ports"); err != nil {
		return nil, fmt.Errorf("open network: %sports: %w", l.dir, err)
	}
	return l, nil
}

// Close gives up the ports that are still held.
func (l *Local) Close() error { return errors.Join(l.claims.close(), l.retry.close()) }

// path is where the socket of a port is.
func (l *Local) path(protocol Protocol, port uint16, loopback bool) string {
	name := make([]byte, 0, maxPath+1)
	name = append(name, l.dir...)
	if protocol == TCP {
		name = append(name, "tcp-"...)
	} else {
		name = append(name, "udp-"...)
	}
	name = strconv.AppendUint(name, uint64(port), 10)
	if loopback {
		name = append(name, ".lo"...)
	}
	return string(name)
}

// claim claims a port to be bound to, and removes what a dead holder has left of it.
func (l *Local) claim(protocol Protocol, at netip.AddrPort) (addr netip.AddrPort, path string, err error) {
	ip := at.Addr().Unmap()
	if !ip.IsUnspecified() && !l.isOwn(ip) {
		return addr, "", unix.EADDRNOTAVAIL
	}
	port, err := l.claims.take(protocol, at.Port())
	if err != nil {
		return addr, "", err
	}
	for _, loopback := range []bool{true, false} {
		stale := l.path(protocol, port, loopback)
		if err := unix.Unlink(stale); err != nil && err != unix.ENOENT {
			l.claims.release(protocol, port)
			return addr, "", err
		}
	}
	return netip.AddrPortFrom(at.Addr(), port), l.path(protocol, port, ip.IsLoopback()), nil
}

// isOwn tells whether an address is the pod's.
func (l *Local) isOwn(ip netip.Addr) bool { return ip.IsLoopback() || slices.Contains(l.cfg.Addrs, ip) }

// destination brings an address that is to be reached into its plain form, in which 0.0.0.0 is localhost.
func destination(to netip.AddrPort) netip.AddrPort {
	ip := to.Addr().Unmap()
	if ip.IsUnspecified() {
		ip = loopbackOf(ip)
	}
	return netip.AddrPortFrom(ip.WithZone(""), to.Port())
}

// source is the pod's address from which an address is reached.
func source(to netip.Addr) netip.Addr {
	if to.IsLoopback() {
		return loopbackOf(to)
	}
	return to
}

// loopbackOf is localhost in the family of ip.
func loopbackOf(ip netip.Addr) netip.Addr {
	if ip.Is4() {
		return netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	return netip.IPv6Loopback()
}

// socket makes a Unix socket.
func socket(kind int) (int, error) {
	return unix.Socket(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
}
