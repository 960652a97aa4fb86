package image

import (
	"regexp"
	"strconv"
)

// Names maps function indexes to the names that a module's "name" section gave them.
type Names map[uint32]string

// ParseNames reads the function names from the content of a "name" section. What is malformed is left out.
func ParseNames(content []byte) Names {
	const functionNames = 1
	r := &reader{b: content}
	for r.at < len(r.b) && r.err == nil {
		id := r.byte()
		sub := &reader{b: r.bytes(r.u32())}
		if id != functionNames || r.err != nil {
			continue
		}
		names := Names{}
		for n := sub.u32(); n > 0 && sub.err == nil; n-- {
			index, name := sub.u32(), sub.name()
			if sub.err == nil {
				names[index] = name
			}
		}
		return names
	}
	return nil
}

// unnamed matches how the engine writes a function without a name in a back-trace: a dot, "$" and its index.
var unnamed = regexp.MustCompile(`\.\$(\d+)\b`)

// Annotate puts names in place of the indexes in a back-trace of the engine.
func (n Names) Annotate(trace string) string {
	if len(n) == 0 {
		return trace
	}
	return unnamed.ReplaceAllStringFunc(trace, func(match string) string {
		index, err := strconv.ParseUint(match[len(".$"):], 10, 32)
		if name, ok := n[uint32(index)]; ok && err == nil {
			return "." + name
		}
		return match
	})
}
