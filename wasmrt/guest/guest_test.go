package guest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"os"
	"strings"
	"testing"
)

func TestModulesAreBuiltFromTheSourceBesideThem(t *testing.T) {
	sums, err := os.ReadFile("toolbox/SHA256SUMS")
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for line := range strings.Lines(string(sums)) {
		want, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := sha256.Sum256(data); hex.EncodeToString(got[:]) != want {
			t.Errorf("%s changed without the others: run go generate ./wasmrt/guest", name)
		}
		checked++
	}
	if checked != 2 {
		t.Errorf("checked %d files, want 2", checked)
	}
}

func TestEveryModuleIsWasm(t *testing.T) {
	names, err := fs.Glob(Modules(), "*.wasm")
	if err != nil || len(names) == 0 {
		t.Fatalf("modules: %v, %v", names, err)
	}
	for _, name := range names {
		data, err := fs.ReadFile(Modules(), name)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.HasPrefix(data, []byte("\x00asm\x01\x00\x00\x00")) {
			t.Errorf("%s does not begin as a core module", name)
		}
	}
}
