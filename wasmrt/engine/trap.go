package engine

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"github.com/ianlancetaylor/demangle"
)

// Trap is the end of a guest that broke a rule of WebAssembly.
type Trap struct {
	// Reason in the words of the specification, such as "unreachable" or "out of bounds memory access".
	Reason string
	// Frames of the guest's call stack, the innermost first; Cut tells that more are not listed.
	Frames []Frame
	Cut    bool
}

// Frame is one call of a guest's function.
type Frame struct {
	// Index of the function in its module, -1 where only its name is known.
	Index int
	// Name of the function, "" where the module has none for it.
	Name string
	// Sources are where in the source the call is, as file:line:column, innermost first where calls were inlined; empty
	// where the module doesn't tell.
	Sources []string
}

func (t *Trap) Error() string { return "wasm trap: " + t.Reason }

// Trace writes the frames, one to a line, each with its sources beneath. Names are the module's, and may hold anything: what
// would do something to a terminal, or look like another line, is replaced.
func (t *Trap) Trace() string {
	var b strings.Builder
	for i, f := range t.Frames {
		fmt.Fprintf(&b, "  %d: %s\n", i, plain(f.String()))
		for _, s := range f.Sources {
			fmt.Fprintf(&b, "       at %s\n", plain(s))
		}
	}
	if t.Cut {
		b.WriteString("  ...\n")
	}
	return b.String()
}

// plain replaces what can't be printed.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
}

// String is the function's name as it is in the source, where a compiler of Rust or C++ has made a symbol of it.
func (f Frame) String() string {
	if f.Name == "" {
		return "function " + strconv.Itoa(f.Index)
	}
	return demangle.Filter(f.Name, demangle.NoParams, demangle.MaxLength(maxNameBits))
}

// maxNameBits bounds a function's name as it is in the source, which may be far longer than the module's, to 2^10 bytes.
const maxNameBits = 10

// reasons are the specification's words for those of the engines that have others.
var reasons = map[string]string{
	"stack overflow":         "call stack exhausted",
	"invalid table access":   "undefined or out of bounds table element",
	"unaligned atomic":       "unaligned atomic access",
	"expected shared memory": "atomic wait on memory that is not shared",
}

// ParseTrap reads the text in which wazero and its relatives report a trap. It returns false for any other.
func ParseTrap(text string) (*Trap, bool) {
	const prefix, trace, overflow = "wasm error: ", "\nwasm stack trace:\n", "stack overflow"
	if strings.HasPrefix(text, "start function[") {
		_, text, _ = strings.Cut(text, " failed: ")
	}
	if text == overflow { // of which they tell no frames
		return &Trap{Reason: reasons[overflow], Cut: true}, true
	}
	text, ok := strings.CutPrefix(text, prefix)
	if !ok {
		return nil, false
	}
	reason, frames, _ := strings.Cut(text, trace)
	t := &Trap{Reason: reason}
	if spec, ok := reasons[reason]; ok {
		t.Reason = spec
	}
	for line := range strings.Lines(frames) {
		line = strings.TrimSuffix(strings.TrimPrefix(line, "\t"), "\n")
		switch source, isSource := strings.CutPrefix(line, "\t"); {
		case strings.HasPrefix(line, "... "):
			t.Cut = true
		case isSource && len(t.Frames) > 0:
			last := &t.Frames[len(t.Frames)-1]
			last.Sources = append(last.Sources, place(source))
		case !isSource && line != "":
			t.Frames = append(t.Frames, parseFrame(line))
		}
	}
	return t, true
}

// parseFrame reads MODULE.NAME(TYPES) RESULTS, where NAME is $INDEX for a function without a name, and may itself contain
// dots and brackets.
func parseFrame(line string) Frame {
	name := line
	if i := strings.LastIndexByte(strings.TrimSuffix(line, ")"), '('); i > 0 {
		name = line[:i]
	}
	// With several results there is a second pair of brackets.
	if i := strings.LastIndexByte(name, '('); i > 0 && strings.HasSuffix(name, ") ") {
		name = name[:i]
	}
	_, name, _ = strings.Cut(name, ".")
	if digits, ok := strings.CutPrefix(name, "$"); ok {
		if index, err := strconv.ParseUint(digits, 10, 31); err == nil {
			return Frame{Index: int(index)}
		}
	}
	return Frame{Index: -1, Name: name}
}

// place drops what stands before a source: its address in the code.
func place(source string) string {
	if address, rest, ok := strings.Cut(source, ": "); ok && strings.HasPrefix(address, "0x") {
		source = rest
	}
	return strings.TrimSpace(source)
}
