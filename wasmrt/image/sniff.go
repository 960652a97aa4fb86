package image

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	"edgepod/wasmrt/image/module"
)

var (
	magic            = []byte("\x00asm")
	versionCore      = []byte{1, 0, 0, 0}
	versionComponent = []byte{0x0d, 0, 1, 0}
)

// sniff says in the user's words what data is, if it is not a core module: "" where it is one.
func sniff(data []byte) string {
	if !bytes.HasPrefix(data, magic) {
		return "it is not a WebAssembly module but " + foreign(data)
	}
	if len(data) < module.HeaderSize {
		return "it is only the beginning of a WebAssembly module: the file is cut off"
	}
	switch version := data[len(magic):module.HeaderSize]; {
	case bytes.Equal(version, versionCore):
		return ""
	case bytes.Equal(version, versionComponent):
		return "it is a component (WASI 0.2), which is not supported; build the program as a core module for WASI preview 1, " +
			"such as with Rust's target wasm32-wasip1, with TinyGo's -target=wasip1, or without the step that makes the component"
	default:
		return fmt.Sprintf("it is WebAssembly of an unknown version (% x); only core modules of version 1 run", version)
	}
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

// check says why a core module cannot run as a container: "" where it can. offered is nil for the imports that exist.
func check(m *module.Module, offered func(module.Import) error) string {
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
