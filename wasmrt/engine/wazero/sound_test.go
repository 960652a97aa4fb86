package wazero

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"
)

// debugSection makes a section for debuggers.
func debugSection(name string, content []byte) section {
	return section{id: sectionCustom, content: append(append(binary.AppendUvarint(nil, uint64(len(name))), name...), content...)}
}

// debugOf makes the sections of a unit without lines, whose entries are inlined calls with these attributes.
func debugOf(attributes []byte, entries, ranges []byte) []section {
	abbrev := append([]byte{1, 0x11, 1, 0, 0, 2, 0x1d, 0}, attributes...) // a unit with children; an inlined call without
	abbrev = append(abbrev, 0, 0, 0)
	unit := append([]byte{4, 0, 0, 0, 0, 0, 4, 1}, entries...) // version 4, abbreviations from 0 on, addresses of 4 bytes
	info := append(binary.LittleEndian.AppendUint32(nil, uint32(len(unit))), unit...)
	return []section{
		debugSection(".debug_abbrev", abbrev), debugSection(".debug_info", info), debugSection(".debug_ranges", ranges),
		debugSection(".debug_line", nil), debugSection(".debug_str", nil),
	}
}

func TestOnlySoundSectionsForDebuggersAreTaken(t *testing.T) {
	inlined := []byte{0x58, 0x0d} // the file of the call, as a signed number
	ranged := []byte{0x55, 0x17}  // a list of ranges, by its offset
	list := bytes.Repeat([]byte{0, 0, 0, 0, 1, 0, 0, 0}, 4096)
	list = append(list, make([]byte, 8)...)
	for name, tt := range map[string]struct {
		sections []section
		want     bool
	}{
		"a call":                   {debugOf(inlined, []byte{2, 1, 0}, nil), true},
		"a file before the first":  {debugOf(inlined, []byte{2, 0x7f, 0}, nil), false},
		"an unknown entry":         {debugOf(inlined, []byte{3, 1, 0}, nil), false},
		"a list of ranges":         {debugOf(ranged, []byte{2, 0, 0, 0, 0, 0}, list), true},
		"one list over and over":   {debugOf(ranged, append(bytes.Repeat([]byte{2, 0, 0, 0, 0}, 1000), 0), list), false},
		"entries without end":      {debugOf(nil, append(bytes.Repeat([]byte{2}, maxDebugEntries), 0), nil), false},
		"a name beyond its length": {[]section{{content: []byte{9, 'x'}}}, false},
	} {
		if got := soundDebug(tt.sections); got != tt.want {
			t.Errorf("%s: sound %v, want %v", name, got, tt.want)
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 1000 { // whatever they are, nothing is left of a panic
		s := debugOf(ranged, []byte{2, 0, 0, 0, 0, 0}, list[:16])
		for _, part := range s[:3] {
			part.content[14+r.IntN(len(part.content)-14)] ^= byte(r.Uint32())
		}
		soundDebug(s)
	}
}
