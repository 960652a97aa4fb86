// Package module reads WebAssembly modules without compiling them.
package module

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// Module is what the import needs to know of a core WebAssembly module.
type Module struct {
	Imports []Import
	Exports []Export
	// Tables and Memories are the module's own, imported ones left out.
	Tables   []Limits
	Memories []Limits
}

// Import is one import of a module.
type Import struct {
	Module, Name string
	Kind         Kind
	// Params and Results are a function's, each a value type of the binary format.
	Params, Results []byte
}

// Export is one export of a module.
type Export struct {
	Name string
	Kind Kind
}

// Kind of an import or export, as the binary format numbers it.
type Kind byte

// The kinds of WebAssembly 2.0.
const (
	KindFunc   Kind = 0
	KindTable  Kind = 1
	KindMemory Kind = 2
	KindGlobal Kind = 3
)

func (k Kind) String() string {
	names := [...]string{"function", "table", "memory", "global"}
	if int(k) < len(names) {
		return names[k]
	}
	return fmt.Sprintf("kind %d", byte(k))
}

// Limits of a table (in elements) or memory (in pages of 64 KiB).
type Limits struct {
	Min, Max uint64
	HasMax   bool
}

// MaxTable is the most elements that a table may grow to: the engine itself has no bound, and each costs 8 bytes.
const MaxTable = 1 << 20

// errTruncated is returned where the module ends before what it announces.
var errTruncated = errors.New("it ends in the middle of a section: the file is cut off or damaged")

// The sections that are read. All others pass through unread.
const (
	sectionCustom = 0
	sectionType   = 1
	sectionImport = 2
	sectionTable  = 4
	sectionMemory = 5
	sectionExport = 7
	sectionLast   = 13
)

// HeaderSize is the length of the magic number with the version.
const HeaderSize = 8

// section is one section of a module: raw is its header and payload together.
type section struct {
	id           byte
	raw, payload []byte
}

// sections splits a module, whose header has been checked, into its sections.
func sections(wasm []byte) ([]section, error) {
	var out []section
	for at := HeaderSize; at < len(wasm); {
		r := &reader{b: wasm, at: at}
		id := r.byte()
		size := r.u32()
		if r.err != nil || uint64(size) > uint64(len(wasm)-r.at) {
			return nil, errTruncated
		}
		if id > sectionLast {
			return nil, fmt.Errorf("it has a section of unknown kind %d at byte %d", id, at)
		}
		end := r.at + int(size)
		out = append(out, section{id: id, raw: wasm[at:end], payload: wasm[r.at:end]})
		at = end
	}
	return out, nil
}

// Parse reads the parts of a core module that the import looks at. It does not validate the code.
func Parse(wasm []byte) (*Module, error) {
	secs, err := sections(wasm)
	if err != nil {
		return nil, err
	}
	m := &Module{}
	var types []funcType
	for _, s := range secs {
		r := &reader{b: s.payload}
		switch s.id {
		case sectionType:
			types = r.types()
		case sectionImport:
			m.Imports = r.imports(types)
		case sectionTable:
			m.Tables = r.tables()
		case sectionMemory:
			m.Memories = r.memories()
		case sectionExport:
			m.Exports = r.exports()
		}
		if r.err != nil {
			return nil, fmt.Errorf("section %d is malformed: %w", s.id, r.err)
		}
	}
	return m, nil
}

// Slim returns the module without its custom sections and with each table's maximum clamped, and the content of its
// "name" section, or nil.
func Slim(wasm []byte) (slim, names []byte, err error) {
	secs, err := sections(wasm)
	if err != nil {
		return nil, nil, err
	}
	slim = append(make([]byte, 0, len(wasm)), wasm[:HeaderSize]...)
	for _, s := range secs {
		switch s.id {
		case sectionCustom:
			r := &reader{b: s.payload}
			if r.name() == "name" && r.err == nil {
				names = slices.Clone(s.payload[r.at:])
			}
		case sectionTable:
			payload, err := clampTables(s.payload)
			if err != nil {
				return nil, nil, err
			}
			slim = append(slim, sectionTable)
			slim = binary.AppendUvarint(slim, uint64(len(payload)))
			slim = append(slim, payload...)
		default:
			slim = append(slim, s.raw...)
		}
	}
	return slim, names, nil
}

func clampTables(payload []byte) ([]byte, error) {
	r := &reader{b: payload}
	n := r.u32()
	out := binary.AppendUvarint(nil, uint64(n))
	for i := uint32(0); i < n && r.err == nil; i++ {
		ref, l := r.byte(), r.limits()
		if l.Min > MaxTable {
			return nil, fmt.Errorf("it asks for a table of %d elements; the most is %d", l.Min, MaxTable)
		}
		if !l.HasMax || l.Max > MaxTable {
			l.Max = MaxTable
		}
		out = append(out, ref, 1)
		out = binary.AppendUvarint(out, l.Min)
		out = binary.AppendUvarint(out, l.Max)
	}
	if r.err != nil {
		return nil, fmt.Errorf("its table section is malformed: %w", r.err)
	}
	return out, nil
}

// reader reads the binary format's primitives; after the first error it returns zero values.
type reader struct {
	b   []byte
	at  int
	err error
}

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

func (r *reader) byte() byte {
	if r.err != nil || r.at >= len(r.b) {
		r.fail(errTruncated)
		return 0
	}
	r.at++
	return r.b[r.at-1]
}

func (r *reader) uint(bits uint) uint64 {
	var v uint64
	for shift := uint(0); ; shift += 7 {
		c := r.byte()
		if r.err != nil {
			return 0
		}
		if shift >= bits || (shift+7 > bits && c>>(bits-shift) != 0) {
			r.fail(errors.New("a number is too long"))
			return 0
		}
		v |= uint64(c&0x7f) << shift
		if c < 0x80 {
			return v
		}
	}
}

func (r *reader) u32() uint32 { return uint32(r.uint(32)) }

func (r *reader) bytes(n uint32) []byte {
	if r.err != nil || uint64(n) > uint64(len(r.b)-r.at) {
		r.fail(errTruncated)
		return nil
	}
	r.at += int(n)
	return r.b[r.at-int(n) : r.at]
}

func (r *reader) name() string { return string(r.bytes(r.u32())) }

func (r *reader) limits() Limits {
	flags := r.byte()
	l := Limits{Min: r.uint(64)}
	if l.HasMax = flags&1 != 0; l.HasMax {
		l.Max = r.uint(64)
	}
	return l
}

func (r *reader) tables() (out []Limits) {
	for n := r.u32(); n > 0 && r.err == nil; n-- {
		r.byte()
		out = append(out, r.limits())
	}
	return out
}

func (r *reader) memories() (out []Limits) {
	for n := r.u32(); n > 0 && r.err == nil; n-- {
		out = append(out, r.limits())
	}
	return out
}

// funcType is a function's signature.
type funcType struct{ params, results []byte }

func (r *reader) types() (out []funcType) {
	const function = 0x60
	for n := r.u32(); n > 0 && r.err == nil; n-- {
		if form := r.byte(); r.err == nil && form != function {
			r.fail(fmt.Errorf("a type has the unknown form %#x", form))
		}
		out = append(out, funcType{params: r.bytes(r.u32()), results: r.bytes(r.u32())})
	}
	return out
}

func (r *reader) imports(types []funcType) (out []Import) {
	for n := r.u32(); n > 0 && r.err == nil; n-- {
		im := Import{Module: r.name(), Name: r.name(), Kind: Kind(r.byte())}
		switch im.Kind {
		case KindFunc:
			if i := r.u32(); uint64(i) < uint64(len(types)) {
				im.Params, im.Results = types[i].params, types[i].results
			} else {
				r.fail(fmt.Errorf("import %s.%s has a type that is not there", im.Module, im.Name))
			}
		case KindTable:
			r.byte()
			r.limits()
		case KindMemory:
			r.limits()
		case KindGlobal:
			r.bytes(2)
		default:
			r.fail(fmt.Errorf("import %s.%s is of unknown %s", im.Module, im.Name, im.Kind))
		}
		out = append(out, im)
	}
	return out
}

func (r *reader) exports() (out []Export) {
	for n := r.u32(); n > 0 && r.err == nil; n-- {
		out = append(out, Export{Name: r.name(), Kind: Kind(r.byte())})
		r.u32()
	}
	return out
}
