// Package harden takes from the running process what it will not need: identity, capabilities, files, system calls.
//
// The layers are independent of each other: one that the machine does not offer is reported, and the others still hold.
package harden

import "edgepod/wasmrt/sandbox"

// Options say what the process keeps.
type Options struct {
	// UID and GID to become, where the process runs as root outside of a user namespace; 0 keeps root's, without its
	// capabilities.
	UID int
	GID int
	// UserNamespace tells that root is an ordinary user outside.
	UserNamespace bool
	// Writable and ReadOnly are the files and folders that may still be opened beneath.
	Writable []string
	ReadOnly []string
	// Jail is a folder that becomes the root folder and the working directory, the latter also where the former cannot be; it
	// holds nothing but what the process may name there. "" leaves both.
	Jail string
	// Sockets keeps Unix sockets: those of Jail alone can be named then, and those that were there before are not reached.
	Sockets bool
	// Files bounds open descriptors; Data private memory in bytes and CPU seconds of processor time (SIGXCPU, and SIGKILL two
	// seconds later), 0 for no bound.
	Files uint64
	Data  uint64
	CPU   uint64
	// Code allows memory to become executable, which a compiler needs.
	Code bool
	// Priority for the kernel's out-of-memory killer, 0 to 1000: higher goes first.
	OOMScore int
}

// The names of the layers.
const (
	LayerLimits       = "rlimits"
	LayerUser         = "unprivileged-user"
	LayerCapabilities = "capabilities"
	LayerLandlock     = "landlock"
	LayerJail         = "jail"
	LayerSeccomp      = "seccomp"
)

// outcome makes a Layer from what setting it up returned.
func outcome(name string, err error, fix string) sandbox.Layer {
	if err != nil {
		return sandbox.Layer{Name: name, Reason: err.Error(), Fix: fix}
	}
	return sandbox.Layer{Name: name, Held: true}
}
