package wazero

import (
	"encoding/binary"
	"errors"
	"math"
)

const (
	headerSize    = 8
	sectionCustom = 0
	sectionCode   = 10
)

var errMalformed = errors.New("it ends in the middle of a section")

// emptyFunction is a function's entry in the code section: its size, no locals, unreachable, end. It is valid for every
// type of function.
var emptyFunction = []byte{3, 0, 0x00, 0x0b}

// section is one section of a module: its identifier, its content, and both with the content's length.
type section struct {
	id           byte
	content, raw []byte
}

// sections splits a module into its sections.
func sections(wasm []byte) (list []section, err error) {
	if len(wasm) < headerSize {
		return nil, errMalformed
	}
	for rest := wasm[headerSize:]; len(rest) > 0; {
		size, n := number(rest[1:])
		if n <= 0 || size > uint64(len(rest)-1-n) {
			return nil, errMalformed
		}
		end := 1 + n + int(size)
		list = append(list, section{id: rest[0], content: rest[1+n : end], raw: rest[:end]})
		rest = rest[end:]
	}
	return list, nil
}

// shellOf returns a module with its functions emptied.
func shellOf(wasm []byte) ([]byte, error) {
	list, err := sections(wasm)
	if err != nil {
		return nil, err
	}
	shell := wasm[:headerSize:headerSize]
	for _, s := range list {
		if s.id != sectionCode {
			shell = append(shell, s.raw...)
			continue
		}
		count, n := number(s.content)
		if n <= 0 || count > uint64(len(s.content)) {
			return nil, errMalformed
		}
		content := binary.AppendUvarint(nil, count)
		for range count {
			content = append(content, emptyFunction...)
		}
		shell = binary.AppendUvarint(append(shell, sectionCode), uint64(len(content)))
		shell = append(shell, content...)
	}
	return shell, nil
}

// With the sections for debuggers, the engine keeps a table of which instruction came from where, which it reads at each
// start in pieces of eight bytes: some 80 microseconds for each KiB of a module's code, and more for the sections
// themselves. That is worth it as long as it is about what everything else takes at the start of a small module.
const (
	maxDebugCode = 64 << 10
	maxDebugSize = 512 << 10
)

// withDebug returns the module with the sections for debuggers, which are all that the module debug has, where they are
// sound and their price is small; otherwise the module as it is.
func withDebug(wasm, debug []byte) []byte {
	if len(debug) <= headerSize || len(debug) > maxDebugSize {
		return wasm
	}
	list, err := sections(wasm)
	if err != nil {
		return wasm // compiling it tells
	}
	for _, s := range list {
		if s.id == sectionCode && len(s.content) > maxDebugCode {
			return wasm
		}
	}
	extra, err := sections(debug)
	if err != nil {
		return wasm
	}
	for _, s := range extra {
		if s.id != sectionCustom {
			return wasm
		}
	}
	if !soundDebug(extra) {
		return wasm
	}
	return append(wasm[:len(wasm):len(wasm)], debug[headerSize:]...)
}

// number reads an unsigned number of 32 bits and returns its length, 0 where there is none.
func number(b []byte) (v uint64, length int) {
	if v, length = binary.Uvarint(b); v > math.MaxUint32 {
		return 0, 0
	}
	return v, length
}
