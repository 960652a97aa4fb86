//go:build linux

package wasi

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"edgepod/wasmrt/fs"
)

// TestProgramsOfOtherCompilers runs the guests that the engine's authors built with Rust, TinyGo and Zig.
func TestProgramsOfOtherCompilers(t *testing.T) {
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/tetratelabs/wazero").Output()
	if err != nil {
		t.Fatalf("find the engine's sources: %v", err)
	}
	for compiler, paths := range map[string][]string{
		"cargo-wasi": {".", "/sub", "sub/"}, "tinygo": {".", "/sub", "sub/"}, "zig-cc": {".", "/sub", "sub/"},
		// Its library hands absolute paths to the host, which no host may accept.
		"zig": {".", "sub/"},
	} {
		for _, path := range paths {
			t.Run(compiler+" "+strings.ReplaceAll(path, "/", "|"), func(t *testing.T) {
				wasm, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)),
					"imports/wasi_snapshot_preview1/testdata", compiler, "wasi.wasm"))
				if err != nil {
					t.Fatal(err)
				}
				var out bytes.Buffer
				h := newHost(t, Config{Args: []string{"wasi", "ls", path}, Stdout: &out, Stderr: &out},
					fs.Config{Root: folder(t, "-", "a-", "sub/-", "sub/a-")})
				if code, _, err := ExitCode(start(t, wasm, h)()); code != 0 || err != nil {
					t.Fatalf("code %d, %v\n%s", code, err, &out)
				}
				lines := strings.Split(strings.TrimSpace(out.String()), "\n")
				for _, name := range []string{"-", "a-"} {
					if !slices.ContainsFunc(lines, func(l string) bool { return filepath.Base(l) == name }) {
						t.Errorf("%s is not among %q", name, lines)
					}
				}
			})
		}
	}
}
