package module

import (
	"errors"
	"fmt"
)

// funcType is a function's signature: where its parameters begin among the values, and how many they and its results are.
type funcType struct {
	begin           uint32
	params, results uint16
}

func (p *parser) signature(t funcType) (params, results []byte) {
	middle := t.begin + uint32(t.params)
	return p.values[t.begin:middle:middle], p.values[middle : middle+uint32(t.results) : middle+uint32(t.results)]
}

// The forms of types.
const (
	formFunc     = 0x60
	formStruct   = 0x5f
	formArray    = 0x5e
	formCont     = 0x5d
	formSub      = 0x50
	formSubFinal = 0x4f
	formRec      = 0x4e
)

func (p *parser) typeSection(r *reader) {
	for n := r.count(maxTypes, "types"); n > 0 && p.goesOn(r); n-- {
		form := r.byte()
		if form == formRec {
			p.needs[GC] = true
			for inner := r.count(maxTypes, "types"); inner > 0 && p.goesOn(r); inner-- {
				p.subType(r, r.byte())
			}
			continue
		}
		p.subType(r, form)
	}
	p.m.Types = len(p.types)
}

func (p *parser) subType(r *reader, form byte) {
	if len(p.types) >= maxTypes {
		r.fail(errors.New("it has more types than there can be"))
		return
	}
	if form == formSub || form == formSubFinal {
		p.needs[GC] = true
		for n := r.count(maxTypes, "super types"); n > 0 && r.err == nil; n-- {
			r.u32()
		}
		form = r.byte()
	}
	t := funcType{begin: uint32(len(p.values))}
	switch form {
	case formFunc:
		t.params = p.valueTypes(r, maxParams)
		t.results = p.valueTypes(r, maxResults)
		if t.results > 1 {
			p.needs[MultiValue] = true
		}
	case formStruct:
		p.needs[GC] = true
		for n := r.count(maxParams*10, "fields"); n > 0 && p.goesOn(r); n-- {
			p.valueType(r)
			r.byte()
		}
	case formArray:
		p.needs[GC] = true
		p.valueType(r)
		r.byte()
	case formCont:
		p.needs[StackSwitching] = true
		r.int(33)
	default:
		if r.err == nil {
			r.fail(fmt.Errorf("a type has the unknown form %#x", form))
		}
	}
	p.types = append(p.types, t)
}

// valueTypes keeps types of values, and returns how many.
func (p *parser) valueTypes(r *reader, most int) uint16 {
	n := r.count(most, "parameters or results")
	for i := 0; i < n && p.goesOn(r); i++ {
		p.values = append(p.values, p.valueType(r))
	}
	if !p.goesOn(r) {
		return 0 // what is wrong or unknown has no signature
	}
	return uint16(n)
}

// valueType reads a type of values, and returns its first byte.
func (p *parser) valueType(r *reader) byte {
	t := r.byte()
	switch {
	case r.err != nil, t >= 0x7c && t <= 0x7f: // numbers
	case t == 0x7b:
		p.needs[SIMD] = true
	case t == 0x70 || t == 0x6f: // funcref, externref
		p.needs[ReferenceTypes] = true
	case t == 0x69 || t == 0x74:
		p.needs[Exceptions] = true
	case t == 0x63 || t == 0x64:
		p.needs[FunctionRefs] = true
		p.heapType(r)
	case t >= 0x6a && t <= 0x73 || t == 0x77 || t == 0x78: // what is in the heap, and packed fields
		p.needs[GC] = true
	case t == 0x68 || t == 0x75:
		p.needs[StackSwitching] = true
	default:
		r.fail(fmt.Errorf("a value has the unknown type %#x", t))
	}
	return t
}

// heapType reads what a reference leads to: an index, or one of the abstract types.
func (p *parser) heapType(r *reader) {
	const funcs, externs, exns = -0x10, -0x11, -0x17
	switch t := r.int(33); {
	case t >= 0, t == funcs, t == externs:
	case t == exns:
		p.needs[Exceptions] = true
	default:
		p.needs[GC] = true
	}
}
