package module

import (
	"errors"
	"fmt"
)

// parser fills a Module from its sections.
type parser struct {
	m     *Module
	types []funcType
	// values holds the parameters and results of all types, one after the other.
	values []byte
	needs  map[Proposal]bool
	// mutable tells of each global, imported ones first, whether it can change.
	mutable []bool
	// names is how many bytes of names may still be kept, shown how many parameters and results of imports, which share
	// their types: whoever describes them writes each out.
	names, shown int
}

func (p *parser) section(s *Section, r *reader) {
	m := p.m
	switch s.ID {
	case sectionCustom:
		if s.Name == "producers" {
			m.Producers = producers(r)
		}
	case sectionType:
		p.typeSection(r)
	case sectionImport:
		p.importSection(r)
	case sectionFunction:
		m.Functions = r.count(maxFunctions, "functions")
		for i := 0; i < m.Functions && r.err == nil; i++ {
			r.u32()
		}
	case sectionTable:
		for n := r.count(maxTables, "tables"); n > 0 && p.goesOn(r); n-- {
			m.Tables = append(m.Tables, p.table(r))
		}
		p.countTables()
	case sectionMemory:
		for n := r.count(maxTables, "memories"); n > 0 && p.goesOn(r); n-- {
			m.Memories = append(m.Memories, p.limits(r))
		}
		p.countMemories()
	case sectionTag:
		m.Tags = r.count(maxFunctions, "tags")
		for i := 0; i < m.Tags && r.err == nil; i++ {
			r.byte()
			r.u32()
		}
		p.needs[Exceptions] = p.needs[Exceptions] || m.Tags > 0
	case sectionGlobal:
		p.globalSection(r)
	case sectionExport:
		p.exportSection(r)
	case sectionStart:
		m.Start, m.HasStart = r.u32(), true
	case sectionElement:
		p.elementSection(r)
	case sectionCode:
		p.codeSection(r)
	case sectionData:
		p.dataSection(r)
	case sectionDataCount:
		r.u32()
		p.needs[BulkMemory] = true
	}
}

// goesOn tells whether a section is still understood.
func (p *parser) goesOn(r *reader) bool { return r.err == nil && p.m.Unknown == "" }

// unknown notes the first thing that no proposal known here has.
func (p *parser) unknown(format string, args ...any) {
	if p.m.Unknown == "" {
		p.m.Unknown = fmt.Sprintf(format, args...)
	}
}

// name reads a name that is kept.
func (p *parser) name(r *reader) string {
	name := r.name()
	if p.names -= len(name); p.names < 0 {
		r.fail(errors.New("its names are longer than all can be"))
	}
	return name
}

func (p *parser) importSection(r *reader) {
	m := p.m
	for n := r.count(maxImports, "imports"); n > 0 && p.goesOn(r); n-- {
		im := Import{Module: p.name(r), Name: p.name(r), Kind: Kind(r.byte())}
		switch im.Kind {
		case KindFunc:
			if i := r.u32(); uint64(i) < uint64(len(p.types)) {
				im.Params, im.Results = p.signature(p.types[i])
				if p.shown -= len(im.Params) + len(im.Results); p.shown < 0 {
					r.fail(errors.New("its imports have more parameters than all can have"))
				}
			} else {
				r.fail(fmt.Errorf("import %s has a type that is not there", shown(im.Name)))
			}
		case KindTable:
			im.Limits = p.table(r).Limits
		case KindMemory:
			im.Limits = p.limits(r)
		case KindGlobal:
			if p.global(r) {
				p.needs[MutableGlobal] = true
			}
		case KindTag:
			p.needs[Exceptions] = true
			r.byte()
			r.u32()
		default:
			r.fail(fmt.Errorf("import %s is of unknown %s", shown(im.Name), im.Kind))
		}
		m.Imports = append(m.Imports, im)
	}
	p.countTables()
	p.countMemories()
}

// countTables and countMemories notice more than one.
func (p *parser) countTables() {
	if len(p.m.Tables)+p.imported(KindTable) > 1 {
		p.needs[ReferenceTypes] = true
	}
}

func (p *parser) countMemories() {
	if len(p.m.Memories)+p.imported(KindMemory) > 1 {
		p.needs[MultiMemory] = true
	}
}

func (p *parser) imported(kind Kind) (n int) {
	for _, im := range p.m.Imports {
		if im.Kind == kind {
			n++
		}
	}
	return n
}

func (p *parser) table(r *reader) Table {
	t := Table{Type: r.byte()}
	withInit := t.Type == 0x40
	if withInit {
		p.needs[FunctionRefs] = true
		r.byte()
		t.Type = r.byte()
	}
	switch t.Type {
	case 0x70: // funcref, as ever
	case 0x63, 0x64:
		p.needs[FunctionRefs] = true
		p.heapType(r)
	case 0x6f:
		p.needs[ReferenceTypes] = true
	default:
		p.needs[GC] = true
	}
	t.Limits = p.limits(r)
	if t.init = withInit; withInit {
		p.expression(r)
	}
	return t
}

func (p *parser) limits(r *reader) Limits {
	const hasMax, shared, wide, pageSize = 1, 2, 4, 8
	flags := r.byte()
	if flags > hasMax|shared|wide|pageSize {
		p.unknown("limits with flags %#x", flags)
		return Limits{}
	}
	l := Limits{HasMax: flags&hasMax != 0, Shared: flags&shared != 0, Wide: flags&wide != 0}
	bits := uint(32)
	if l.Wide {
		p.needs[Memory64] = true
		bits = 64
	}
	if l.Shared {
		p.needs[Threads] = true
	}
	l.Min = r.uint(bits)
	if l.HasMax {
		l.Max = r.uint(bits)
	}
	if flags&pageSize != 0 {
		p.needs[CustomPageSizes] = true
		r.u32()
	}
	return l
}

func (p *parser) globalSection(r *reader) {
	p.m.Globals = r.count(maxFunctions, "globals")
	for n := p.m.Globals; n > 0 && p.goesOn(r); n-- {
		p.global(r)
		p.expression(r)
	}
}

// global reads the type of a global, and tells whether it can change.
func (p *parser) global(r *reader) bool {
	p.valueType(r)
	const mutable, shared = 1, 2
	flags := r.byte()
	if flags&shared != 0 {
		p.unknown("a shared global")
	}
	p.mutable = append(p.mutable, flags&mutable != 0)
	return flags&mutable != 0
}

func (p *parser) exportSection(r *reader) {
	for n := r.count(maxExports, "exports"); n > 0 && p.goesOn(r); n-- {
		ex := Export{Name: p.name(r), Kind: Kind(r.byte()), Index: r.u32()}
		if ex.Kind == KindGlobal && uint64(ex.Index) < uint64(len(p.mutable)) && p.mutable[ex.Index] {
			p.needs[MutableGlobal] = true
		}
		p.m.Exports = append(p.m.Exports, ex)
	}
}

func (p *parser) dataSection(r *reader) {
	p.m.Data = r.count(maxFunctions, "pieces of data")
	for n := p.m.Data; n > 0 && p.goesOn(r); n-- {
		switch flags := r.u32(); flags {
		case 0:
			p.expression(r)
		case 1:
			p.needs[BulkMemory] = true
		case 2:
			p.needs[BulkMemory] = true
			if r.u32() != 0 {
				p.needs[MultiMemory] = true
			}
			p.expression(r)
		default:
			r.fail(fmt.Errorf("a piece of data is of unknown kind %d", flags))
		}
		size := int64(r.u32())
		p.m.DataSize += size
		r.skip(size)
	}
}

// elementSection reads the contents of tables. The bits of an element's flags: passive or declared, with a table's index or
// declared, of expressions in place of indexes.
func (p *parser) elementSection(r *reader) {
	const inactive, explicit, expressions, known = 1, 2, 4, 7
	p.m.Elements = r.count(maxFunctions, "elements")
	for n := p.m.Elements; n > 0 && p.goesOn(r); n-- {
		flags := r.u32()
		if flags > known {
			r.fail(fmt.Errorf("an element is of unknown kind %d", flags))
			return
		}
		if flags != 0 {
			p.needs[BulkMemory] = true
		}
		if flags&inactive == 0 {
			if flags&explicit != 0 {
				r.u32()
			}
			p.expression(r)
		}
		if flags&(inactive|explicit) != 0 {
			if flags&expressions != 0 {
				p.valueType(r)
			} else {
				r.byte()
			}
		}
		for items := r.count(maxTypes*10, "elements"); items > 0 && p.goesOn(r); items-- {
			if flags&expressions != 0 {
				p.expression(r)
			} else {
				r.u32()
			}
		}
	}
}

// expression reads a constant expression.
func (p *parser) expression(r *reader) {
	for p.goesOn(r) {
		op := r.byte()
		if op == opEnd {
			return
		}
		switch op {
		case 0x6a, 0x6b, 0x6c, 0x7c, 0x7d, 0x7e:
			p.needs[ExtendedConst] = true
		}
		p.instruction(r, op)
	}
}

func (p *parser) codeSection(r *reader) {
	n := r.count(maxFunctions, "functions")
	if r.err == nil && n != p.m.Functions {
		r.fail(fmt.Errorf("%d functions are announced and %d are there", p.m.Functions, n))
	}
	for ; n > 0 && p.goesOn(r); n-- {
		size := int64(r.u32())
		end := r.pos() + size
		if r.err == nil && size > r.left() {
			r.fail(errTruncated)
		}
		for groups := r.count(maxFunctions, "local variables"); groups > 0 && p.goesOn(r); groups-- {
			r.u32()
			p.valueType(r)
		}
		for r.pos() < end && p.goesOn(r) {
			p.instruction(r, r.byte())
		}
		if p.goesOn(r) && r.pos() != end {
			r.fail(errors.New("an instruction goes beyond the end of its function"))
		}
	}
	if p.goesOn(r) && r.left() != 0 {
		r.fail(fmt.Errorf("%d bytes follow its end", r.left()))
	}
}
