// Package names knows the functions of a module by the names in its "name" section. It is apart from package image because
// a container's process needs it, and nothing else of images.
package names

import (
	"bufio"
	"encoding/binary"
	"io"
	"math"
	"slices"
)

// maxName is where a longer name is cut off.
const maxName = 1 << 10

// Find reads the content of a "name" section until it knows the names of these functions. What is malformed is left out.
// It takes little memory, of which a container has none to spare at its end.
func Find(content io.Reader, indexes []uint32) map[uint32]string {
	const functionNames = 1
	r := &reader{src: bufio.NewReaderSize(content, 16<<10), left: math.MaxInt64}
	for {
		id, size := r.byte(), r.number()
		if r.failed {
			return nil
		}
		if id == functionNames {
			r.left = int64(size)
			return r.functions(indexes)
		}
		r.skip(int64(size))
	}
}

// reader reads the primitives of a part; after the first that is malformed it returns zero values.
type reader struct {
	src    *bufio.Reader
	left   int64
	failed bool
}

func (r *reader) functions(indexes []uint32) map[uint32]string {
	wanted := slices.Sorted(slices.Values(indexes))
	wanted = slices.Compact(wanted)
	found := map[uint32]string{}
	for count := r.number(); count > 0 && len(found) < len(wanted); count-- {
		index, size := r.number(), int64(r.number())
		if r.failed || size > r.left {
			break
		}
		if _, ok := slices.BinarySearch(wanted, index); !ok {
			r.skip(size)
			continue
		}
		name := r.bytes(min(size, maxName))
		r.skip(size - int64(len(name)))
		if r.failed {
			break
		}
		found[index] = string(name)
	}
	return found
}

func (r *reader) fail() { r.failed = true }

func (r *reader) byte() byte {
	b, err := r.src.ReadByte()
	if r.left--; err != nil || r.left < 0 {
		r.fail()
		return 0
	}
	return b
}

// number reads an unsigned number of up to 32 bits.
func (r *reader) number() uint32 {
	var buf [binary.MaxVarintLen32]byte
	for i := range buf {
		buf[i] = r.byte()
		if r.failed {
			return 0
		}
		if buf[i] < 0x80 {
			v, _ := binary.Uvarint(buf[:i+1])
			if v > math.MaxUint32 {
				break
			}
			return uint32(v)
		}
	}
	r.fail()
	return 0
}

func (r *reader) bytes(n int64) []byte {
	if r.left -= n; r.left < 0 {
		r.fail()
		return nil
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(r.src, b); err != nil {
		r.fail()
		return nil
	}
	return b
}

func (r *reader) skip(n int64) {
	if r.left -= n; r.left < 0 {
		r.fail()
		return
	}
	if _, err := r.src.Discard(int(n)); err != nil {
		r.fail()
	}
}
