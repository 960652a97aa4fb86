//go:build linux

package net

import (
	"net/netip"
	"strconv"
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
	until    time.Time
}

// The time between two tries where a listener's queue is full, and how long it is tried.
const (
	firstPause  = time.Millisecond
	lastPause   = 100 * time.Millisecond
	dialTimeout = 2 * time.Minute
)

// retry is when connections that wait for room in a listener's queue are tried again: all of them at once.
type retry struct {
	// fd is a timerfd, negative while none was needed; it is set for due, which is pause after it was set.
	fd    int
	pause time.Duration
	due   time.Time
}

// arm sets the timer, unless that runs already. The pause grows from one time to the next.
func (r *retry) arm(now time.Time) error {
	if now.Before(r.due) {
		return nil
	}
	if r.fd < 0 {
		fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
		if err != nil {
			return err
		}
		r.fd = fd
	}
	r.pause = min(max(2*r.pause, firstPause), lastPause)
	err := unix.TimerfdSettime(r.fd, 0, &unix.ItimerSpec{Value: unix.NsecToTimespec(int64(r.pause))}, nil)
	if err == nil {
		r.due = now.Add(r.pause)
	}
	return err
}

// reset has the next try come soon: a connection was made.
func (r *retry) reset() { r.pause, r.due = 0, time.Time{} }

func (r *retry) close() error {
	if r.fd < 0 {
		return nil
	}
	fd := r.fd
	r.fd = -1
	return unix.Close(fd)
}

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
	d := &dialing{local: l, fd: fd, to: to}
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
		// The pod and the port that is connected to are part of the name: pods may share the namespace of such names, and
		// two ports together name a connection.
		name = strconv.AppendUint(name, d.local.claims.id, 16)
		name = append(name, '/')
		name = strconv.AppendUint(name, uint64(d.to.Port()), 10)
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

func (d *dialing) FD() int { return d.local.retry.fd }

func (d *dialing) Finish() (*Conn, error) {
	err := d.connect(false)
	if d.to.Addr().IsLoopback() && err == unix.ECONNREFUSED {
		err = d.connect(true)
	}
	switch err {
	case nil:
		conn := &Conn{FD: d.fd, Local: d.from, Remote: d.to}
		d.fd = -1
		d.local.retry.reset()
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

// again has the connection tried again, unless that was done for long enough.
func (d *dialing) again() error {
	now := time.Now()
	switch {
	case d.until.IsZero():
		d.until = now.Add(dialTimeout)
	case now.After(d.until):
		return unix.ETIMEDOUT
	}
	if err := d.local.retry.arm(now); err != nil {
		return err
	}
	return unix.EAGAIN
}

func (d *dialing) Close() error {
	if d.fd < 0 {
		return nil
	}
	fd := d.fd
	d.fd = -1
	return unix.Close(fd)
}
