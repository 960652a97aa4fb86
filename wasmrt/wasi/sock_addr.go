//go:build linux

package wasi

import (
	"encoding/binary"
	"net/netip"

	"edgepod/wasmrt/fs"
)

// The families of addresses.
const (
	familyUnspec = 0
	familyINET4  = 1
	familyINET6  = 2
)

func familyOf(ip netip.Addr) uint8 {
	if ip.Is4() {
		return familyINET4
	}
	return familyINET6
}

// The sizes of a guest's buffer for an address: version 1 of the extension has one of the first two, which holds the
// bytes of an address, version 2 the third, which begins with the family in 16 bits. Each function takes all of them.
const (
	sizeINET4 = 4
	sizeINET6 = 16
	sizeWide  = 128
)

// guestAddr is a guest's buffer for an address.
type guestAddr []byte

// addrAt returns the buffer that is described at p by its address and size. An empty one is nil.
func addrAt(mem guestMemory, p uint32) (guestAddr, error) {
	b, err := view(mem, p, 8)
	if err != nil {
		return nil, err
	}
	size := binary.LittleEndian.Uint32(b[4:])
	switch size {
	case 0:
		return nil, nil
	case sizeINET4, sizeINET6, sizeWide:
		return view(mem, binary.LittleEndian.Uint32(b), size)
	}
	return nil, fs.Inval
}

// get reads an address; the zero value stands for the unspecified family.
func (a guestAddr) get() (netip.Addr, error) {
	family, b := uint16(0), []byte(a)
	switch len(a) {
	case sizeINET4:
		family = familyINET4
	case sizeINET6:
		family = familyINET6
	case sizeWide:
		family, b = binary.LittleEndian.Uint16(a), b[2:]
	}
	switch family {
	case familyUnspec:
		return netip.Addr{}, nil
	case familyINET4:
		return netip.AddrFrom4([4]byte(b)), nil
	case familyINET6:
		return netip.AddrFrom16([16]byte(b)), nil
	}
	return netip.Addr{}, fs.AFNoSupport
}

// fits tells whether an address of the socket's family has room.
func (a guestAddr) fits(s *socket) bool {
	return len(a) >= sizeINET6 || s.family == familyINET4 && len(a) >= sizeINET4
}

// put writes an address as the socket's family has it, or returns NoMem where it does not fit.
func (a guestAddr) put(s *socket, ip netip.Addr) error {
	if !a.fits(s) {
		return fs.NoMem
	}
	b := []byte(a)
	if len(a) == sizeWide {
		clear(a)
		binary.LittleEndian.PutUint16(a, uint16(s.family))
		b = a[2:]
	}
	ip = ip.Unmap()
	switch {
	case s.family == familyINET6:
		as := ip.As16()
		copy(b, as[:])
	case ip.Is4():
		as := ip.As4()
		copy(b, as[:])
	case ip.IsLoopback():
		// Both families are one localhost, and this socket knows of one alone.
		copy(b, []byte{127, 0, 0, 1})
	default:
		// A peer whose address this socket has no way to tell.
		clear(b[:sizeINET4])
	}
	return nil
}

// target reads the address of a bind, a connect or a send for a socket. An address of the other family is no use to it,
// except that IPv4 can be written as IPv6.
func (s *socket) target(a guestAddr, port uint32) (netip.AddrPort, error) {
	ip, err := a.get()
	switch {
	case err != nil:
		return netip.AddrPort{}, err
	case !ip.IsValid():
		return netip.AddrPort{}, nil
	case port > 0xffff:
		return netip.AddrPort{}, fs.Inval
	case s.family == familyINET4 && !ip.Unmap().Is4():
		return netip.AddrPort{}, fs.AFNoSupport
	}
	return netip.AddrPortFrom(ip, uint16(port)), nil
}
