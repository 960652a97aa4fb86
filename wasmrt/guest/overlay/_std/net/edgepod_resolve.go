//go:build wasip1

package net

import (
	"context"
	"runtime"
	"syscall"
	"unsafe"
)

// The package asks "cgo" where it means the system's own resolver. Here that is the host's, and it is preferred to asking
// servers by the package's own means, which remains for records other than addresses, and where a program asks for it.
const (
	cgoAvailable   = true
	netCgoBuildTag = true
)

// mostAddresses is how many addresses of one name are taken.
const mostAddresses = 16

// answerSize is the room for all that the host writes: a list of entries, each with an address.
const answerSize = mostAddresses * (hostInfoSize + hostSockaddrSize + hostSockaddrMax + 2)

// put32 writes a number as the host reads it.
func put32(b []byte, v uint32) {
	b[0], b[1], b[2], b[3] = byte(v), byte(v>>8), byte(v>>16), byte(v>>24)
}

func get32(b []byte) uint32 {
	return uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24
}

// prepareAnswer links entries with room for an address each, in the layout of the call:
//
//	entry   flags u16 │ family u8 │ kind u8 │ protocol u8 │ size u32 @8 │ address @12 │ name @16, u32 @20 │ next @24
//	address family u8 │ size u32 @4 │ data @8; data: port u16, big endian │ 4 or 16 bytes
func prepareAnswer(b []byte) {
	base := vector(b).at
	for i := range mostAddresses {
		entry := i * hostInfoSize
		address := mostAddresses*hostInfoSize + i*hostSockaddrSize
		data := mostAddresses*(hostInfoSize+hostSockaddrSize) + i*(hostSockaddrMax+2)
		put32(b[entry+8:], hostSockaddrMax)
		put32(b[entry+12:], base+uint32(address))
		if i+1 < mostAddresses {
			put32(b[entry+24:], base+uint32(entry+hostInfoSize))
		}
		put32(b[address+4:], hostSockaddrMax)
		put32(b[address+8:], base+uint32(data))
	}
}

// readAnswer returns the addresses of the first n entries.
func readAnswer(b []byte, n int) []IPAddr {
	var found []IPAddr
	for i := range min(n, mostAddresses) {
		data := b[mostAddresses*(hostInfoSize+hostSockaddrSize)+i*(hostSockaddrMax+2):]
		size := hostInet4Size
		switch b[i*hostInfoSize+2] {
		case hostInet4:
		case hostInet6:
			size = hostInet6Size
		default:
			continue
		}
		found = append(found, IPAddr{IP: append(IP(nil), data[2:2+size]...)})
	}
	return found
}

// hostAddresses asks the host for a name's addresses, of one kind or of all.
func hostAddresses(name string, family byte) ([]IPAddr, error) {
	answer, hints := make([]byte, answerSize), make([]byte, hostInfoSize)
	prepareAnswer(answer)
	hints[2], hints[3] = family, hostStream
	node := []byte(name)
	at := vector(node)
	out := &struct{ first, count uint32 }{first: vector(answer).at}
	errno := hostLookup(unsafe.Pointer(unsafe.SliceData(node)), at.size, nil, 0,
		unsafe.Pointer(&hints[0]), unsafe.Pointer(&out.first), mostAddresses, unsafe.Pointer(&out.count))
	runtime.KeepAlive(answer)
	switch errno {
	case 0:
	case hostNoAddress, hostNoName, uint32(syscall.ENOENT):
		return nil, newDNSError(errNoSuchHost, name, "")
	case hostAddressTry, uint32(syscall.EAGAIN):
		return nil, &DNSError{Err: "temporary failure in name resolution", Name: name, IsTemporary: true}
	default:
		return nil, newDNSError(syscall.Errno(errno), name, "")
	}
	found := readAnswer(answer, int(out.count))
	if len(found) == 0 {
		return nil, newDNSError(errNoSuchHost, name, "")
	}
	return found, nil
}

// hostFamily is the host's number for the addresses that a network such as ip4 has.
func hostFamily(network string) byte {
	switch {
	case len(network) == 0:
	case network[len(network)-1] == '4':
		return hostInet4
	case network[len(network)-1] == '6':
		return hostInet6
	}
	return 0
}

func cgoLookupIP(ctx context.Context, network, name string) ([]IPAddr, error) {
	if err := ctx.Err(); err != nil {
		return nil, newDNSError(mapErr(err), name, "")
	}
	family := hostFamily(network)
	var known []IPAddr
	static, _ := lookupStaticHost(name)
	for _, text := range static {
		ip := ParseIP(text)
		if is4 := ip.To4() != nil; ip != nil && (family == 0 || is4 == (family == hostInet4)) {
			known = append(known, IPAddr{IP: ip})
		}
	}
	if len(known) > 0 {
		return known, nil
	}
	return hostAddresses(name, family)
}

func cgoLookupHost(ctx context.Context, name string) ([]string, error) {
	found, err := cgoLookupIP(ctx, "ip", name)
	if err != nil {
		return nil, err
	}
	texts := make([]string, len(found))
	for i := range found {
		texts[i] = found[i].String()
	}
	return texts, nil
}

func cgoLookupPort(_ context.Context, network, service string) (int, error) {
	return goLookupPort(network, service)
}

// canonical knows no other names: the one that has addresses is the name itself.
func canonical(ctx context.Context, name string) (string, error) {
	if _, err := cgoLookupIP(ctx, "ip", name); err != nil {
		return "", err
	}
	return absDomainName(name), nil
}

// cgoLookupPTR knows the names in /etc/hosts: the host's calls have none for addresses.
func cgoLookupPTR(_ context.Context, addr string) ([]string, error) {
	if names := lookupStaticAddr(addr); len(names) > 0 {
		return names, nil
	}
	return nil, newDNSError(errNoSuchHost, addr, "")
}
