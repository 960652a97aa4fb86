//go:build linux

package wasi

// fdflags are the flags of a descriptor.
type fdflags uint16

// The flags of preview 1.
const (
	flagAppend fdflags = 1 << iota
	flagDsync
	flagNonblock
	flagRsync
	flagSync

	allFlags = flagSync<<1 - 1
)
