package inspect

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	"edgepod/wasmrt/image/module"
)

// SniffSize is how much of a file Sniff wants to see.
const SniffSize = 64 << 10

// Sniff says in the user's words what a file is by its beginning, if it is not WebAssembly of a known kind: "" where it is.
func Sniff(head []byte) string {
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
