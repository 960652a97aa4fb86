// Package module reads WebAssembly modules without compiling them: what they consist of, what they need, and what they were
// made with. It takes a bounded amount of memory, whatever it is given.
package module

import (
	"errors"
	"fmt"
	"io"
	"strconv"
)

// Module is what can be told of a core module without running it.
type Module struct {
	// Size in bytes.
	Size     int64
	Sections []Section
	Imports  []Import
	Exports  []Export
	// Tables and Memories are the module's own, imported ones left out.
	Tables   []Table
	Memories []Limits
	// Types, Functions, Globals, Tags, Elements and Data count the module's own, imported ones left out; DataSize is the
	// number of bytes in Data.
	Types, Functions, Globals, Tags, Elements, Data int
	DataSize                                        int64
	// Start is the index of the start function; HasStart tells whether there is one.
	Start    uint32
	HasStart bool
	// Producers are the tools that say of themselves that they made it.
	Producers []Producer
	// Needs are the proposals beyond WebAssembly 1.0 that it uses.
	Needs []Proposal
	// Unknown describes the first thing that no known proposal has; "" for none. What follows it was not looked at.
	Unknown string

	language string
}

// Section is one section of a module.
type Section struct {
	ID byte
	// Name is what the specification calls it, or a custom section's own name.
	Name string
	// Offset and Size are those of its content, the name of a custom section left out.
	Offset, Size int64
	// begin and end include its header.
	begin, end int64
}

// Import is one import of a module.
type Import struct {
	Module, Name string
	Kind         Kind
	// Params and Results are a function's, each a value type of the binary format.
	Params, Results []byte
	// Limits of a table or memory.
	Limits Limits
}

// WASI tells whether it is of WASI preview 1, or of the version before it.
func (im Import) WASI() bool {
	return im.Module == "wasi_snapshot_preview1" || im.Module == "wasi_unstable"
}

// Export is one export of a module.
type Export struct {
	Name  string
	Kind  Kind
	Index uint32
}

// Producer is an entry of the "producers" section: Field is "language", "processed-by" or "sdk".
type Producer struct{ Field, Name, Version string }

// Kind of an import or export, as the binary format numbers it.
type Kind byte

// The kinds.
const (
	KindFunc   Kind = 0
	KindTable  Kind = 1
	KindMemory Kind = 2
	KindGlobal Kind = 3
	KindTag    Kind = 4
)

func (k Kind) String() string {
	names := [...]string{"function", "table", "memory", "global", "tag"}
	if int(k) < len(names) {
		return names[k]
	}
	return fmt.Sprintf("kind %d", byte(k))
}

// Table is a table with its element type.
type Table struct {
	Type byte
	Limits
	init bool // whether an expression gives its elements
}

// Limits of a table (in elements) or memory (in pages of 64 KiB).
type Limits struct {
	Min, Max uint64
	HasMax   bool
	// Shared memories are for threads; Wide ones have 64-bit addresses.
	Shared, Wide bool
}

// HeaderSize is the length of the magic number with the version.
const HeaderSize = 8

// The most that is read of a module. Each bound is that of browsers and other engines, or above.
const (
	maxSections     = 10_000
	maxTypes        = 1_000_000
	maxImports      = 100_000
	maxExports      = 1_000_000
	maxFunctions    = 1_000_000
	maxTables       = 100_000
	maxName         = 100_000
	maxParams       = 1_000
	maxResults      = 1_000
	maxNamesTotal   = 8 << 20
	maxValuesTotal  = 1 << 20
	maxProducers    = 1_000
	maxProducersLen = 1 << 20
)

// maxKept is the most bytes of the sections whose content is kept in memory; the largest programs known have a tenth.
const maxKept = 8 << 20

// errTruncated is returned where the module ends before what it announces.
var errTruncated = errors.New("it ends in the middle of a section: the file is cut off or damaged")

// section ids of the binary format.
const (
	sectionCustom = iota
	sectionType
	sectionImport
	sectionFunction
	sectionTable
	sectionMemory
	sectionGlobal
	sectionExport
	sectionStart
	sectionElement
	sectionCode
	sectionData
	sectionDataCount
	sectionTag
	sectionLast = sectionTag
)

var sectionNames = [...]string{
	"custom", "type", "import", "function", "table", "memory", "global", "export", "start", "element", "code", "data", "data count", "tag",
}

// Read reads a core module of this size. It does not validate the code.
func Read(src io.ReaderAt, size int64) (*Module, error) {
	m := &Module{Size: size}
	var err error
	if m.Sections, err = sections(src, HeaderSize, size, sectionLast); err != nil {
		return nil, err
	}
	p := &parser{m: m, needs: map[Proposal]bool{}, names: maxNamesTotal, shown: maxValuesTotal}
	for i := range m.Sections {
		s := &m.Sections[i]
		if (s.ID == sectionType || s.ID == sectionImport || s.ID == sectionExport) && s.Size > maxKept {
			return nil, fmt.Errorf("its %s section has %d MiB, and at most %d MiB are read", s.Name, s.Size>>20, maxKept>>20)
		}
		r := newReader(src, s.Offset, s.Offset+s.Size)
		p.section(s, r)
		if r.err != nil {
			return nil, fmt.Errorf("its %s section is malformed: %w", describe(*s), r.err)
		}
		if p.m.Unknown == "" && s.ID != sectionCustom && s.ID != sectionCode && r.left() != 0 {
			return nil, fmt.Errorf("its %s section is malformed: %d bytes follow its end", describe(*s), r.left())
		}
	}
	m.Needs = sorted(p.needs)
	m.language = language(m)
	return m, nil
}

// shown is a foreign name as it can stand in a message.
func shown(name string) string {
	const most = 100
	if len(name) > most {
		name = name[:most] + "…"
	}
	return strconv.Quote(name)
}

func describe(s Section) string {
	if s.ID == sectionCustom {
		return "custom"
	}
	return s.Name
}

// sections splits a module, or a component, whose kinds of sections end with last, into its sections. Only the names of custom
// sections are read.
func sections(src io.ReaderAt, begin, end int64, last byte) ([]Section, error) {
	var out []Section
	names, order := 0, byte(0)
	for at := begin; at < end; {
		s, err := sectionAt(src, at, end)
		if err != nil {
			return nil, err
		}
		if s.ID > last {
			return nil, fmt.Errorf("it has a section of unknown kind %d at byte %d", s.ID, at)
		}
		if names += len(s.Name); len(out) == maxSections || names > maxNamesTotal {
			return nil, fmt.Errorf("it has more than %d sections, or their names are longer than all can be", maxSections)
		}
		switch {
		case s.ID == sectionCustom:
		case last != sectionLast:
			s.Name = fmt.Sprintf("part %d", s.ID)
		default:
			s.Name = sectionNames[s.ID]
			rank := rankOf(s.ID)
			if rank <= order {
				return nil, fmt.Errorf("its %s section is out of order, or comes twice", s.Name)
			}
			order = rank
		}
		out = append(out, s)
		at = s.end
	}
	return out, nil
}

// sectionAt reads the header of a section, and the name of a custom one.
func sectionAt(src io.ReaderAt, at, end int64) (Section, error) {
	const header = 1 + 5
	r := newReader(src, at, min(end, at+header))
	s := Section{ID: r.byte(), begin: at}
	size := int64(r.u32())
	s.Offset, s.Size, s.end = r.pos(), size, r.pos()+size
	if r.err != nil || s.end > end {
		return Section{}, errTruncated
	}
	if s.ID == sectionCustom {
		r = newReader(src, s.Offset, s.end)
		s.Name = r.name()
		s.Offset = r.pos()
		s.Size = s.end - s.Offset
	}
	if r.err != nil {
		return Section{}, errTruncated
	}
	return s, nil
}

// rankOf is a section's place in the order that the specification demands.
func rankOf(id byte) byte {
	switch {
	case id == sectionTag: // between memory and global
		return 2*sectionMemory + 1
	case id == sectionDataCount: // between element and code
		return 2*sectionElement + 1
	}
	return 2 * id
}

// Custom returns the custom section of this name; ok is false where there is none.
func (m *Module) Custom(name string) (s Section, ok bool) {
	for _, s := range m.Sections {
		if s.ID == sectionCustom && s.Name == name {
			return s, true
		}
	}
	return Section{}, false
}
