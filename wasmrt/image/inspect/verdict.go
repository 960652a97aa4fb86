package inspect

import (
	"fmt"
	"io"

	"edgepod/wasmrt/image/module"
)

// Problem is an error whose text is for the user: why something does not run here, and what to do.
type Problem string

func (p Problem) Error() string { return string(p) }

// World is what there is for modules to use.
type World struct {
	// Offered returns an error for the user, naming the import, for what the runtime does not have, else nil.
	Offered func(module.Import) error
	// Supported tells whether the engine has a proposal; nil: as the function of that name says.
	Supported func(module.Proposal) bool
}

func (w World) supports(p module.Proposal) bool {
	if w.Supported == nil {
		return Supported(p)
	}
	return w.Supported(p)
}

// Open reads a module, or the one that runs in a component, which is the part of src that it returns. The error is a Problem
// where the file is to blame.
func Open(src io.ReaderAt, size int64) (io.ReaderAt, *module.Module, error) {
	head := make([]byte, min(size, SniffSize))
	if _, err := io.ReadFull(io.NewSectionReader(src, 0, size), head); err != nil {
		return nil, nil, err
	}
	if module.Sniff(head) == module.Component {
		return openComponent(src, size)
	}
	if what := Sniff(head); what != "" {
		return nil, nil, Problem(what)
	}
	m, err := module.Read(src, size)
	if err != nil {
		return nil, nil, Problem("it is a damaged WebAssembly module: " + err.Error())
	}
	return src, m, nil
}

// openComponent cuts the module out of a component that runs without the rest.
func openComponent(src io.ReaderAt, size int64) (io.ReaderAt, *module.Module, error) {
	layout, err := module.ReadComponent(src, size)
	if err != nil {
		return nil, nil, Problem("it is a damaged component: " + err.Error())
	}
	part, m, err := layout.Main(src)
	if err != nil {
		return nil, nil, Problem(fmt.Sprintf("it is a component (WASI 0.2) that does not run without a host for components: %s; "+
			"build the program as a core module for WASI preview 1, such as with Rust's target wasm32-wasip1, with TinyGo's -target=wasip1, "+
			"or without the step that makes the component", err))
	}
	return part, m, nil
}

// Problems says why a core module cannot run as a container, the worst first; none: it can.
func (w World) Problems(m *module.Module) (out []Problem) {
	add := func(format string, args ...any) { out = append(out, Problem(fmt.Sprintf(format, args...))) }
	for _, p := range m.Needs {
		if !w.supports(p) {
			add("it needs an extension of WebAssembly that the engine does not have: %s%s", p, remedy(p))
		}
	}
	if m.Unknown != "" {
		add("it needs something that no known extension of WebAssembly has (%s): build it for WebAssembly 2.0 at most", m.Unknown)
	}
	for _, im := range m.Imports {
		if err := w.Offered(im); err != nil {
			add("%s%s", Plain(err.Error()), hint(im.Module))
		}
	}
	for _, t := range m.Tables {
		if t.Min > module.MaxTable {
			add("it cannot run here: it asks for a table of %d elements; the most is %d", t.Min, module.MaxTable)
		}
	}
	switch start, initialize := exports(m, "_start"), exports(m, "_initialize"); {
	case start:
	case initialize:
		add("it is a WASI reactor (a library: it exports _initialize and no _start); build it as a command, a program with a main function")
	default:
		add("it exports no function _start, so there is nothing to run; build it as a WASI command, a program with a main function")
	}
	return out
}

func exports(m *module.Module, name string) bool {
	for _, ex := range m.Exports {
		if ex.Kind == module.KindFunc && ex.Name == name {
			return true
		}
	}
	return false
}

// remedy says how a program is built without a proposal.
func remedy(p module.Proposal) string {
	switch p {
	case module.Exceptions, module.OldExceptions:
		return "; build it without exceptions (-fno-exceptions, Rust's panic=abort)"
	case module.Memory64:
		return "; build it for 32-bit addresses (wasm32)"
	case module.GC, module.FunctionRefs, module.StackSwitching:
		return "; languages with a collector run where their compiler brings its own (Go, TinyGo, AssemblyScript)"
	case module.RelaxedSIMD:
		return "; build it without -mrelaxed-simd"
	}
	return "; build it for WebAssembly 2.0"
}

// Supported tells of a proposal whether the engine has it, and has it right.
func Supported(p module.Proposal) bool {
	switch p {
	case module.RelaxedSIMD, module.Exceptions, module.OldExceptions, module.FunctionRefs, module.GC, module.Memory64, module.MultiMemory,
		module.CustomPageSizes, module.WideArithmetic, module.StackSwitching, module.ComponentModel:
		return false
	}
	return true
}

// hint says what usually is behind an import of a module that no one offers outside of a browser.
func hint(module string) string {
	switch module {
	case "gojs", "go":
		return "; the program was built for a browser (GOOS=js): build it with GOOS=wasip1 GOARCH=wasm"
	case "wbg", "__wbindgen_placeholder__", "./index_bg.js":
		return "; the program was built with wasm-bindgen for a browser: build it for wasm32-wasip1"
	case "env":
		return "; a function was left undefined when the program was linked, or it was built by Emscripten for a browser: " +
			"build it for wasm32-wasip1 (wasm32-wasi)"
	}
	return "; offered are the functions of wasi_snapshot_preview1 and wasi_unstable"
}
