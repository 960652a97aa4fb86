//go:build linux

package net

import (
	"math/rand/v2"

	"golang.org/x/sys/unix"
)

// The ports that are given out where none was asked for, as Linux has them.
const (
	firstEphemeral = 32768
	lastEphemeral  = 60999
)

// claims are the ports that this network holds, each by a lock on a byte of a file that the pod's containers share.
type claims struct {
	fd int
	// id tells this file from that of another pod.
	id uint64
	// held says what this network holds itself: its own locks do not stand in its way. next is the port that is tried
	// first where any will do; it starts anywhere, so that two containers seldom try the same.
	held map[claim]bool
	next uint16
}

// claim is a port.
type claim struct {
	protocol Protocol
	port     uint16
}

func openClaims(path string) (claims, error) {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return claims{fd: -1}, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		_ = unix.Close(fd)
		return claims{fd: -1}, err
	}
	const span = lastEphemeral - firstEphemeral + 1
	return claims{fd: fd, id: st.Ino, held: map[claim]bool{}, next: firstEphemeral + uint16(rand.IntN(span))}, nil
}

// take claims a port, or a free one for 0.
func (c *claims) take(protocol Protocol, port uint16) (uint16, error) {
	if port != 0 {
		return port, c.lock(claim{protocol, port})
	}
	for range lastEphemeral - firstEphemeral + 1 {
		port := c.ephemeral()
		if err := c.lock(claim{protocol, port}); err != unix.EADDRINUSE {
			return port, err
		}
	}
	return 0, unix.EADDRINUSE
}

// ephemeral returns the next port to try.
func (c *claims) ephemeral() uint16 {
	port := c.next
	c.next++
	if c.next > lastEphemeral {
		c.next = firstEphemeral
	}
	return port
}

func (c *claims) lock(p claim) error {
	if c.held[p] {
		return unix.EADDRINUSE
	}
	switch err := c.set(p, unix.F_WRLCK); err {
	case nil:
		c.held[p] = true
		return nil
	case unix.EAGAIN, unix.EACCES:
		return unix.EADDRINUSE
	default:
		return err
	}
}

func (c *claims) release(protocol Protocol, port uint16) {
	p := claim{protocol, port}
	delete(c.held, p)
	// Unlocking fails for want of memory alone; the end of the process unlocks too.
	_ = c.set(p, unix.F_UNLCK)
}

func (c *claims) set(p claim, kind int16) error {
	at := int64(p.port)
	if p.protocol == UDP {
		at += 1 << 16
	}
	return unix.FcntlFlock(uintptr(c.fd), unix.F_OFD_SETLK, &unix.Flock_t{Type: kind, Whence: unix.SEEK_SET, Start: at, Len: 1})
}

func (c *claims) close() error {
	if c.fd < 0 {
		return nil
	}
	fd := c.fd
	c.fd = -1
	return unix.Close(fd)
}
