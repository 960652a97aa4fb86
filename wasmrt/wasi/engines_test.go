//go:build linux

package wasi

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"testing"

	"edgepod/wasmrt/engine"
	"edgepod/wasmrt/engine/wazero"
	"edgepod/wasmrt/engine/wazy"
	"edgepod/wasmrt/fs"
)

// TestAllPassesOnTheSecondEngine runs this package's tests once more, with guests on another engine. They say to the letter
// what guests print and leave behind, so that both engines must do the same.
func TestAllPassesOnTheSecondEngine(t *testing.T) {
	if os.Getenv(engineVariable) != "" {
		return // this is that run
	}
	cmd := exec.Command(os.Args[0], "-test.run", "Program|Module|Guest|Stop", "-test.timeout", "5m")
	cmd.Env = append(os.Environ(), engineVariable+"=wazy")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestEnginesCountAlike compares what comes of arithmetic, of which no one says beforehand what it should be. The program
// in C is one that the C compiler has not optimised, and for the engine that containers run on one that it has: from that
// one, version 0.8.0 of the second engine makes code that reads out of bounds.
func TestEnginesCountAlike(t *testing.T) {
	plain, fast := buildC(t, "numbers", "-O0", "-msimd128"), buildC(t, "numbers", "-O2", "-msimd128")
	inGo := buildGo(t, "numbers")
	for _, c := range []struct {
		name          string
		first, second []byte
		other         func(context.Context, engine.Config) engine.Engine
	}{
		{"C", plain, plain, wazy.New},
		{"C and the same optimised", plain, fast, wazero.New},
		{"Go", inGo, inGo, wazy.New},
	} {
		first, second := printed(t, wazero.New, c.first), printed(t, c.other, c.second)
		if first != second || len(first) < 100 {
			t.Errorf("%s: one prints\n%s\nand the other\n%s", c.name, first, second)
		}
	}
}

// printed returns what a guest writes.
func printed(t *testing.T, open func(context.Context, engine.Config) engine.Engine, wasm []byte) string {
	t.Helper()
	e := open(t.Context(), engine.Config{})
	defer func() { _ = e.Close(context.Background()) }()
	var out bytes.Buffer
	h := newHost(t, Config{Args: []string{"numbers"}, Stdout: &out, Stderr: &out}, fs.Config{})
	if code, _, err := ExitCode(startOn(t, e, wasm, h)()); code != 0 || err != nil {
		t.Errorf("code %d, %v", code, err)
	}
	return out.String()
}
