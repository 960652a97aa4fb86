//go:build wasip1

package net

import (
	"runtime"
	"syscall"
	"unsafe"
)

// The host's socket calls are those of WasmEdge, second version. Every one answers with an error number of WASI, which
// is what syscall.Errno is here. A pointer that is passed lets its target escape, so what lies there does not move.

//go:wasmimport wasi_snapshot_preview1 sock_open
func hostOpen(family, kind int32, fd unsafe.Pointer) uint32

//go:wasmimport wasi_snapshot_preview1 sock_bind
func hostBind(fd int32, addr unsafe.Pointer, port uint32) uint32

//go:wasmimport wasi_snapshot_preview1 sock_listen
func hostListen(fd, backlog int32) uint32

//go:wasmimport wasi_snapshot_preview1 sock_connect
func hostConnect(fd int32, addr unsafe.Pointer, port uint32) uint32

//go:wasmimport wasi_snapshot_preview1 sock_getlocaladdr
func hostLocalAddr(fd int32, addr, port unsafe.Pointer) uint32

//go:wasmimport wasi_snapshot_preview1 sock_getpeeraddr
func hostPeerAddr(fd int32, addr, port unsafe.Pointer) uint32

//go:wasmimport wasi_snapshot_preview1 sock_getsockopt
func hostGetOption(fd, level, name int32, value, size unsafe.Pointer) uint32

//go:wasmimport wasi_snapshot_preview1 sock_setsockopt
func hostSetOption(fd, level, name int32, value unsafe.Pointer, size uint32) uint32

//go:wasmimport wasi_snapshot_preview1 sock_recv_from
func hostReceive(
	fd int32, vectors unsafe.Pointer, count uint32, addr unsafe.Pointer, flags uint32, port, n, outFlags unsafe.Pointer,
) uint32

//go:wasmimport wasi_snapshot_preview1 sock_send_to
func hostSend(
	fd int32, vectors unsafe.Pointer, count uint32, addr unsafe.Pointer, port, flags uint32, n unsafe.Pointer,
) uint32

//go:wasmimport wasi_snapshot_preview1 sock_getaddrinfo
func hostLookup(
	node unsafe.Pointer, nodeSize uint32, service unsafe.Pointer, serviceSize uint32,
	hints, results unsafe.Pointer, most uint32, count unsafe.Pointer,
) uint32

// Numbers of the host's calls.
const (
	hostInet4, hostInet6     = 1, 2
	hostDatagram, hostStream = 1, 2

	hostSocketLevel                                 = 0
	hostError, hostSendBuffer, hostReceiveBuffer    = 2, 5, 6
	hostReuseAddress, hostKeepAlive, hostLinger     = 0, 7, 9
	hostAddressTry, hostNoAddress, hostNoName       = 78, 83, 84
	hostAddressSize, hostInet4Size, hostInet6Size   = 128, 4, 16
	hostInfoSize, hostSockaddrSize, hostSockaddrMax = 28, 12, 26
)

// hostVector is a buffer as the host sees it: an address in the guest's memory, and a size.
type hostVector struct{ at, size uint32 }

// escape is never written. That it might be keeps what is told to the host by number on the heap, where it stays in place.
var escape struct {
	happens bool
	pointer unsafe.Pointer
}

// vector tells where b is. Whoever uses it keeps b alive.
func vector(b []byte) hostVector {
	p := unsafe.Pointer(unsafe.SliceData(b))
	if escape.happens {
		escape.pointer = p
	}
	return hostVector{uint32(uintptr(p)), uint32(len(b))}
}

// hostAddress is an address as the host takes and gives it.
type hostAddress struct {
	vector hostVector
	port   uint32
	bytes  [hostAddressSize]byte
}

// newHostAddress spells an address of a socket for the host; nil makes room for one that the host fills in.
func newHostAddress(sa syscall.Sockaddr) *hostAddress {
	a := new(hostAddress)
	size := hostAddressSize
	switch sa := sa.(type) {
	case *syscall.SockaddrInet4:
		size, a.port = copy(a.bytes[:], sa.Addr[:]), uint32(sa.Port)
	case *syscall.SockaddrInet6:
		size, a.port = copy(a.bytes[:], sa.Addr[:]), uint32(sa.Port)
	}
	a.vector = vector(a.bytes[:size])
	return a
}

// sockaddr reads what the host filled in, for a socket of this family.
func (a *hostAddress) sockaddr(family int) (syscall.Sockaddr, error) {
	port := int(a.port & 0xffff)
	switch kind := uint16(a.bytes[0]) | uint16(a.bytes[1])<<8; kind {
	case hostInet4:
		ip := IP(a.bytes[2 : 2+hostInet4Size])
		if family == syscall.AF_INET6 {
			return &syscall.SockaddrInet6{Port: port, Addr: [16]byte(ip.To16())}, nil
		}
		return &syscall.SockaddrInet4{Port: port, Addr: [4]byte(ip)}, nil
	case hostInet6:
		ip := IP(a.bytes[2 : 2+hostInet6Size])
		if ip4 := ip.To4(); family == syscall.AF_INET && ip4 != nil {
			return &syscall.SockaddrInet4{Port: port, Addr: [4]byte(ip4)}, nil
		}
		return &syscall.SockaddrInet6{Port: port, Addr: [16]byte(ip)}, nil
	}
	return nil, syscall.EAFNOSUPPORT
}

// check makes an error of the host's answer.
func check(errno uint32) error {
	if errno == 0 {
		return nil
	}
	return syscall.Errno(errno)
}

// sysSocket makes a non-blocking socket.
func sysSocket(family, sotype, proto int) (int, error) {
	hostFamily, hostKind := int32(hostInet4), int32(hostStream)
	switch family {
	case syscall.AF_INET:
	case syscall.AF_INET6:
		hostFamily = hostInet6
	default:
		return -1, syscall.EAFNOSUPPORT
	}
	switch sotype {
	case syscall.SOCK_STREAM:
	case syscall.SOCK_DGRAM:
		hostKind = hostDatagram
	default:
		return -1, syscall.EPROTONOSUPPORT
	}
	fd := new(int32)
	if err := check(hostOpen(hostFamily, hostKind, unsafe.Pointer(fd))); err != nil {
		return -1, err
	}
	if err := syscall.SetNonblock(int(*fd), true); err != nil {
		_ = syscall.Close(int(*fd))
		return -1, err
	}
	return int(*fd), nil
}

func sysBind(fd int, sa syscall.Sockaddr) error {
	a := newHostAddress(sa)
	return check(hostBind(int32(fd), unsafe.Pointer(&a.vector), a.port))
}

func sysConnect(fd int, sa syscall.Sockaddr) error {
	a := newHostAddress(sa)
	return check(hostConnect(int32(fd), unsafe.Pointer(&a.vector), a.port))
}

// sysAddress asks for one of a socket's own two addresses.
func sysAddress(fd, family int, ask func(int32, unsafe.Pointer, unsafe.Pointer) uint32) (syscall.Sockaddr, error) {
	a := newHostAddress(nil)
	if err := check(ask(int32(fd), unsafe.Pointer(&a.vector), unsafe.Pointer(&a.port))); err != nil {
		return nil, err
	}
	return a.sockaddr(family)
}

// sysOption reads an option that is a number.
func sysOption(fd int, name int32) (int32, error) {
	value := &struct{ value, size int32 }{size: 4}
	err := check(hostGetOption(int32(fd), hostSocketLevel, name, unsafe.Pointer(&value.value), unsafe.Pointer(&value.size)))
	return value.value, err
}

// sysSetOption sets an option whose value is numbers, one after the other.
func sysSetOption(fd int, name int32, values ...int32) error {
	return check(hostSetOption(int32(fd), hostSocketLevel, name, unsafe.Pointer(unsafe.SliceData(values)), uint32(4*len(values))))
}

// message is what one datagram's call needs, in one piece. Of flags the host writes the lower half alone.
type message struct {
	data     hostVector
	n, flags uint32
}

func sysReceive(fd int, b []byte, family int) (n, flags int, from syscall.Sockaddr, err error) {
	a, m := newHostAddress(nil), &message{data: vector(b)}
	errno := hostReceive(int32(fd), unsafe.Pointer(&m.data), 1, unsafe.Pointer(&a.vector), 0,
		unsafe.Pointer(&a.port), unsafe.Pointer(&m.n), unsafe.Pointer(&m.flags))
	runtime.KeepAlive(b)
	if err := check(errno); err != nil {
		return 0, 0, nil, err
	}
	from, err = a.sockaddr(family)
	return int(m.n), int(m.flags & 0xffff), from, err
}

func sysSend(fd int, b []byte, to syscall.Sockaddr) (int, error) {
	a, m := newHostAddress(to), &message{data: vector(b)}
	errno := hostSend(int32(fd), unsafe.Pointer(&m.data), 1, unsafe.Pointer(&a.vector), a.port, 0, unsafe.Pointer(&m.n))
	runtime.KeepAlive(b)
	return int(m.n), check(errno)
}
