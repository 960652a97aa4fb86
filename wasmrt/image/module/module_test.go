package module_test

import (
	"bytes"
	"encoding/binary"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"edgepod/wasmrt/image/imagetest"
	"edgepod/wasmrt/image/module"
)

var wasm, sec, text, custom = imagetest.Module, imagetest.Section, imagetest.Text, imagetest.Custom

// body is a module with one function of these instructions.
func body(code ...byte) []byte {
	code = append(code, 0x0b)
	return wasm(sec(1, 1, 0x60, 0, 0), sec(3, 1, 0), sec(10, slices.Concat([]byte{1}, binary.AppendUvarint(nil, uint64(len(code)+1)), []byte{0}, code)...))
}

func read(data []byte) (*module.Module, error) {
	return module.Read(bytes.NewReader(data), int64(len(data)))
}

func TestProposalsAreFound(t *testing.T) {
	for name, tt := range map[string]struct {
		wasm []byte
		want []module.Proposal
	}{
		"nothing":            {body(), nil},
		"memory64":           {wasm(sec(5, 1, 4, 1)), []module.Proposal{module.Memory64}},
		"wide beyond 32 bit": {wasm(sec(5, 1, 5, 1, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01)), []module.Proposal{module.Memory64}},
		"shared":             {wasm(sec(5, 1, 3, 1, 1)), []module.Proposal{module.Threads}},
		"two memories":       {wasm(sec(5, 2, 0, 1, 0, 1)), []module.Proposal{module.MultiMemory}},
		"page size":          {wasm(sec(5, 1, 8, 1, 0)), []module.Proposal{module.CustomPageSizes}},
		"struct":             {wasm(sec(1, 1, 0x5f, 1, 0x7f, 1)), []module.Proposal{module.GC}},
		"rec group":          {wasm(sec(1, 1, 0x4e, 2, 0x50, 0, 0x60, 0, 0, 0x5e, 0x78, 1)), []module.Proposal{module.GC}},
		"continuation":       {wasm(sec(1, 2, 0x60, 0, 0, 0x5d, 0)), []module.Proposal{module.StackSwitching}},
		"typed reference":    {wasm(sec(1, 1, 0x60, 1, 0x64, 0x00, 0)), []module.Proposal{module.FunctionRefs}},
		"tag":                {wasm(sec(1, 1, 0x60, 0, 0), sec(13, 1, 0, 0)), []module.Proposal{module.Exceptions}},
		"old try":            {body(0x06, 0x40, 0x19, 0x0b), []module.Proposal{module.OldExceptions}},
		"try_table":          {body(0x1f, 0x40, 1, 2, 0, 0x0b), []module.Proposal{module.Exceptions}},
		"return_call":        {body(0x12, 0), []module.Proposal{module.TailCall}},
		"extended const":     {wasm(sec(6, 1, 0x7f, 0, 0x41, 1, 0x41, 2, 0x6a, 0x0b)), []module.Proposal{module.ExtendedConst}},
		"relaxed":            {body(0xfd, 0x80, 0x02, 0x1a), []module.Proposal{module.RelaxedSIMD, module.SIMD}},
		"wide arithmetic":    {body(0xfc, 19), []module.Proposal{module.WideArithmetic}},
		"atomic":             {body(0xfe, 0x10, 2, 0), []module.Proposal{module.Threads}},
		"memory index":       {body(0x28, 0x42, 1, 0), []module.Proposal{module.MultiMemory}},
		"ref.eq":             {body(0xd3), []module.Proposal{module.GC}},
		"array.len":          {body(0xfb, 15), []module.Proposal{module.GC}},
		"mutable import":     {wasm(sec(2, slices.Concat([]byte{1}, text("m"), text("g"), []byte{3, 0x7f, 1})...)), []module.Proposal{module.MutableGlobal}},
	} {
		m, err := read(tt.wasm)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(tt.want, m.Needs); diff != "" || m.Unknown != "" {
			t.Errorf("%s: needs %s, unknown %q", name, diff, m.Unknown)
		}
	}
}

func TestUnknownInstructionsAreNamed(t *testing.T) {
	for _, code := range [][]byte{{0x27}, {0xff}, {0xe0}, {0xfc, 18}, {0xfd, 0x94, 0x02}, {0xfb, 31}} {
		m, err := read(body(code...))
		if err != nil || !strings.Contains(m.Unknown, "instruction 0x") {
			t.Errorf("% x: unknown %+v, %v", code, m, err)
		}
	}
}

func TestMalformedModulesAreRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		wasm []byte
		want string
	}{
		"cut section":           {wasm([]byte{1, 5, 1}), "cut off"},
		"cut size":              {wasm([]byte{1, 0x80}), "cut off"},
		"unknown section":       {wasm(sec(14)), "unknown kind 14"},
		"twice":                 {wasm(sec(1, 0), sec(1, 0)), "twice"},
		"order":                 {wasm(sec(3, 0), sec(1, 0)), "out of order"},
		"data count after code": {wasm(sec(10, 0), sec(12, 0)), "out of order"},
		"many types":            {wasm(sec(1, 0xff, 0xff, 0xff, 0x7f)), "more types"},
		"number too long":       {wasm(sec(1, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00)), "too long"},
		"type not there":        {wasm(sec(2, slices.Concat([]byte{1}, text("m"), text("f"), []byte{0, 7})...)), "not there"},
		"long name":             {wasm(sec(2, 1, 0xff, 0xff, 0xff, 0x0f)), "longer than any"},
		"leftover":              {wasm(sec(1, 0, 0)), "follow its end"},
		"functions without":     {wasm(sec(1, 1, 0x60, 0, 0), sec(3, 1, 0), sec(10, 0)), "1 functions are announced and 0"},
		"function beyond":       {wasm(sec(1, 1, 0x60, 0, 0), sec(3, 1, 0), sec(10, 1, 9, 0)), "cut off"},
		"instruction beyond":    {wasm(sec(1, 1, 0x60, 0, 0), sec(3, 1, 0), sec(10, 1, 2, 0, 0x41, 1)), "beyond the end"},
		"huge br_table":         {body(0x0e, 0xff, 0xff, 0xff, 0xff, 0x0f), "section"},
		"data beyond":           {wasm(sec(11, 1, 1, 0x7f)), "cut off"},
	} {
		m, err := read(tt.wasm)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %+v, %v, want an error with %q", name, m, err, tt.want)
		}
	}
}

func TestCustomSectionsAreFoundAndTakenAway(t *testing.T) {
	data := wasm(custom("name", "\x01\x04\x01\x00\x01f"), sec(1, 1, 0x60, 0, 0), custom(".debug_info", "dwarf"), sec(4, 2, 0x70, 0, 5, 0x6f, 1, 1, 10), custom(".debug_line", "lines"))
	m, err := read(data)
	if err != nil {
		t.Fatal(err)
	}
	if s, ok := m.Custom("name"); !ok || s.Size != 6 || string(data[s.Offset:s.Offset+s.Size]) != "\x01\x04\x01\x00\x01f" {
		t.Errorf("name section: %+v, %v", s, ok)
	}
	var slim, debug bytes.Buffer
	if err := m.Slim(bytes.NewReader(data), &slim); err != nil {
		t.Fatal(err)
	}
	if want := wasm(sec(1, 1, 0x60, 0, 0), sec(4, 2, 0x70, 1, 5, 0x80, 0x80, 0x40, 0x6f, 1, 1, 10)); !bytes.Equal(slim.Bytes(), want) {
		t.Errorf("slim % x, want % x", slim.Bytes(), want)
	}
	if err := m.Debug(bytes.NewReader(data), &debug); err != nil || !m.HasDebug() {
		t.Fatal(err)
	}
	if want := wasm(custom(".debug_info", "dwarf"), custom(".debug_line", "lines")); !bytes.Equal(debug.Bytes(), want) {
		t.Errorf("debug % x, want % x", debug.Bytes(), want)
	}
}

func producers(entries ...[3]string) []byte {
	out := binary.AppendUvarint(nil, uint64(len(entries)))
	for _, e := range entries {
		out = slices.Concat(out, text(e[0]), []byte{1}, text(e[1]), text(e[2]))
	}
	return custom("producers", string(out))
}

func TestLanguageIsGuessed(t *testing.T) {
	abort := sec(2, slices.Concat([]byte{1}, text("env"), text("abort"), []byte{0, 0})...)
	for want, data := range map[string][]byte{
		"go":             wasm(custom("go:buildid", "x"), producers([3]string{"language", "Go", "1.26"})),
		"tinygo":         wasm(producers([3]string{"language", "C11", ""}, [3]string{"processed-by", "TinyGo", "0.35"})),
		"rust":           wasm(producers([3]string{"language", "C11", ""}, [3]string{"language", "Rust", ""})),
		"c++":            wasm(producers([3]string{"language", "C11", ""}, [3]string{"language", "C_plus_plus_14", ""})),
		"c":              wasm(producers([3]string{"language", "C99", ""})),
		"zig":            wasm(producers([3]string{"language", "Zig", ""})),
		"assemblyscript": wasm(sec(1, 1, 0x60, 4, 0x7f, 0x7f, 0x7f, 0x7f, 0), abort),
		"":               wasm(custom("producers", "\xff\xff")),
	} {
		m, err := read(data)
		if err != nil || m.Language() != want {
			t.Errorf("%v, %v, want %q", m, err, want)
		}
	}
}

func TestComponentsAreTakenApart(t *testing.T) {
	core := wasm(sec(1, 1, 0x60, 0, 0), sec(2, slices.Concat([]byte{1}, text("wasi_snapshot_preview1"), text("proc_exit"), []byte{0, 0})...))
	other := wasm(sec(1, 1, 0x60, 0, 0), sec(2, slices.Concat([]byte{1}, text("wasi:io/streams@0.2.0"), text("f"), []byte{0, 0})...))
	component := func(parts ...[]byte) []byte {
		return append([]byte("\x00asm\x0d\x00\x01\x00"), slices.Concat(parts...)...)
	}
	for name, tt := range map[string]struct {
		data []byte
		want string
	}{
		"adapted":   {component(sec(7, 1, 2, 3), sec(1, core...), sec(1, other...)), ""},
		"preview 2": {component(sec(1, other...)), "wasi:io/streams@0.2.0"},
		"empty":     {component(), "no core module"},
		"nested":    {component(sec(4, component(sec(1, core...))...)), "no core module"},
		"in itself": {component(sec(1, component()...)), "no core module"},
		"cut":       {component(sec(1, core[:20]...)), "cut off"},
	} {
		src := bytes.NewReader(tt.data)
		l, err := module.ReadComponent(src, int64(len(tt.data)))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		part, m, err := l.Main(src)
		if tt.want == "" {
			if err != nil || m.Size != int64(len(core)) || part.Size() != m.Size || len(m.Imports) != 1 {
				t.Errorf("%s: %+v, %v", name, m, err)
			}
		} else if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want an error with %q", name, err, tt.want)
		}
	}
}

// Many imports of one large type are a small module, and would be a large text.
func TestParametersOfImportsAreBounded(t *testing.T) {
	large := slices.Concat([]byte{1, 0x60}, binary.AppendUvarint(nil, 1000), bytes.Repeat([]byte{0x7f}, 1000), []byte{0})
	for count, want := range map[int]string{1000: "", 2000: "more parameters"} {
		imports := binary.AppendUvarint(nil, uint64(count))
		imports = append(imports, bytes.Repeat(slices.Concat(text("m"), text("f"), []byte{0, 0}), count)...)
		_, err := read(wasm(sec(1, large...), sec(2, imports...)))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%d imports: %v, want an error with %q", count, err, want)
		}
	}
}

func TestHostileModulesTakeLittleMemory(t *testing.T) {
	repeat := func(id byte, n int, item ...byte) []byte {
		return sec(id, append(binary.AppendUvarint(nil, uint64(n)), bytes.Repeat(item, n)...)...)
	}
	for name, data := range map[string][]byte{
		"types":           wasm(repeat(1, 300_000, 0x60, 1, 0x7f, 0)),
		"large types":     wasm(repeat(1, 9_000, slices.Concat([]byte{0x60}, binary.AppendUvarint(nil, 900), bytes.Repeat([]byte{0x7f}, 900), []byte{0})...)),
		"exports":         wasm(repeat(7, 300_000, 1, 'x', 0, 0)),
		"imports":         wasm(repeat(2, 100_000, slices.Concat(text("module"), text("name"), []byte{2, 0, 1})...)),
		"data":            wasm(repeat(11, 300_000, 1, 8, 1, 2, 3, 4, 5, 6, 7, 8)),
		"elements":        wasm(repeat(9, 300_000, 0, 0x41, 0, 0x0b, 1, 0)),
		"functions":       wasm(repeat(3, 1_000_000, 0)),
		"custom sections": wasm(bytes.Repeat(custom(strings.Repeat("n", 1000), "x"), 9_000)),
		"code":            body(bytes.Repeat([]byte{0x41, 1, 0x1a}, 1<<20)...),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := read(data)
		runtime.ReadMemStats(&after)
		const most = 64 << 20 // allocated in all, of which a part at a time
		if took := after.TotalAlloc - before.TotalAlloc; took > most {
			t.Errorf("%s: %d MiB for %d MiB, %v", name, took>>20, len(data)>>20, err)
		}
	}
}

func FuzzModule(f *testing.F) {
	f.Add(body())
	f.Add(body(0xfd, 12, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16))
	f.Add(body(0x1f, 0x40, 1, 2, 0, 0x0b))
	f.Add(wasm(sec(4, 2, 0x70, 0, 5, 0x6f, 1, 1, 10), custom("name", "\x01\x04\x01\x00\x01f"), producers([3]string{"language", "Go", ""})))
	f.Add(wasm(sec(1, 1, 0x4e, 2, 0x50, 0, 0x60, 0, 0, 0x5e, 0x78, 1), sec(9, 1, 6, 0, 0x41, 0, 0x0b, 0x70, 1, 0xd2, 0, 0x0b)))
	f.Add(append([]byte("\x00asm\x0d\x00\x01\x00"), sec(1, body()...)...))
	f.Fuzz(func(t *testing.T, data []byte) {
		src := bytes.NewReader(data)
		switch module.Sniff(data) {
		case module.Component:
			if l, err := module.ReadComponent(src, int64(len(data))); err == nil {
				_, _, _ = l.Main(src) // must only not panic
			}
			return
		case module.Core:
		default:
			return
		}
		m, err := read(data)
		if err != nil {
			return
		}
		var slim bytes.Buffer
		if err := m.Slim(src, &slim); err != nil {
			return
		}
		again, err := read(slim.Bytes())
		if err != nil {
			t.Fatalf("the slim module can't be read: %v", err)
		}
		var twice bytes.Buffer
		if err := again.Slim(bytes.NewReader(slim.Bytes()), &twice); err != nil || !bytes.Equal(slim.Bytes(), twice.Bytes()) {
			t.Errorf("slimming twice is not the same: %v", err)
		}
		if diff := cmp.Diff(m.Needs, again.Needs); diff != "" {
			t.Errorf("the slim module needs something else: %s", diff)
		}
	})
}

// What a module calls its imports may be long, and hold anything.
func TestErrorsShowForeignNamesShortAndQuoted(t *testing.T) {
	name := "\x1b[2J" + strings.Repeat("x", 50_000)
	for what, end := range map[string][]byte{"a type that is not there": {0, 7}, "an unknown kind": {9}} {
		_, err := read(wasm(sec(2, slices.Concat([]byte{1}, text("m"), text(name), end)...)))
		if err == nil || len(err.Error()) > 300 || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("%s: %.400v", what, err)
		}
	}
}
