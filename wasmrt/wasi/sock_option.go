//go:build linux

package wasi

import (
	"encoding/binary"
	"math"
	"time"

	"golang.org/x/sys/unix"

	"edgepod/wasmrt/fs"
	"edgepod/wasmrt/net"
)

// The levels and options of the extension. At the level of TCP the options have Linux' numbers.
const (
	levelSocket = 0
	levelTCP    = 6

	optionReuseAddr      = 0
	optionType           = 1
	optionError          = 2
	optionSendBuffer     = 5
	optionReceiveBuffer  = 6
	optionLinger         = 9
	optionReceiveTimeout = 11
	optionSendTimeout    = 12
	optionAccepts        = 13
	// optionDevice and what follows do not exist in a pod.
	optionDevice = 14

	tcpOptions = 32
	// maxOption is the size of the largest value of an option, and less than any pointer to one.
	maxOption = 16
)

// options are what a guest has set for a socket. What has no meaning inside a pod is only remembered, as on a host's
// loopback.
type options struct {
	socket                      [optionDevice]int32
	tcp                         [tcpOptions]int32
	lingers                     int32
	receiveTimeout, sendTimeout time.Duration
}

// apply sets what holds for the connection fd.
func (o *options) apply(fd int) {
	if n := o.socket[optionSendBuffer]; n > 0 {
		// The size of a buffer is a wish.
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, int(n))
	}
}

// at returns where an option is kept that is a number, or an error.
func (o *options) at(level, name uint32) (*int32, error) {
	switch {
	case level == levelSocket && name < optionDevice:
		return &o.socket[name], nil
	case level == levelTCP && name < tcpOptions:
		return &o.tcp[name], nil
	}
	return nil, fs.NoProtoOpt
}

// timeout returns the time limit that an option sets, or nil for another option.
func (o *options) timeout(level, name uint32) *time.Duration {
	switch {
	case level != levelSocket:
		return nil
	case name == optionReceiveTimeout:
		return &o.receiveTimeout
	case name == optionSendTimeout:
		return &o.sendTimeout
	}
	return nil
}

func (h *Host) sockSetsockopt(mem guestMemory, p params) error {
	_, s, err := h.socket(p.u32(0), 0)
	if err != nil {
		return err
	}
	level, name, size := p.u32(1), p.u32(2), p.u32(4)
	if size > maxOption {
		return fs.Inval
	}
	b, err := view(mem, p.u32(3), size)
	if err != nil {
		return err
	}
	le := binary.LittleEndian
	if limit := s.options.timeout(level, name); limit != nil {
		return setTimeout(limit, b)
	}
	at, err := s.options.at(level, name)
	switch {
	case err != nil:
		return err
	case level == levelSocket && (name == optionType || name == optionError || name == optionAccepts):
		return fs.NoProtoOpt
	case len(b) < 4:
		return fs.Inval
	case level == levelSocket && name == optionLinger:
		if len(b) != 8 {
			return fs.Inval
		}
		s.options.lingers = int32(le.Uint32(b[4:]))
	}
	*at = int32(le.Uint32(b))
	if s.conn != nil && level == levelSocket && name == optionSendBuffer {
		s.options.apply(s.conn.FD)
	}
	return nil
}

// setTimeout reads seconds and microseconds, of 64 or 32 bits each; zero is no limit.
func setTimeout(limit *time.Duration, b []byte) error {
	var seconds, micros int64
	le := binary.LittleEndian
	switch len(b) {
	case 16:
		seconds, micros = int64(le.Uint64(b)), int64(le.Uint64(b[8:]))
	case 8:
		seconds, micros = int64(int32(le.Uint32(b))), int64(int32(le.Uint32(b[4:])))
	default:
		return fs.Inval
	}
	if seconds < 0 || micros < 0 || micros >= 1e6 {
		return fs.Dom
	}
	*limit = time.Duration(min(seconds, math.MaxInt64/int64(time.Second)-1))*time.Second + time.Duration(micros)*time.Microsecond
	return nil
}

// sockGetsockopt reads an option. The size of the guest's buffer is behind a pointer, or is the parameter itself where
// that is too small for a pointer: both are in use.
func (h *Host) sockGetsockopt(mem guestMemory, p params) error {
	_, s, err := h.socket(p.u32(0), 0)
	if err != nil {
		return err
	}
	size, pointer := p.u32(4), []byte(nil)
	if size > maxOption {
		if pointer, err = view(mem, size, 4); err != nil {
			return err
		}
		size = binary.LittleEndian.Uint32(pointer)
	}
	value, err := s.option(p.u32(1), p.u32(2))
	if err != nil {
		return err
	}
	value = value[:min(len(value), int(min(size, maxOption)))]
	out, err := view(mem, p.u32(3), uint32(len(value)))
	if err != nil {
		return err
	}
	if p.u32(1) == levelSocket && p.u32(2) == optionError {
		s.failed = nil
	}
	copy(out, value)
	if pointer != nil {
		binary.LittleEndian.PutUint32(pointer, uint32(len(value)))
	}
	return nil
}

// option returns the value of an option.
func (s *socket) option(level, name uint32) ([]byte, error) {
	le := binary.LittleEndian
	if limit := s.options.timeout(level, name); limit != nil {
		b := le.AppendUint64(nil, uint64(*limit/time.Second))
		return le.AppendUint64(b, uint64(*limit%time.Second/time.Microsecond)), nil
	}
	at, err := s.options.at(level, name)
	if err != nil {
		return nil, err
	}
	if level != levelSocket {
		return le.AppendUint32(nil, uint32(*at)), nil
	}
	value := *at
	switch name {
	case optionType:
		value = typeStream
		if s.protocol == net.UDP {
			value = typeDgram
		}
	case optionError:
		// Asking is also how a guest learns that a connection was made.
		s.progress()
		value = int32(fs.ErrnoOf(s.failed))
	case optionAccepts:
		value = 0
		if s.listening || s.preopened && s.protocol == net.TCP {
			value = 1
		}
	case optionLinger:
		return le.AppendUint32(le.AppendUint32(nil, uint32(value)), uint32(s.options.lingers)), nil
	case optionSendBuffer, optionReceiveBuffer:
		value = s.buffer(name, value)
	}
	return le.AppendUint32(nil, uint32(value)), nil
}

// buffer is the size of a buffer: the host's where there is one, or what was wished for.
func (s *socket) buffer(name uint32, wished int32) int32 {
	fd := -1
	switch {
	case s.conn != nil:
		fd = s.conn.FD
	case s.packets != nil:
		fd = s.packets.FD()
	case s.listener != nil:
		fd = s.listener.FD()
	}
	option := unix.SO_SNDBUF
	if name == optionReceiveBuffer {
		option = unix.SO_RCVBUF
	}
	if n, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, option); err == nil {
		return int32(min(n, math.MaxInt32))
	}
	if wished > 0 {
		return wished
	}
	const usual = 208 << 10
	return usual
}
