//go:build linux

package wasi

import (
	"crypto/rand"
	"encoding/binary"
)

// strings0 is a list of strings as a guest is given them: each ended by a zero byte.
type strings0 []string

// sizes writes how many strings there are and how many bytes they take.
func (s strings0) sizes(mem guestMemory, p params) error {
	total := 0
	for _, v := range s {
		total += len(v) + 1
	}
	if err := putUint32(mem, p.u32(0), uint32(len(s))); err != nil {
		return err
	}
	return putUint32(mem, p.u32(1), uint32(total))
}

// get writes a pointer to each string, and the strings.
func (s strings0) get(mem guestMemory, p params) error {
	pointers, err := view(mem, p.u32(0), uint32(4*len(s)))
	if err != nil {
		return err
	}
	at := p.u32(1)
	for i, v := range s {
		b, err := view(mem, at, uint32(len(v)+1))
		if err != nil {
			return err
		}
		copy(b, v)
		b[len(v)] = 0
		binary.LittleEndian.PutUint32(pointers[4*i:], at)
		at += uint32(len(b))
	}
	return nil
}

func (h *Host) argsGet(mem guestMemory, p params) error { return strings0(h.cfg.Args).get(mem, p) }
func (h *Host) argsSizesGet(mem guestMemory, p params) error {
	return strings0(h.cfg.Args).sizes(mem, p)
}

func (h *Host) environGet(mem guestMemory, p params) error { return strings0(h.cfg.Env).get(mem, p) }

func (h *Host) environSizesGet(mem guestMemory, p params) error {
	return strings0(h.cfg.Env).sizes(mem, p)
}

// randomChunk is how many random bytes are made between two looks at the stop request.
const randomChunk = 1 << 20

// randomGet fills a buffer with random bytes.
func (h *Host) randomGet(mem guestMemory, p params) error {
	b, err := view(mem, p.u32(0), p.u32(1))
	if err != nil {
		return err
	}
	for len(b) > 0 {
		h.checkStopped()
		n := min(len(b), randomChunk)
		if _, err := rand.Read(b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}
