package module

const opEnd = 0x0b

// operand is what follows an instruction's first byte.
type operand byte

const (
	none operand = iota
	index
	indexes    // two
	blockType  // of a block
	memory     // alignment and offset
	memoryPage // the index of a memory
	signed32
	signed64
	fixed4
	fixed8
	labels // of a br_table
	types  // of a typed select
	reference
	catches // of a try_table
	prefix  // another instruction's number
	absent  // no such instruction
)

// span gives the instructions from one byte to another the same operands; proposal is "" for those of WebAssembly 1.0.
type span struct {
	from, to byte
	operand  operand
	proposal Proposal
}

// spans are all instructions of one byte.
var spans = []span{
	{0x00, 0x01, none, ""},
	{0x02, 0x04, blockType, ""},
	{0x05, 0x05, none, ""},
	{0x06, 0x06, blockType, OldExceptions},
	{0x07, 0x07, index, OldExceptions},
	{0x08, 0x08, index, Exceptions},
	{0x09, 0x09, index, OldExceptions},
	{0x0a, 0x0a, none, Exceptions},
	{0x0b, 0x0b, none, ""},
	{0x0c, 0x0d, index, ""},
	{0x0e, 0x0e, labels, ""},
	{0x0f, 0x0f, none, ""},
	{0x10, 0x10, index, ""},
	{0x11, 0x11, indexes, ""},
	{0x12, 0x12, index, TailCall},
	{0x13, 0x13, indexes, TailCall},
	{0x14, 0x14, index, FunctionRefs},
	{0x15, 0x15, index, FunctionRefs},
	{0x18, 0x18, index, OldExceptions},
	{0x19, 0x19, none, OldExceptions},
	{0x1a, 0x1b, none, ""},
	{0x1c, 0x1c, types, ReferenceTypes},
	{0x1f, 0x1f, catches, Exceptions},
	{0x20, 0x24, index, ""},
	{0x25, 0x26, index, ReferenceTypes},
	{0x28, 0x3e, memory, ""},
	{0x3f, 0x40, memoryPage, ""},
	{0x41, 0x41, signed32, ""},
	{0x42, 0x42, signed64, ""},
	{0x43, 0x43, fixed4, ""},
	{0x44, 0x44, fixed8, ""},
	{0x45, 0xbf, none, ""},
	{0xc0, 0xc4, none, SignExtension},
	{0xd0, 0xd0, reference, ReferenceTypes},
	{0xd1, 0xd1, none, ReferenceTypes},
	{0xd2, 0xd2, index, ReferenceTypes},
	{0xd3, 0xd3, none, GC},
	{0xd4, 0xd4, none, FunctionRefs},
	{0xd5, 0xd6, index, FunctionRefs},
	{0xfb, 0xfe, prefix, ""},
}

// instructions is spans by byte.
var instructions = func() (out [256]span) {
	for i := range out {
		out[i].operand = absent
	}
	for _, s := range spans {
		for op := int(s.from); op <= int(s.to); op++ {
			out[op] = s
		}
	}
	return out
}()

// instruction reads the operands of an instruction, and notes the proposal that it is of.
func (p *parser) instruction(r *reader, op byte) {
	s := &instructions[op]
	if s.proposal != "" {
		p.needs[s.proposal] = true
	}
	switch s.operand {
	case none:
	case index:
		r.u32()
		if op == 0x15 { // a tail call by reference is of two proposals
			p.needs[TailCall] = true
		}
	case indexes:
		r.u32()
		r.u32()
	case blockType:
		p.blockType(r)
	case memory:
		p.memoryOperand(r)
	case memoryPage:
		if r.u32() != 0 {
			p.needs[MultiMemory] = true
		}
	case signed32:
		r.int(32)
	case signed64:
		r.int(64)
	case fixed4:
		r.skip(4)
	case fixed8:
		r.skip(8)
	case labels:
		for n := int64(r.u32()) + 1; n > 0 && r.err == nil; n-- {
			r.u32()
		}
	case types:
		for n := r.count(maxParams, "types"); n > 0 && p.goesOn(r); n-- {
			p.valueType(r)
		}
	case reference:
		p.heapType(r)
	case catches:
		p.catches(r)
	case prefix:
		p.prefixed(r, op, r.u32())
	default:
		p.unknown("instruction %#02x at byte %d", op, r.pos()-1)
	}
}

// blockType reads nothing, a type of values, or the index of a function's type.
func (p *parser) blockType(r *reader) {
	if r.at < len(r.buf) || r.fill() {
		switch t := r.buf[r.at]; {
		case t == 0x40:
			r.at++
			return
		case t&0x80 == 0 && t >= 0x60: // a value's type, or an index that is negative
			p.valueType(r)
			return
		}
	}
	if r.int(33) >= 0 {
		p.needs[MultiValue] = true
	}
}

// memoryOperand reads alignment and offset, and which memory where there are several.
func (p *parser) memoryOperand(r *reader) {
	const withIndex = 0x40
	if flags := r.u32(); flags&withIndex != 0 && r.err == nil {
		p.needs[MultiMemory] = true
		r.u32()
	}
	r.uint(64)
}

func (p *parser) catches(r *reader) {
	p.blockType(r)
	for n := r.count(maxFunctions, "handlers"); n > 0 && r.err == nil; n-- {
		const withoutTag = 2
		if kind := r.byte(); kind < withoutTag {
			r.u32()
		}
		r.u32()
	}
}

// prefixed reads the operands of an instruction that has a number after its first byte.
func (p *parser) prefixed(r *reader, op byte, n uint32) {
	known := false
	switch op {
	case 0xfb:
		p.needs[GC] = true
		known = p.heap(r, n)
	case 0xfc:
		known = p.misc(r, n)
	case 0xfd:
		known = p.vector(r, n)
	case 0xfe:
		p.needs[Threads] = true
		const fence, first, last = 3, 0x10, 0x4e
		if known = n <= fence || n >= first && n <= last; n == fence {
			r.byte()
		} else {
			p.memoryOperand(r)
		}
	}
	if !known && r.err == nil {
		p.unknown("instruction %#02x %d at byte %d", op, n, r.pos())
	}
}

// misc reads operands of saturating conversions, of bulk operations, and of arithmetic with wide numbers.
func (p *parser) misc(r *reader, n uint32) bool {
	operands := 0
	switch {
	case n <= 7:
		p.needs[FloatToInt] = true
	case n == 8, n == 10, n == 12, n == 14:
		p.needs[BulkMemory] = true
		operands = 2
	case n == 9, n == 11, n == 13:
		p.needs[BulkMemory] = true
		operands = 1
	case n >= 15 && n <= 17:
		p.needs[ReferenceTypes] = true
		operands = 1
	case n >= 19 && n <= 22:
		p.needs[WideArithmetic] = true
	default:
		return false
	}
	for range operands {
		r.u32()
	}
	return true
}

func (p *parser) vector(r *reader, n uint32) bool {
	const firstRelaxed, lastRelaxed = 0x100, 0x113
	p.needs[SIMD] = true
	switch {
	case n <= 11, n == 92, n == 93:
		p.memoryOperand(r)
	case n == 12, n == 13: // a constant, and the lanes of a shuffle
		r.skip(16)
	case n >= 21 && n <= 34:
		r.byte()
	case n >= 84 && n <= 91:
		p.memoryOperand(r)
		r.byte()
	case n < firstRelaxed:
	case n <= lastRelaxed:
		p.needs[RelaxedSIMD] = true
	default:
		return false
	}
	return true
}

// heap reads the operands of instructions on structures, arrays and references.
func (p *parser) heap(r *reader, n uint32) bool {
	switch {
	case n <= 1, n == 6, n == 7, n >= 11 && n <= 14, n == 16:
		r.u32()
	case n >= 2 && n <= 5, n >= 8 && n <= 10, n >= 17 && n <= 19:
		r.u32()
		r.u32()
	case n >= 20 && n <= 23:
		p.heapType(r)
	case n == 24, n == 25:
		r.byte()
		r.u32()
		p.heapType(r)
		p.heapType(r)
	case n == 15, n >= 26 && n <= 30:
	default:
		return false
	}
	return true
}
