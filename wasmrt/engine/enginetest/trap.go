package enginetest

import (
	"errors"
	"strings"
	"testing"

	"edgepod/wasmrt/engine"
)

// trapCase is a body of function $inner, and the trap that it ends in.
type trapCase struct {
	reason string
	body   string
}

var traps = []trapCase{
	{"unreachable", `(unreachable)`},
	{"out of bounds memory access", `(drop (i32.load (i32.const 0x7fffffff)))`},
	{"integer divide by zero", `(drop (i32.div_u (i32.const 1) (i32.const 0)))`},
	{"integer overflow", `(drop (i32.div_s (i32.const 0x80000000) (i32.const -1)))`},
	{"invalid conversion to integer", `(drop (i32.trunc_f32_s (f32.const nan)))`},
	{"indirect call type mismatch", `(call_indirect (param i32) (i32.const 1) (i32.const 0))`},
	{"undefined or out of bounds table element", `(call_indirect (i32.const 7))`},
	{"call stack exhausted", `(call $inner)`},
}

// testTrap ends a guest by a trap two calls deep, and looks at what is told of it.
func testTrap(t *testing.T, open Open, c trapCase) {
	m := compile(t, open, engine.Config{}, `(module
		(memory 1)
		(table 2 funcref) (elem (i32.const 0) $outer)
		(func $inner `+c.body+`)
		(func $outer (call $inner))
		(func (export "run") (call $outer)))`)
	_, err := start(t, m).Call(t.Context(), "run")
	var trap *engine.Trap
	if !errors.As(err, &trap) || trap.Reason != c.reason {
		t.Fatalf("got %v, want a trap with reason %q", err, c.reason)
	}
	if trap.Cut && len(trap.Frames) == 0 {
		return // an engine may not know the frames of a stack that has overflown
	}
	if len(trap.Frames) == 0 || trap.Frames[0].Name != "inner" || trap.Cut != (c.reason == "call stack exhausted") {
		t.Errorf("frames %+v, cut %v; want function inner first", trap.Frames, trap.Cut)
	}
	if !trap.Cut && !strings.Contains(trap.Trace(), "1: outer") {
		t.Errorf("trace %q, want function outer second", trap.Trace())
	}
}
