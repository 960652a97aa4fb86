package wazero

import (
	"encoding/binary"
	"errors"
	"math"
)

const (
	headerSize  = 8
	sectionCode = 10
)

var errMalformed = errors.New("it ends in the middle of a section")

// emptyFunction is a function's entry in the code section: its size, no locals, unreachable, end. It is valid for every
// type of function.
var emptyFunction = []byte{3, 0, 0x00, 0x0b}

// shellOf returns a module with its functions emptied.
func shellOf(wasm []byte) ([]byte, error) {
	if len(wasm) < headerSize {
		return nil, errMalformed
	}
	shell, rest := wasm[:headerSize:headerSize], wasm[headerSize:]
	for len(rest) > 0 {
		size, n := number(rest[1:])
		if n <= 0 || size > uint64(len(rest)-1-n) {
			return nil, errMalformed
		}
		end := 1 + n + int(size)
		if rest[0] != sectionCode {
			shell = append(shell, rest[:end]...)
			rest = rest[end:]
			continue
		}
		count, n := number(rest[1+n : end])
		if n <= 0 || count > size {
			return nil, errMalformed
		}
		payload := binary.AppendUvarint(nil, count)
		for range count {
			payload = append(payload, emptyFunction...)
		}
		shell = binary.AppendUvarint(append(shell, sectionCode), uint64(len(payload)))
		shell = append(shell, payload...)
		rest = rest[end:]
	}
	return shell, nil
}

// number reads an unsigned number of 32 bits and returns its length, 0 where there is none.
func number(b []byte) (v uint64, length int) {
	if v, length = binary.Uvarint(b); v > math.MaxUint32 {
		return 0, 0
	}
	return v, length
}
