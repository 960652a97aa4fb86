//go:build wasip1

package net

// loopback is the one interface that a guest is shown.
var loopback = Interface{Index: 1, MTU: 65536, Name: "lo", Flags: FlagUp | FlagLoopback | FlagRunning}

func interfaceTable(index int) ([]Interface, error) {
	if index != 0 && index != loopback.Index {
		return nil, nil
	}
	return []Interface{loopback}, nil
}

func interfaceAddrTable(of *Interface) ([]Addr, error) {
	if of != nil && of.Index != loopback.Index {
		return nil, nil
	}
	return []Addr{
		&IPNet{IP: IPv4(127, 0, 0, 1), Mask: CIDRMask(8, 32)},
		&IPNet{IP: IPv6loopback, Mask: CIDRMask(128, 128)},
	}, nil
}

func interfaceMulticastAddrTable(*Interface) ([]Addr, error) { return nil, nil }
