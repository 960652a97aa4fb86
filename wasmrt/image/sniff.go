package image

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	"edgepod/wasmrt/image/module"
)

// sniffSize is how much of a file sniff wants to see.
const sniffSize = 64 << 10

// sniff says in the user's words what a file is by its beginning, if it is not WebAssembly of a known kind: "" where it is.
func sniff(head []byte) string {
	switch module.Sniff(head) {
	case module.NotWasm:
		return "it is not a WebAssembly module but " + foreign(head)
	case module.Cut:
		return "it is only the beginning of a WebAssembly module: the file is cut off"
	case module.Unsupported:
		return fmt.Sprintf("it is WebAssembly of an unknown version (% x); only core modules of version 1 run", head[module.HeaderSize/2:module.HeaderSize])
	}
	return ""
}

// foreign says what data that isn't WebAssembly is, and what to do.
func foreign(data []byte) string {
	const use = "; build the program for WebAssembly, such as with GOOS=wasip1 GOARCH=wasm go build, Rust's target wasm32-wasip1 or clang --target=wasm32-wasi"
	const tarMagic, tarMagicAt = "ustar", 257
	switch {
	case len(data) == 0:
		return "an empty file"
	case bytes.HasPrefix(data, []byte("\x7fELF")):
		return "a Linux program (ELF)" + use
	case bytes.HasPrefix(data, []byte("MZ")):
		return "a Windows program" + use
	case bytes.HasPrefix(data, []byte("\xcf\xfa\xed\xfe")), bytes.HasPrefix(data, []byte("\xca\xfe\xba\xbe")):
		return "a macOS program or a Java class" + use
	case len(data) > tarMagicAt+len(tarMagic) && string(data[tarMagicAt:tarMagicAt+len(tarMagic)]) == tarMagic:
		return archive(data)
	case bytes.HasPrefix(data, []byte("\x1f\x8b")), bytes.HasPrefix(data, []byte("\x28\xb5\x2f\xfd")):
		return "a compressed file; unpack it first"
	case bytes.HasPrefix(data, []byte("PK\x03\x04")):
		return "a zip archive; unpack it first"
	case bytes.HasPrefix(data, []byte("#!")):
		return "a script" + use
	case bytes.HasPrefix(bytes.TrimSpace(data[:min(len(data), 512)]), []byte("(module")):
		return "a module in text format; translate it first, such as with wat2wasm"
	case isText(data[:min(len(data), 512)]):
		return "a text file" + use
	default:
		return "a file of an unknown kind" + use
	}
}

// archive tells a container image saved as a tar file from other tar files, by the names of its first entries.
func archive(data []byte) string {
	head := data[:min(len(data), 1<<16)]
	for _, name := range []string{"oci-layout", "manifest.json", "blobs/sha256", "repositories", "layer.tar"} {
		if bytes.Contains(head, []byte(name)) {
			return "an archive of a container image; name the .wasm file itself. Linux images do not run here: a container is a WASI module"
		}
	}
	return "a tar archive; unpack it and name the .wasm file itself"
}

func isText(data []byte) bool {
	for i, r := range string(data) {
		if r == utf8.RuneError && i < len(data)-utf8.UTFMax || r < ' ' && r != '\n' && r != '\r' && r != '\t' {
			return false
		}
	}
	return true
}

// check says why a core module cannot run as a container: "" where it can.
func check(m *module.Module, offered func(module.Import) error, supported func(module.Proposal) bool) string {
	if what := lacking(m, supported); what != "" {
		return what
	}
	for _, im := range m.Imports {
		if err := offered(im); err != nil {
			return err.Error() + hint(im.Module)
		}
	}
	hasInit := false
	for _, ex := range m.Exports {
		if ex.Kind == module.KindFunc && ex.Name == "_start" {
			return ""
		}
		hasInit = hasInit || ex.Name == "_initialize"
	}
	if hasInit {
		return "it is a WASI reactor (a library: it exports _initialize and no _start); build it as a command, a program with a main function"
	}
	return "it exports no function _start, so there is nothing to run; build it as a WASI command, a program with a main function"
}

// lacking names the proposals that a module needs and the engine does not have.
func lacking(m *module.Module, supported func(module.Proposal) bool) string {
	for _, p := range m.Needs {
		if !supported(p) {
			return fmt.Sprintf("it needs an extension of WebAssembly that the engine does not have: %s%s", p, remedy(p))
		}
	}
	if m.Unknown != "" {
		return fmt.Sprintf("it needs something that no known extension of WebAssembly has (%s): build it for WebAssembly 2.0 at most", m.Unknown)
	}
	return ""
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

// unsupported tells the proposals that Config.Supported denies where it is not set: what the engine lacks, or has wrong.
func unsupported(p module.Proposal) bool {
	switch p {
	case module.RelaxedSIMD, module.Exceptions, module.OldExceptions, module.FunctionRefs, module.GC, module.Memory64, module.MultiMemory,
		module.CustomPageSizes, module.WideArithmetic, module.StackSwitching, module.ComponentModel:
		return true
	}
	return false
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
