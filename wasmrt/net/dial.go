//go:build linux

package net

import (
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// dialing is a connection that is being made:
//
//	Finish ── connect ──► connected, or refused
//	  ▲          └─ the listener's queue is full ──► EAGAIN; the timer tells when to try again, for two minutes
//	  └───────────────────────────────────────────────┘
type dialing struct {
	local    *Local
	fd       int
	from, to netip.AddrPort
	// timer is a timerfd, negative while none was needed.
	timer int
	pause time.Duration
	until time.Time
}

// The time between two tries where a listener's queue is full, and how long it is tried.
const (
	firstPause  = time.Millisecond
	lastPause   = 100 * time.Millisecond
	dialTimeout = 2 * time.Minute
)

// Dial connects to a TCP port of the pod.
func (l *Local) Dial(from, to netip.AddrPort) (Pending[*Conn], error) {
	to = destination(to)
	if !l.isOwn(to.Addr()) {
		return nil, unix.ENETUNREACH
	}
	fd, err := socket(unix.SOCK_STREAM)
	if err != nil {
		return nil, err
	}
	d := &dialing{local: l, fd: fd, to: to, timer: -1}
	if err := d.name(from); err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	return d, nil
}

// name gives the socket a name that tells the listener who connects. The kernel keeps names apart, and forgets them with
// their socket.
func (d *dialing) name(from netip.AddrPort) error {
	addr, port := source(d.to.Addr()), from.Port()
	if ip := from.Addr().Unmap(); ip.IsValid() && !ip.IsUnspecified() {
		addr = ip
	}
	for range lastEphemeral - firstEphemeral + 1 {
		if from.Port() == 0 {
			port = d.local.claims.ephemeral()
		}
		d.from = netip.AddrPortFrom(addr, port)
		name := make([]byte, 0, maxPath)
		name = append(name, "@edgepod/"...)
		// The port that is connected to is part of the name, as a pair of addresses names a connection.
		name = d.to.AppendTo(name)
		name = append(name, '/')
		name = d.from.AppendTo(name)
		err := unix.Bind(d.fd, &unix.SockaddrUnix{Name: string(name)})
		if err != unix.EADDRINUSE {
			return err
		}
		if from.Port() != 0 {
			return unix.EADDRINUSE
		}
	}
	return unix.EADDRNOTAVAIL
}

func (d *dialing) FD() int { return d.timer }

func (d *dialing) Finish() (*Conn, error) {
	err := d.connect(false)
	if d.to.Addr().IsLoopback() && err == unix.ECONNREFUSED {
		err = d.connect(true)
	}
	switch err {
	case nil:
		conn := &Conn{FD: d.fd, Local: d.from, Remote: d.to}
		d.fd = -1
		return conn, nil
	case unix.EAGAIN:
		return nil, d.again()
	}
	return nil, err
}

// connect tries one of the two names that a port may have.
func (d *dialing) connect(loopback bool) error {
	for {
		err := unix.Connect(d.fd, &unix.SockaddrUnix{Name: d.local.path(TCP, d.to.Port(), loopback)})
		switch err {
		case unix.EINTR:
			continue
		case unix.ENOENT, unix.EACCES:
			return unix.ECONNREFUSED
		}
		return err
	}
}

// again sets the timer for the next try.
func (d *dialing) again() error {
	if d.timer < 0 {
		fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
		if err != nil {
			return err
		}
		d.timer, d.pause, d.until = fd, firstPause, time.Now().Add(dialTimeout)
	}
	if time.Now().After(d.until) {
		return unix.ETIMEDOUT
	}
	next := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d.pause))}
	if err := unix.TimerfdSettime(d.timer, 0, &next, nil); err != nil {
		return err
	}
	d.pause = min(2*d.pause, lastPause)
	return unix.EAGAIN
}

func (d *dialing) Close() error {
	var first error
	for _, fd := range []*int{&d.fd, &d.timer} {
		if *fd < 0 {
			continue
		}
		if err := unix.Close(*fd); first == nil {
			first = err
		}
		*fd = -1
	}
	return first
}
