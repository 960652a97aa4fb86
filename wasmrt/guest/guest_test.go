package guest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestModulesAreBuiltFromTheSourceBesideThem(t *testing.T) {
	sums, err := os.ReadFile("SHA256SUMS")
	if err != nil {
		t.Fatal(err)
	}
	var checked []string
	for line := range strings.Lines(string(sums)) {
		want, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := sha256.Sum256(data); hex.EncodeToString(got[:]) != want {
			t.Errorf("%s changed without the others: run go generate ./wasmrt/guest", name)
		}
		checked = append(checked, name)
	}
	for _, pattern := range []string{"*.wasm", "hello/*.c", "pause/*.c", "toolbox/*.c", "include/*.h"} {
		names, err := filepath.Glob(pattern)
		if err != nil || len(names) == 0 {
			t.Errorf("%s: %v, %v", pattern, names, err)
		}
		for _, name := range names {
			if !slices.Contains(checked, name) {
				t.Errorf("%s is not among the sums: run go generate ./wasmrt/guest", name)
			}
		}
	}
}

func TestEveryModuleIsWasm(t *testing.T) {
	entries, err := fs.ReadDir(Modules(), ".")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	for _, want := range []string{"hello.wasm", "pause.wasm", "toolbox.wasm"} {
		if !slices.Contains(names, want) {
			t.Errorf("there is no %s in %v", want, names)
		}
	}
	for i, name := range names {
		data, err := fs.ReadFile(Modules(), name)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.HasPrefix(data, []byte("\x00asm\x01\x00\x00\x00")) {
			t.Errorf("%s does not begin as a core module", name)
		}
		info, err := fs.Stat(Modules(), name)
		if err != nil || info.Size() != int64(len(data)) || info.Name() != name || !info.ModTime().IsZero() {
			t.Errorf("%s: got %v, %v", name, info, err)
		}
		if listed, err := entries[i].Info(); err != nil || listed.Size() != info.Size() {
			t.Errorf("%s: listed as %v, %v", name, listed, err)
		}
	}
}

// TestModuleLeftOut holds whether or not the modules in Go were built before this test.
func TestModuleLeftOut(t *testing.T) {
	f, err := Modules().Open("web.wasm")
	if _, there := fs.Stat(packed, "embed/web.wasm.gz"); there == nil {
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		return
	}
	if err == nil || !strings.Contains(err.Error(), "built without the module web") {
		t.Errorf("got %v", err)
	}
	if names, _ := fs.Glob(Modules(), "web.wasm"); len(names) > 0 {
		t.Error("it is listed")
	}
}

func TestNoOtherModules(t *testing.T) {
	for _, name := range []string{"none.wasm", "embed/README.md", "embed/web.wasm.gz", "/web.wasm", "../guest.go"} {
		if _, err := Modules().Open(name); err == nil {
			t.Errorf("%s can be opened", name)
		}
	}
}
