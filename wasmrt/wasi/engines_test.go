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

// TestEnginesCountAlike compares what comes of arithmetic, of which no one says beforehand what it should be.
func TestEnginesCountAlike(t *testing.T) {
	for name, wasm := range map[string][]byte{
		"Go": buildGo(t, "numbers"),
	} {
		t.Run(name, func(t *testing.T) {
			first, second := printed(t, wazero.New, wasm), printed(t, wazy.New, wasm)
			if first != second || len(first) < 100 {
				t.Errorf("one engine prints\n%s\nand the other\n%s", first, second)
			}
		})
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
