//go:build linux

package wasi

import (
	"encoding/binary"

	"edgepod/wasmrt/fs"
)

// view returns n bytes of memory at p, or Fault.
func view(mem guestMemory, p, n uint32) ([]byte, error) {
	b, ok := mem.Read(p, n)
	if !ok {
		return nil, fs.Fault
	}
	return b, nil
}

// putUint32 writes v at p, or returns Fault.
func putUint32(mem guestMemory, p, v uint32) error {
	b, err := view(mem, p, 4)
	if err != nil {
		return err
	}
	binary.LittleEndian.PutUint32(b, v)
	return nil
}

// putUint64 writes v at p, or returns Fault.
func putUint64(mem guestMemory, p uint32, v uint64) error {
	b, err := view(mem, p, 8)
	if err != nil {
		return err
	}
	binary.LittleEndian.PutUint64(b, v)
	return nil
}
