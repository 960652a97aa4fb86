package wazero

import (
	"debug/dwarf"
	"io"
)

// What the engine may have to read of the sections for debuggers, at each end of a guest that does not return: for each of
// up to thirty frames it looks at all entries and their ranges. A module of maxDebugCode has a tenth of it.
const (
	maxDebugEntries = 1 << 17
	maxDebugRanges  = 1 << 16
	maxDebugLines   = 1 << 16
)

// soundDebug tells whether sections for debuggers hold together, and are soon read. From others the engine makes a panic, or
// minutes of work, where a trap or an exit code was to be told.
func soundDebug(list []section) (sound bool) {
	defer func() {
		if recover() != nil {
			sound = false
		}
	}()
	parts := map[string][]byte{}
	for _, s := range list {
		size, n := number(s.content)
		if n <= 0 || size > uint64(len(s.content)-n) {
			return false
		}
		end := n + int(size)
		parts[string(s.content[n:end])] = s.content[end:]
	}
	data, err := dwarf.New(parts[".debug_abbrev"], nil, nil, parts[".debug_info"], parts[".debug_line"], nil,
		parts[".debug_ranges"], parts[".debug_str"])
	if err != nil {
		return false
	}
	c := debugCheck{data: data, entries: maxDebugEntries, ranges: maxDebugRanges, lines: maxDebugLines}
	return c.all()
}

// debugCheck reads what the engine would read. The numbers are what is left of each bound.
type debugCheck struct {
	data                   *dwarf.Data
	entries, ranges, lines int
	files                  []*dwarf.LineFile
}

func (c *debugCheck) all() bool {
	r := c.data.Reader()
	for {
		e, err := r.Next()
		if err != nil {
			return false
		}
		if e == nil {
			return true
		}
		if c.entries--; c.entries < 0 {
			return false
		}
		switch e.Tag {
		case dwarf.TagCompileUnit:
			if !c.ranged(e) || !c.unit(e) {
				return false
			}
		case dwarf.TagInlinedSubroutine:
			if !c.ranged(e) || !c.inlined(e) {
				return false
			}
		}
	}
}

// ranged counts the ranges of an entry; the engine goes on where they can't be read.
func (c *debugCheck) ranged(e *dwarf.Entry) bool {
	ranges, _ := c.data.Ranges(e)
	c.ranges -= len(ranges)
	return c.ranges >= 0
}

// unit reads the lines of a compilation unit.
func (c *debugCheck) unit(e *dwarf.Entry) bool {
	c.files = nil
	lines, err := c.data.LineReader(e)
	if err != nil || lines == nil {
		return true // the engine tells no lines of this unit
	}
	var line dwarf.LineEntry
	for {
		if err := lines.Next(&line); err == io.EOF {
			break
		} else if err != nil || line.File == nil {
			return false
		}
		if c.lines--; c.lines < 0 {
			return false
		}
	}
	c.files = lines.Files()
	return true
}

// inlined looks for the file of a call that was inlined.
func (c *debugCheck) inlined(e *dwarf.Entry) bool {
	index, ok := e.Val(dwarf.AttrCallFile).(int64)
	return !ok || index >= 0 && (index >= int64(len(c.files)) || c.files[index] != nil)
}
