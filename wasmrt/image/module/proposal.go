package module

import (
	"maps"
	"slices"
)

// Proposal is an extension of WebAssembly 1.0, by the name of its repository at github.com/WebAssembly.
type Proposal string

// The proposals that a module's bytes tell. The first eight are in WebAssembly 2.0.
const (
	MutableGlobal   Proposal = "mutable-global"
	SignExtension   Proposal = "sign-extension-ops"
	FloatToInt      Proposal = "nontrapping-float-to-int-conversions"
	MultiValue      Proposal = "multi-value"
	BulkMemory      Proposal = "bulk-memory-operations"
	ReferenceTypes  Proposal = "reference-types"
	SIMD            Proposal = "simd"
	Threads         Proposal = "threads"
	TailCall        Proposal = "tail-call"
	ExtendedConst   Proposal = "extended-const"
	RelaxedSIMD     Proposal = "relaxed-simd"
	Exceptions      Proposal = "exception-handling"
	OldExceptions   Proposal = "exception-handling (legacy)"
	FunctionRefs    Proposal = "function-references"
	GC              Proposal = "gc"
	Memory64        Proposal = "memory64"
	MultiMemory     Proposal = "multi-memory"
	CustomPageSizes Proposal = "custom-page-sizes"
	WideArithmetic  Proposal = "wide-arithmetic"
	StackSwitching  Proposal = "stack-switching"
	ComponentModel  Proposal = "component-model"
)

func sorted(set map[Proposal]bool) []Proposal { return slices.Sorted(maps.Keys(set)) }
