package module

import (
	"errors"
	"io"
)

// reader reads the binary format's primitives from a part of a file, through a buffer of its own; after the first error it
// returns zero values.
type reader struct {
	src io.ReaderAt
	// next is where the buffer is filled from, end where the part ends.
	next, end int64
	buf       []byte
	at        int
	err       error
}

const bufferSize = 32 << 10

func newReader(src io.ReaderAt, begin, end int64) *reader {
	return &reader{src: src, next: begin, end: end}
}

// pos is the offset of what is read next.
func (r *reader) pos() int64 { return r.next - int64(len(r.buf)-r.at) }

// left is how much of the part has not been read.
func (r *reader) left() int64 { return r.end - r.pos() }

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// fill reads more, and tells whether there is some.
func (r *reader) fill() bool {
	if r.err != nil {
		return false
	}
	n := min(r.end-r.next, bufferSize)
	if n <= 0 {
		r.fail(errTruncated)
		return false
	}
	if cap(r.buf) < int(n) {
		// Small parts take small buffers, and a long one grows into the largest.
		r.buf = make([]byte, n)
	}
	r.buf = r.buf[:n]
	got, err := r.src.ReadAt(r.buf, r.next)
	if got < int(n) {
		r.buf = r.buf[:got]
		if err == nil || err == io.EOF {
			err = errTruncated
		}
		if got == 0 {
			r.fail(err)
			return false
		}
	}
	r.next += int64(got)
	r.at = 0
	return true
}

func (r *reader) byte() byte {
	if r.at >= len(r.buf) && !r.fill() {
		return 0
	}
	r.at++
	return r.buf[r.at-1]
}

// uint reads an unsigned number of so many bits.
func (r *reader) uint(bits uint) uint64 {
	var v uint64
	for shift := uint(0); ; shift += 7 {
		c := r.byte()
		if r.err != nil {
			return 0
		}
		if shift >= bits || shift+7 > bits && c>>(bits-shift) != 0 {
			r.fail(errNumber)
			return 0
		}
		v |= uint64(c&0x7f) << shift
		if c < 0x80 {
			return v
		}
	}
}

var errNumber = errors.New("a number is too long")

func (r *reader) u32() uint32 {
	if r.at < len(r.buf) && r.buf[r.at] < 0x80 { // most are small
		r.at++
		return uint32(r.buf[r.at-1])
	}
	return uint32(r.uint(32))
}

// int reads a signed number of so many bits.
func (r *reader) int(bits uint) int64 {
	var v int64
	for shift := uint(0); ; {
		c := r.byte()
		if r.err != nil {
			return 0
		}
		if shift >= bits {
			r.fail(errNumber)
			return 0
		}
		v |= int64(c&0x7f) << shift
		shift += 7
		if c < 0x80 {
			if shift < 64 && c&0x40 != 0 {
				v |= -1 << shift
			}
			return v
		}
	}
}

// skip passes over bytes without reading them.
func (r *reader) skip(n int64) {
	switch {
	case r.err != nil:
	case n < 0 || n > r.left():
		r.fail(errTruncated)
	case n <= int64(len(r.buf)-r.at):
		r.at += int(n)
	default:
		r.next = r.pos() + n
		r.buf, r.at = r.buf[:0], 0
	}
}

// bytes reads n bytes, which the caller has found to be few.
func (r *reader) bytes(n int64) []byte {
	if r.err != nil || n > r.left() {
		r.fail(errTruncated)
		return nil
	}
	out := make([]byte, 0, n)
	for int64(len(out)) < n {
		if r.at >= len(r.buf) && !r.fill() {
			return nil
		}
		take := min(int64(len(r.buf)-r.at), n-int64(len(out)))
		out = append(out, r.buf[r.at:r.at+int(take)]...)
		r.at += int(take)
	}
	return out
}

func (r *reader) name() string {
	n := r.u32()
	if n > maxName {
		r.fail(errors.New("a name is longer than any can be"))
		return ""
	}
	return string(r.bytes(int64(n)))
}

// count reads how many follow, each of at least one byte.
func (r *reader) count(most int, what string) int {
	n := r.u32()
	if r.err == nil && (uint64(n) > uint64(most) || int64(n) > r.left()) {
		r.fail(errors.New("it announces more " + what + " than there can be"))
		return 0
	}
	return int(n)
}
