//go:build linux

package wasi

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"edgepod/wasmrt/net"
)

// The environment variables that tell a guest of its listeners: their count, their names joined by colons, and the
// descriptor of the first.
const (
	ListenCountVariable = "LISTEN_FDS"
	ListenNamesVariable = "LISTEN_FDNAMES"
	ListenVariable      = "EDGEPOD_LISTEN_FD"
)

// Listener is a port that a guest starts with: a TCP socket that accepts connections, or a UDP socket.
type Listener struct {
	// Name is told to the guest; "" is told as "unknown".
	Name     string
	Protocol net.Protocol
	// Addr is where to listen: 0.0.0.0 for every address of the pod.
	Addr netip.AddrPort
}

func (l Listener) validate() error {
	if l.Protocol != net.TCP && l.Protocol != net.UDP {
		return fmt.Errorf("listener %s: protocol %q is neither TCP nor UDP", l.Addr, l.Protocol)
	}
	if !l.Addr.IsValid() || l.Addr.Port() == 0 {
		return fmt.Errorf("listener %q has no address and port", l.Name)
	}
	if strings.ContainsAny(l.Name, ":=\x00") {
		return fmt.Errorf("listener's name %q contains a colon, an equals sign or a zero byte", l.Name)
	}
	return nil
}

// TakesListeners tells whether a module with these imports is to be given listeners: it accepts connections and makes no
// listeners of its own.
func TakesListeners(imports []Import) bool {
	accepts := false
	for _, i := range imports {
		if i.Module != modulePreview1 {
			continue
		}
		switch i.Name {
		case "sock_listen", "sock_listen_v2":
			return false
		case "sock_accept", "sock_accept_v2":
			accepts = true
		}
	}
	return accepts
}

// setEnv sets a variable in the guest's environment, in place of others of this name.
func (h *Host) setEnv(name, value string) {
	env := make([]string, 0, len(h.cfg.Env)+1)
	for _, e := range h.cfg.Env {
		if !strings.HasPrefix(e, name+"=") {
			env = append(env, e)
		}
	}
	h.cfg.Env = append(env, name+"="+value)
}

// openListeners makes the sockets that the guest starts with. A TCP listener refuses connections until the guest looks
// for them: what waits for the port to open waits for the guest.
func (h *Host) openListeners() error {
	names := make([]string, 0, len(h.cfg.Listeners))
	for i, l := range h.cfg.Listeners {
		fd, err := h.openListener(l)
		if err == unix.EADDRINUSE {
			return fmt.Errorf("listen on %s port %d: another container of the pod holds it", l.Protocol, l.Addr.Port())
		}
		if err != nil {
			return fmt.Errorf("listen on %s port %d: %w", l.Protocol, l.Addr.Port(), err)
		}
		if i == 0 {
			h.setEnv(ListenVariable, strconv.Itoa(int(fd)))
		}
		name := l.Name
		if name == "" {
			name = "unknown"
		}
		names = append(names, name)
	}
	if len(names) > 0 {
		h.setEnv(ListenCountVariable, strconv.Itoa(len(names)))
		h.setEnv(ListenNamesVariable, strings.Join(names, ":"))
	}
	return nil
}

func (h *Host) openListener(l Listener) (uint32, error) {
	s := &socket{family: familyOf(l.Addr.Addr()), protocol: l.Protocol, preopened: true}
	if err := s.bind(h, l.Addr); err != nil {
		return 0, err
	}
	return h.add(&descriptor{object: s, base: socketRights, inheriting: socketRights, flags: h.patience()})
}
