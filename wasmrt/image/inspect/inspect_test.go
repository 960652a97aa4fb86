package inspect_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"edgepod/wasmrt/image/imagetest"
	"edgepod/wasmrt/image/inspect"
	"edgepod/wasmrt/image/module"
)

var (
	wasm, sec, text, custom = imagetest.Module, imagetest.Section, imagetest.Text, imagetest.Custom
	component               = imagetest.Component
)

// imports is an import section of functions without parameters.
func imports(names ...[2]string) []byte {
	out := []byte{byte(len(names))}
	for _, n := range names {
		out = slices.Concat(out, text(n[0]), text(n[1]), []byte{0, 0})
	}
	return sec(2, out...)
}

func export(name string) []byte { return sec(7, append(append([]byte{1}, text(name)...), 0, 0)...) }

// world offers all functions of WASI but those whose name has "warp" in it.
var world = inspect.World{Offered: func(im module.Import) error {
	if im.Module != "wasi_snapshot_preview1" || strings.Contains(im.Name, "warp") {
		return errors.New("the module imports " + im.Module + "." + im.Name + ", which is not offered")
	}
	return nil
}}

func describe(t *testing.T, data []byte) *inspect.Report {
	t.Helper()
	r := &inspect.Report{Reference: "m.wasm", Source: "file"}
	if err := world.Describe(bytes.NewReader(data), int64(len(data)), r); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestAReportGroupsImportsByWhatTheyAreFor(t *testing.T) {
	const p1 = "wasi_snapshot_preview1"
	data := wasm(custom("name", ""), sec(1, 1, 0x60, 0, 0),
		imports([2]string{p1, "random_get"}, [2]string{p1, "path_open"}, [2]string{p1, "fd_read"}, [2]string{p1, "poll_oneoff"}, [2]string{p1, "sock_accept"},
			[2]string{p1, "environ_get"}, [2]string{p1, "proc_exit"}, [2]string{"env", "f"}, [2]string{p1, "fd_warp"}),
		sec(3, 1, 0), sec(5, 1, 1, 2, 9), export("_start"), sec(10, 1, 2, 0, 0x0b))
	r := describe(t, data)
	got := map[string][]string{}
	for _, c := range r.Module.Imports {
		for _, im := range c.Imports {
			name := im.Name
			if !im.Offered {
				name += "!"
			}
			got[c.Name] = append(got[c.Name], name)
		}
	}
	want := map[string][]string{
		"files": {"fd_read", "fd_warp!", "path_open"}, "clock": {"poll_oneoff"}, "random": {"random_get"}, "sockets": {"sock_accept"},
		"environment": {"environ_get"}, "process": {"proc_exit"}, "unknown": {"f!"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if r.Runs || len(r.Problems) != 2 || !strings.Contains(r.Problems[0], "env.f, which is not offered; a function was left undefined") {
		t.Errorf("runs %v, problems %q", r.Runs, r.Problems)
	}
	nine := uint64(9)
	if diff := cmp.Diff([]inspect.Limits{{Min: 2, Max: &nine}}, r.Module.Memories); diff != "" {
		t.Error(diff)
	}
	encoded, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var again inspect.Report
	if err := json.Unmarshal(encoded, &again); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r, &again); diff != "" {
		t.Errorf("after JSON: %s", diff)
	}
}

func TestWhatIsWrongIsSaid(t *testing.T) {
	runs := wasm(sec(1, 1, 0x60, 0, 0), sec(3, 1, 0), export("_start"), sec(10, 1, 2, 0, 0x0b))
	for name, tt := range map[string]struct {
		data []byte
		kind string
		want string // "" where it runs
	}{
		"module":            {runs, "core module", ""},
		"adapted component": {component(runs), "component", ""},
		"real component":    {component(wasm(sec(1, 1, 0x60, 0, 0), imports([2]string{"wasi:http/types@0.2.0", "f"}))), "component", "wasi:http/types@0.2.0"},
		"memory64":          {wasm(sec(1, 1, 0x60, 0, 0), sec(3, 1, 0), sec(5, 1, 4, 1), export("_start"), sec(10, 1, 2, 0, 0x0b)), "core module", "wasm32"},
		"exceptions":        {wasm(sec(1, 1, 0x60, 0, 0), sec(3, 1, 0), sec(13, 1, 0, 0), export("_start"), sec(10, 1, 2, 0, 0x0b)), "core module", "-fno-exceptions"},
		"unknown":           {wasm(sec(1, 1, 0x60, 0, 0), sec(3, 1, 0), export("_start"), sec(10, 1, 3, 0, 0xff, 0x0b)), "core module", "instruction 0xff"},
		"large table":       {wasm(sec(1, 1, 0x60, 0, 0), sec(3, 1, 0), sec(4, 1, 0x70, 0, 0xff, 0xff, 0x7f), export("_start"), sec(10, 1, 2, 0, 0x0b)), "core module", "table of 2097151"},
		"reactor":           {wasm(export("_initialize")), "core module", "reactor"},
		"damaged":           {wasm(sec(1, 1)), "core module", "damaged"},
		"text":              {[]byte("hello"), "no WebAssembly that is known here", "text file"},
		"empty":             {nil, "no WebAssembly that is known here", "empty file"},
	} {
		r := describe(t, tt.data)
		all := strings.Join(r.Problems, "\n")
		if r.Kind != tt.kind || r.Runs != (tt.want == "") || !strings.Contains(all, tt.want) {
			t.Errorf("%s: %s, runs %v, %q; want %s, %q", name, r.Kind, r.Runs, all, tt.kind, tt.want)
		}
	}
}

func TestTheTextTellsWhatTheReportHolds(t *testing.T) {
	const p1 = "wasi_snapshot_preview1"
	r := describe(t, wasm(custom("producers", "\x01\x08language\x01\x04Rust\x00"), sec(1, 1, 0x60, 2, 0x7f, 0x7e, 1, 0x7d), imports([2]string{p1, "fd_read"}, [2]string{p1, "warp"}),
		sec(3, 1, 0), sec(4, 1, 0x70, 0, 3), sec(5, 1, 3, 1, 2), sec(7, append(append([]byte{1}, text("_start")...), 0, 2)...), sec(8, 2), sec(10, 1, 2, 0, 0x0b)))
	shown := r.Text(0)
	for _, want := range []string{
		"Runs here:       no\n", "  Language:      rust\n", "  Written in:    Rust", "  Memory:        1 to 2 pages of 64Ki, shared\n", "  Table:         3 and more elements\n",
		"  Starts with:   function 2\n", "Imports: files\n  wasi_snapshot_preview1.fd_read (i32 i64) -> (f32)\n", "warp (i32 i64) -> (f32)   ! not offered\n",
		"  function  _start\n", "  threads\n", "  Back-traces:   with numbers of functions only",
	} {
		if !strings.Contains(shown, want) {
			t.Errorf("there is no %q in\n%s", want, shown)
		}
	}
}

func TestForeignNamesDoNothingOnATerminal(t *testing.T) {
	evil := "\x1b]0;owned\x07\r\n" + strings.Repeat("x", 1000) + "\xff"
	r := describe(t, wasm(custom(evil, ""), sec(1, 1, 0x60, 0, 0), imports([2]string{evil, evil}), sec(7, append(append([]byte{1}, text(evil)...), 0, 0)...)))
	r.Image = &inspect.Image{Entrypoint: []string{evil}, ModulePath: evil, Layers: []inspect.Layer{{MediaType: evil}}}
	shown := r.Text(0)
	for line := range strings.Lines(shown) {
		if strings.ContainsAny(line, "\x1b\x07\r") || !utf8.ValidString(line) || len(line) > 1200 {
			t.Errorf("line of %d bytes: %q", len(line), line)
		}
	}
	if got := strings.Count(describe(t, wasm(custom("a", ""), custom("b", ""), custom("c", ""))).Text(2), "custom"); got != 2 {
		t.Errorf("%d sections are shown, want 2", got)
	}
}

func FuzzDescribe(f *testing.F) {
	f.Add(wasm(custom("name", "x"), sec(1, 1, 0x60, 0, 0), imports([2]string{"a", "b"}), sec(3, 1, 0), export("_start"), sec(10, 1, 2, 0, 0x0b)))
	f.Add([]byte("\x00asm\x0d\x00\x01\x00\x01\x08\x00asm\x01\x00\x00\x00"))
	f.Add([]byte("#!/bin/sh"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := &inspect.Report{}
		if err := world.Describe(bytes.NewReader(data), int64(len(data)), r); err != nil {
			t.Fatal(err)
		}
		if r.Runs == (len(r.Problems) > 0) {
			t.Errorf("runs %v with problems %q", r.Runs, r.Problems)
		}
		r.Text(10)
	})
}
