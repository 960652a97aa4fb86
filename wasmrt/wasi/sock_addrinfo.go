//go:build linux

package wasi

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/netip"
	"strconv"

	"golang.org/x/sys/unix"

	"edgepod/wasmrt/fs"
	"edgepod/wasmrt/net"
)

// The errors of sock_getaddrinfo, which the extension adds to those of preview 1.
const (
	addrinfoAgain    fs.Errno = 78
	addrinfoBadFlags fs.Errno = 79
	addrinfoFamily   fs.Errno = 81
	addrinfoMemory   fs.Errno = 82
	addrinfoNoData   fs.Errno = 83
	addrinfoNoName   fs.Errno = 84
	addrinfoService  fs.Errno = 85
	addrinfoType     fs.Errno = 86
)

// The flags of sock_getaddrinfo.
const (
	addrinfoPassive        = 1
	addrinfoCanonicalName  = 2
	addrinfoNumericHost    = 4
	addrinfoNumericService = 8
	addrinfoAllFlags       = 127
)

// addrinfoSize is the size of an entry:
//
//	0  flags u16, family u8, type u8    12  address: pointer to {family u8, size u32, data: pointer}
//	4  protocol u8                      16  canonical name: pointer, size u32
//	8  size of the address u32          24  next entry: pointer
//
// The data of an address is its port, most significant byte first, and its bytes.
const addrinfoSize = 28

// The protocols.
const (
	protocolTCP = 1
	protocolUDP = 2
)

// hints are what a guest wants to know.
type hints struct {
	flags                 uint16
	family, typ, protocol uint8
}

// check tells whether the hints agree, as the C library does.
func (q hints) check(name string) error {
	switch {
	case q.flags&^addrinfoAllFlags != 0 || q.flags&addrinfoCanonicalName != 0 && name == "":
		return addrinfoBadFlags
	case q.family > familyINET6:
		return addrinfoFamily
	case q.typ > typeStream || q.protocol > protocolUDP:
		return addrinfoType
	case q.typ == typeStream && q.protocol == protocolUDP || q.typ == typeDgram && q.protocol == protocolTCP:
		return addrinfoType
	}
	return nil
}

// query is what a guest asks for, and where the answer goes.
type query struct {
	hints
	name  string
	port  uint16
	first uint32
	limit uint32
	count []byte
}

// sockGetaddrinfo looks up a name and a service. The guest has made a list of entries, which are filled in.
func (h *Host) sockGetaddrinfo(mem guestMemory, p params) error {
	q, err := queryAt(mem, p)
	if err != nil {
		return err
	}
	addrs, err := h.addresses(q.name, q.hints)
	if err != nil {
		return err
	}
	n, err := putAddrinfo(mem, q, addrs)
	if err != nil {
		return err
	}
	binary.LittleEndian.PutUint32(q.count, n)
	return nil
}

// queryAt reads the parameters of sock_getaddrinfo.
func queryAt(mem guestMemory, p params) (q query, err error) {
	var service string
	var hint, first []byte
	if q.name, err = nameAt(mem, p.u32(0), p.u32(1)); err != nil {
		return q, err
	}
	if service, err = nameAt(mem, p.u32(2), p.u32(3)); err != nil {
		return q, err
	}
	if hint, err = view(mem, p.u32(4), addrinfoSize); err != nil {
		return q, err
	}
	if first, err = view(mem, p.u32(5), 4); err != nil {
		return q, err
	}
	if q.count, err = view(mem, p.u32(7), 4); err != nil {
		return q, err
	}
	q.hints = hints{flags: binary.LittleEndian.Uint16(hint), family: hint[2], typ: hint[3], protocol: hint[4]}
	q.first, q.limit = binary.LittleEndian.Uint32(first), p.u32(6)
	switch {
	case q.name == "" && service == "":
		return q, addrinfoNoName
	case q.limit == 0:
		return q, addrinfoMemory
	}
	if err := q.check(q.name); err != nil {
		return q, err
	}
	q.port, err = portOf(service, q.hints)
	return q, err
}

// maxName is the longest name that is looked up.
const maxName = 255

// nameAt reads a name, which may end with a zero byte.
func nameAt(mem guestMemory, p, n uint32) (string, error) {
	b, err := view(mem, p, n)
	if err != nil {
		return "", err
	}
	b = b[:min(len(b), maxName+1)]
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	if len(b) > maxName {
		return "", addrinfoNoName
	}
	return string(b), nil
}

// portOf returns the port of a service, which is a number or one of the few names that programs use.
func portOf(service string, q hints) (uint16, error) {
	if service == "" {
		return 0, nil
	}
	if n, err := strconv.ParseUint(service, 10, 16); err == nil {
		return uint16(n), nil
	}
	if q.flags&addrinfoNumericService != 0 {
		return 0, addrinfoNoName
	}
	switch service {
	case "ftp":
		return 21, nil
	case "ssh":
		return 22, nil
	case "smtp":
		return 25, nil
	case "domain":
		return 53, nil
	case "http":
		return 80, nil
	case "ntp":
		return 123, nil
	case "https":
		return 443, nil
	}
	return 0, addrinfoService
}

// addresses returns the addresses of a name; "" is the guest's own.
func (h *Host) addresses(name string, q hints) ([]netip.Addr, error) {
	var all []netip.Addr
	if ip, err := netip.ParseAddr(name); err == nil {
		all = []netip.Addr{ip.WithZone("")}
	} else if name == "" && q.flags&addrinfoPassive != 0 {
		all = []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()}
	} else if name == "" {
		all = []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}
	} else if q.flags&addrinfoNumericHost != 0 {
		return nil, addrinfoNoName
	} else if all, err = h.lookup(name); err != nil {
		return nil, err
	}
	addrs := all[:0]
	for _, ip := range all {
		if q.family == familyUnspec || q.family == familyOf(ip) {
			addrs = append(addrs, ip)
		}
	}
	if len(addrs) == 0 {
		return nil, addrinfoNoData
	}
	return addrs, nil
}

// lookup asks the network, and waits for its answer.
func (h *Host) lookup(name string) ([]netip.Addr, error) {
	if h.cfg.Net == nil {
		return nil, addrinfoNoName
	}
	pending, err := h.cfg.Net.Lookup(name)
	if err != nil {
		return nil, lookupErrno(err)
	}
	// A stop request ends the wait by a panic.
	defer func() { _ = pending.Close() }()
	for {
		addrs, err := pending.Finish()
		if err == nil {
			return addrs, nil
		}
		if err != unix.EAGAIN {
			return nil, lookupErrno(err)
		}
		h.waitFD(pending.FD(), unix.POLLIN)
	}
}

func lookupErrno(err error) error {
	if errors.Is(err, net.ErrNotFound) {
		return addrinfoNoName
	}
	return addrinfoAgain
}

// putAddrinfo fills in the guest's list, and returns how many entries of it.
func putAddrinfo(mem guestMemory, q query, addrs []netip.Addr) (n uint32, err error) {
	at, name := q.first, q.name
	if q.flags&addrinfoCanonicalName == 0 {
		name = ""
	}
	for _, ip := range addrs {
		for _, kind := range []struct{ typ, protocol uint8 }{{typeStream, protocolTCP}, {typeDgram, protocolUDP}} {
			if q.typ != 0 && q.typ != kind.typ || q.protocol != 0 && q.protocol != kind.protocol {
				continue
			}
			if n == q.limit || n > 0 && at == 0 {
				return n, nil
			}
			entry, err := view(mem, at, addrinfoSize)
			if err != nil {
				return 0, err
			}
			entry[3], entry[4] = kind.typ, kind.protocol
			if err := putEntry(mem, entry, netip.AddrPortFrom(ip, q.port)); err != nil {
				return 0, err
			}
			if err := putName(mem, entry, name); err != nil {
				return 0, err
			}
			name = ""
			n, at = n+1, binary.LittleEndian.Uint32(entry[24:])
		}
	}
	return n, nil
}

// putEntry writes an address into an entry and what it points to.
func putEntry(mem guestMemory, entry []byte, addr netip.AddrPort) error {
	le := binary.LittleEndian
	sockaddr, err := view(mem, le.Uint32(entry[12:]), 12)
	if err != nil {
		return err
	}
	ip := addr.Addr().AsSlice()
	// Guests that leave room for every kind of address give the size of the smallest.
	const declared, largest = 14, 26
	room := le.Uint32(sockaddr[4:])
	if room == declared {
		room = largest
	}
	size := uint32(2 + len(ip))
	if room < size {
		return addrinfoMemory
	}
	data, err := view(mem, le.Uint32(sockaddr[8:]), size)
	if err != nil {
		return err
	}
	binary.BigEndian.PutUint16(data, addr.Port())
	copy(data[2:], ip)
	entry[2], sockaddr[0] = familyOf(addr.Addr()), familyOf(addr.Addr())
	le.PutUint32(sockaddr[4:], size)
	le.PutUint16(entry, 0)
	le.PutUint32(entry[8:], 16)
	return nil
}

// putName writes the canonical name, where the guest has left room.
func putName(mem guestMemory, entry []byte, name string) error {
	le := binary.LittleEndian
	room := le.Uint32(entry[20:])
	if name == "" || room <= uint32(len(name)) {
		le.PutUint32(entry[20:], 0)
		return nil
	}
	b, err := view(mem, le.Uint32(entry[16:]), room)
	if err != nil {
		return err
	}
	b[copy(b, name)] = 0
	le.PutUint32(entry[20:], uint32(len(name)))
	return nil
}
