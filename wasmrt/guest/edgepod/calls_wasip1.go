package edgepod

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"runtime"
	"syscall"
	"unsafe"
)

// The host's socket calls: those of WasmEdge, second version. Each answers with an error number of WASI, which is what
// syscall.Errno is here. What a call is given a pointer to escapes to the heap, and so does not move.

//go:wasmimport wasi_snapshot_preview1 sock_open
func sockOpen(family, kind int32, fd unsafe.Pointer) uint32

//go:wasmimport wasi_snapshot_preview1 sock_bind
func sockBind(fd int32, addr unsafe.Pointer, port uint32) uint32

//go:wasmimport wasi_snapshot_preview1 sock_listen
func sockListen(fd, backlog int32) uint32

//go:wasmimport wasi_snapshot_preview1 sock_accept
func sockAccept(fd, flags int32, accepted unsafe.Pointer) uint32

//go:wasmimport wasi_snapshot_preview1 sock_connect
func sockConnect(fd int32, addr unsafe.Pointer, port uint32) uint32

//go:wasmimport wasi_snapshot_preview1 sock_shutdown
func sockShutdown(fd, how int32) uint32

//go:wasmimport wasi_snapshot_preview1 sock_getlocaladdr
func sockLocalAddr(fd int32, addr, port unsafe.Pointer) uint32

//go:wasmimport wasi_snapshot_preview1 sock_getpeeraddr
func sockPeerAddr(fd int32, addr, port unsafe.Pointer) uint32

//go:wasmimport wasi_snapshot_preview1 sock_getsockopt
func sockOption(fd, level, name int32, value, size unsafe.Pointer) uint32

//go:wasmimport wasi_snapshot_preview1 sock_getaddrinfo
func sockLookup(
	node unsafe.Pointer, nodeSize uint32, service unsafe.Pointer, serviceSize uint32,
	hints, results unsafe.Pointer, most uint32, count unsafe.Pointer,
) uint32

// Numbers of the calls.
const (
	inet4, inet6 = 1, 2
	stream       = 2
	optionError  = 2
	shutWrite    = 2
	noName       = 84
)

// address is an address as the host takes and gives it: where its bytes are and how many, its port, and the bytes.
type address struct {
	at, size uint32
	port     uint32
	bytes    [128]byte
}

// newAddress spells an address for the host; an invalid one makes room for one that the host fills in.
func newAddress(from netip.AddrPort) *address {
	a := &address{port: uint32(from.Port())}
	a.size = uint32(copy(a.bytes[:], from.Addr().AsSlice()))
	if !from.IsValid() {
		a.size = uint32(len(a.bytes))
	}
	a.at = where(unsafe.Pointer(&a.bytes))
	return a
}

// where tells what an address in memory is for the host.
func where(p unsafe.Pointer) uint32 { return uint32(uintptr(p)) }

// read returns what the host filled in.
func (a *address) read() netip.AddrPort {
	size := 4
	if binary.LittleEndian.Uint16(a.bytes[:]) == inet6 {
		size = 16
	}
	ip, _ := netip.AddrFromSlice(a.bytes[2 : 2+size])
	return netip.AddrPortFrom(ip.Unmap(), uint16(a.port))
}

func check(errno uint32) error {
	if errno == 0 {
		return nil
	}
	return syscall.Errno(errno)
}

// nonblocking makes a descriptor one that does not block, or closes it.
func nonblocking(fd int32) (int, error) {
	if err := setNonblock(int(fd)); err != nil {
		_ = syscall.Close(int(fd))
		return -1, err
	}
	return int(fd), nil
}

// open makes a socket that does not block.
func open(of netip.Addr) (int, error) {
	fd, family := new(int32), int32(inet4)
	if of.Is6() {
		family = inet6
	}
	if err := check(sockOpen(family, stream, unsafe.Pointer(fd))); err != nil {
		return -1, err
	}
	return nonblocking(*fd)
}

func bind(fd int, at netip.AddrPort) error {
	a := newAddress(at)
	return check(sockBind(int32(fd), unsafe.Pointer(a), a.port))
}

func connect(fd int, to netip.AddrPort) error {
	a := newAddress(to)
	return check(sockConnect(int32(fd), unsafe.Pointer(a), a.port))
}

// accept returns the descriptor of a connection, which does not block.
func accept(fd int) (int, error) {
	accepted := new(int32)
	if err := check(sockAccept(int32(fd), 0, unsafe.Pointer(accepted))); err != nil {
		return -1, err
	}
	return nonblocking(*accepted)
}

// ends returns the two addresses of a connection, as far as the host tells them.
func ends(fd int) (local, peer netip.AddrPort) {
	a, b := newAddress(netip.AddrPort{}), newAddress(netip.AddrPort{})
	if sockLocalAddr(int32(fd), unsafe.Pointer(a), unsafe.Pointer(&a.port)) == 0 {
		local = a.read()
	}
	if sockPeerAddr(int32(fd), unsafe.Pointer(b), unsafe.Pointer(&b.port)) == 0 {
		peer = b.read()
	}
	return local, peer
}

// pending returns how a connect that was under way has ended.
func pending(fd int) error {
	value := &struct{ value, size int32 }{size: 4}
	if err := check(sockOption(int32(fd), 0, optionError, unsafe.Pointer(&value.value), unsafe.Pointer(&value.size))); err != nil {
		return err
	}
	return check(uint32(value.value))
}

// info is an entry of a name's answer, and sockaddr the address in it, of which data has 26 bytes: port and address.
type info struct {
	flags                  uint16
	family, kind, protocol uint8
	size                   uint32
	addr                   uint32
	name, nameSize         uint32
	next                   uint32
}

type sockaddr struct {
	family uint8
	size   uint32
	data   uint32
}

// errNoHost tells that a name has no addresses.
var errNoHost = errors.New("no such host")

// lookup asks the host for the addresses of a name.
func lookup(name string) ([]netip.Addr, error) {
	const most = 8
	answer := new(struct {
		entries      [most]info
		addrs        [most]sockaddr
		data         [most][26]byte
		hints        info
		first, count uint32
	})
	for i := range most {
		answer.addrs[i] = sockaddr{size: 26, data: where(unsafe.Pointer(&answer.data[i]))}
		answer.entries[i] = info{size: 26, addr: where(unsafe.Pointer(&answer.addrs[i]))}
		if i > 0 {
			answer.entries[i-1].next = where(unsafe.Pointer(&answer.entries[i]))
		}
	}
	answer.hints.kind = stream
	answer.first = where(unsafe.Pointer(&answer.entries))
	node := []byte(name)
	errno := sockLookup(unsafe.Pointer(unsafe.SliceData(node)), uint32(len(node)), nil, 0,
		unsafe.Pointer(&answer.hints), unsafe.Pointer(&answer.first), most, unsafe.Pointer(&answer.count))
	runtime.KeepAlive(answer)
	if errno == noName || errno == 0 && answer.count == 0 {
		return nil, errNoHost
	}
	if err := check(errno); err != nil {
		return nil, err
	}
	var found []netip.Addr
	for i := range min(answer.count, most) {
		size := 4
		if answer.entries[i].family == inet6 {
			size = 16
		}
		ip, _ := netip.AddrFromSlice(answer.data[i][2 : 2+size])
		found = append(found, ip)
	}
	return found, nil
}
