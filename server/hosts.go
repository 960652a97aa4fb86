package server

import (
	"net"
	"os"
	"strings"
)

// serverHosts returns the names and addresses under which clients on the network may reach a server that listens on the
// address: for its certificate and its list of Host headers.
func serverHosts(listening net.Addr) []string {
	hosts := []string{"localhost", "127.0.0.1", "::1", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"}
	tcp, ok := listening.(*net.TCPAddr)
	if !ok || tcp.IP.IsLoopback() {
		return hosts
	}
	if name, err := os.Hostname(); err == nil {
		hosts = append(hosts, strings.ToLower(name))
	}
	if !tcp.IP.IsUnspecified() {
		return append(hosts, tcp.IP.String())
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return hosts
	}
	for _, address := range addresses {
		if network, ok := address.(*net.IPNet); ok && !network.IP.IsLoopback() {
			hosts = append(hosts, network.IP.String())
		}
	}
	return hosts
}

// clientAddress returns the address that a client on this machine uses for a server that listens on the address.
func clientAddress(listening net.Addr) string {
	tcp, ok := listening.(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() {
		return listening.String()
	}
	local := *tcp
	local.IP = net.IPv4(127, 0, 0, 1)
	return local.String()
}
