package engine_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"edgepod/wasmrt/engine"
)

func TestTrapsAreReadFromTheEnginesText(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want *engine.Trap
	}{
		"frames with and without names": {
			"wasm error: unreachable\nwasm stack trace:\n\t.$12(i32,i64) (i32,i32)\n\t.main.(*T).Do(i32) i32\n\t.core::fmt::f()\n\twasi.fd_write(i32) i32",
			&engine.Trap{Reason: "unreachable", Frames: []engine.Frame{
				{Index: 12}, {Index: -1, Name: "main.(*T).Do"}, {Index: -1, Name: "core::fmt::f"}, {Index: -1, Name: "fd_write"},
			}},
		},
		"sources": {
			"wasm error: integer divide by zero\nwasm stack trace:\n\t.div(i32) i32\n\t\t0x1f: /src/a.c:3:5 (inlined)\n\t\t      /src/b.c:9:1\n\t.$1()",
			&engine.Trap{Reason: "integer divide by zero", Frames: []engine.Frame{
				{Index: -1, Name: "div", Sources: []string{"/src/a.c:3:5 (inlined)", "/src/b.c:9:1"}}, {Index: 1},
			}},
		},
		"many frames": {
			"wasm error: out of bounds memory access\nwasm stack trace:\n\t.f()\n\t... maybe followed by omitted frames",
			&engine.Trap{Reason: "out of bounds memory access", Frames: []engine.Frame{{Index: -1, Name: "f"}}, Cut: true},
		},
		"a number that is none":    {"wasm error: unreachable\nwasm stack trace:\n\t.$x()", &engine.Trap{Reason: "unreachable", Frames: []engine.Frame{{Index: -1, Name: "$x"}}}},
		"no frames":                {"wasm error: unreachable", &engine.Trap{Reason: "unreachable"}},
		"an overflow":              {"stack overflow", &engine.Trap{Reason: "call stack exhausted", Cut: true}},
		"in the start function":    {"start function[3] failed: wasm error: unaligned atomic\nwasm stack trace:\n", &engine.Trap{Reason: "unaligned atomic access"}},
		"an error of another kind": {"exit 5 (recovered by wazero)\nwasm stack trace:\n\t.f()", nil},
	} {
		got, ok := engine.ParseTrap(c.text)
		if ok != (c.want != nil) {
			t.Errorf("%s: a trap: %v", name, ok)
		} else if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestTraceShowsFramesAndSources(t *testing.T) {
	trap := engine.Trap{Reason: "unreachable", Cut: true, Frames: []engine.Frame{
		{Index: -1, Name: "main.f", Sources: []string{"a.go:3:1"}}, {Index: 4},
	}}
	const want = "  0: main.f\n       at a.go:3:1\n  1: function 4\n  ...\n"
	if got := trap.Trace(); got != want || trap.Error() != "wasm trap: unreachable" {
		t.Errorf("%s:\n%s, want\n%s", trap.Error(), got, want)
	}
}

func TestNamesInATraceAreThoseOfTheSource(t *testing.T) {
	for symbol, want := range map[string]string{
		"_ZN4boom6lookup17hd8aa969856f6b497E":                        "boom::lookup",
		"_ZN29_$LT$a..B$u20$as$u20$a..C$GT$3get17h0123456789abcdefE": "<a::B as a::C>::get",
		"_RNvNtCs1234_7mycrate3foo3bar":                              "mycrate::foo::bar",
		"_ZNSt6vectorIiSaIiEE9push_backEOi":                          "std::vector<int, std::allocator<int> >::push_back",
		"__main_void":                                                "__main_void",
		"runtime.main":                                               "runtime.main",
		"_ZN":                                                        "_ZN",
	} {
		if got := (engine.Frame{Name: symbol}).String(); got != want {
			t.Errorf("%s is shown as %q, want %q", symbol, got, want)
		}
	}
	for _, part := range []string{"_ZN", "_RI", "_Z1fI" + "J", "_Z1f" + "P", "_ZSt", "_ZN1aI"} {
		long := part + strings.Repeat(part[len(part)-1:], 1<<10)
		if got := (engine.Frame{Name: long}).String(); len(got) > 4<<10 {
			t.Errorf("%.20s… becomes %d bytes", long, len(got))
		}
	}
}

func TestNamesInATraceDoNothing(t *testing.T) {
	trap := engine.Trap{Frames: []engine.Frame{
		{Name: "clear\x1b[2Jscreen\n  1: forged\r\u202e\xff größe"},
		{Index: 7, Sources: []string{"a\x07.c:1\n:2"}},
	}}
	const want = "  0: clear?[2Jscreen?  1: forged??? größe\n  1: function 7\n       at a?.c:1?:2\n"
	if got := trap.Trace(); got != want {
		t.Errorf("trace %q, want %q", got, want)
	}
}

func FuzzParseTrap(f *testing.F) {
	f.Add("wasm error: unreachable\nwasm stack trace:\n\t.$12(i32,i64) (i32,i32)\n\t\t0x1: x.c:1:1\n\t... maybe")
	f.Fuzz(func(t *testing.T, text string) {
		if trap, ok := engine.ParseTrap(text); ok && trap.Trace() == "" && (len(trap.Frames) > 0 || trap.Cut) {
			t.Errorf("%q: frames are not shown", text)
		}
	})
}
