// Package names knows the functions of a module by the names in its "name" section. It is apart from package image because
// a container's process needs it, and nothing else of images.
package names

import (
	"encoding/binary"
	"math"
	"strconv"
	"strings"
)

// Names maps function indexes to names.
type Names map[uint32]string

// Parse reads the function names from the content of a "name" section. What is malformed is left out.
func Parse(content []byte) Names {
	const functionNames = 1
	for len(content) > 0 {
		id, rest := content[0], content[1:]
		section, rest, ok := vector(rest)
		if !ok {
			return nil
		}
		if id == functionNames {
			return functions(section)
		}
		content = rest
	}
	return nil
}

func functions(section []byte) Names {
	names := Names{}
	count, section, ok := number(section)
	for ; ok && count > 0; count-- {
		var index uint32
		var name []byte
		if index, section, ok = number(section); ok {
			name, section, ok = vector(section)
		}
		if ok {
			names[index] = string(name)
		}
	}
	return names
}

// number reads an unsigned number of up to 32 bits, and returns what follows it.
func number(b []byte) (n uint32, rest []byte, ok bool) {
	v, size := binary.Uvarint(b)
	if size <= 0 || v > math.MaxUint32 {
		return 0, nil, false
	}
	return uint32(v), b[size:], true
}

// vector reads bytes after their number.
func vector(b []byte) (content, rest []byte, ok bool) {
	n, rest, ok := number(b)
	if !ok || uint64(n) > uint64(len(rest)) {
		return nil, nil, false
	}
	return rest[:n], rest[n:], true
}

// Annotate puts names in place of the indexes in a back-trace of the engine, which writes a function without a name as a
// dot, "$" and its index.
func (n Names) Annotate(trace string) string {
	if len(n) == 0 {
		return trace
	}
	const mark = ".$"
	var out strings.Builder
	for {
		before, after, found := strings.Cut(trace, mark)
		out.WriteString(before)
		if !found {
			return out.String()
		}
		digits := len(after) - len(strings.TrimLeft(after, "0123456789"))
		index, err := strconv.ParseUint(after[:digits], 10, 32)
		if name, known := n[uint32(index)]; known && err == nil && !inWord(after[digits:]) {
			out.WriteString("." + name)
		} else {
			out.WriteString(mark + after[:digits])
		}
		trace = after[digits:]
	}
}

// inWord tells whether text goes on with a character of a word.
func inWord(text string) bool {
	if text == "" {
		return false
	}
	c := text[0]
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}
