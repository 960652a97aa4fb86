//go:build linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// realGuests are the programs of the engine's own tests, by the compiler that made them; the one in Go is built here.
const realGuests = "imports/wasi_snapshot_preview1/testdata/"

// notFolder is how the programs end that are to list a file.
var notFolder = map[string]struct {
	code int32
	text string
}{
	"rust": {0, "ENOTDIR"}, "zig": {0, "ENOTDIR"}, "zig-cc": {0, "ENOTDIR"},
	// These open the file before they find out, and expected another number.
	"go": {2, "Not a directory"}, "tinygo": {134, "errno 54"},
}

// testRealGuests runs one program that was written in several languages.
func testRealGuests(t *testing.T, r *realRuntime) {
	goGuest := exec.Command("go", "build", "-o", filepath.Join(r.scratch, "go.wasm"), filepath.Join(engineSources(t), realGuests, "go", "wasi.go"))
	goGuest.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	if out, err := goGuest.CombinedOutput(); err != nil {
		t.Fatalf("build the guest in Go: %v\n%s", err, out)
	}
	for compiler, image := range map[string]string{
		"rust": realGuests + "cargo-wasi/wasi.wasm", "tinygo": realGuests + "tinygo/wasi.wasm", "zig": realGuests + "zig/wasi.wasm",
		"zig-cc": realGuests + "zig-cc/wasi.wasm", "go": "go.wasm",
	} {
		t.Run(compiler, func(t *testing.T) { t.Parallel(); testRealGuest(t, r, compiler, "./"+image) })
	}
	for compiler, image := range map[string]string{"rust": "cargo-wasi", "tinygo": "tinygo", "zig": "zig", "zig-cc": "zig-cc"} {
		t.Run("cat "+compiler, func(t *testing.T) {
			t.Parallel()
			pod := r.pod(t, map[string]string{"a": "one\n", "b": "two\n"})
			out, exit := pod.run(t, realContainer{
				image: "./imports/wasi_snapshot_preview1/example/testdata/" + image + "/cat.wasm", args: []string{"work/a", "work/b"},
			})
			wantEnd(t, out, exit, 0, "one\ntwo\n")
		})
	}
}

func testRealGuest(t *testing.T, r *realRuntime, compiler, image string) {
	const tons = 8096
	pod := r.pod(t, map[string]string{"file": ""})
	for _, folder := range []string{"empty", "some/sub", "tons"} {
		check(t, os.MkdirAll(filepath.Join(pod.work, folder), 0o755))
	}
	for _, name := range []string{"-", "ab-"} {
		check(t, os.WriteFile(filepath.Join(pod.work, "some", name), nil, 0o644))
	}
	for i := range tons {
		check(t, os.WriteFile(filepath.Join(pod.work, "tons", strconv.Itoa(i)), nil, 0o644))
	}
	run := 0
	call := func(code int32, args ...string) string {
		t.Helper()
		run++
		out, exit := pod.run(t, realContainer{name: "run" + strconv.Itoa(run), image: image, args: args})
		wantEnd(t, out, exit, code)
		return out
	}
	list := func(args ...string) []string {
		t.Helper()
		var names []string
		for line := range strings.Lines(call(0, append([]string{"ls"}, args...)...)) {
			if name := filepath.Base(strings.TrimSpace(line)); name != "." && name != ".." {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		return names
	}
	if got := list("work/empty"); len(got) != 0 {
		t.Errorf("the empty folder has %q", got)
	}
	if got, want := list("work/some"), []string{"-", "ab-", "sub"}; !slices.Equal(got, want) {
		t.Errorf("the folder has %q, want %q", got, want)
	}
	if compiler != "tinygo" { // its library cannot rewind a folder
		if got, want := list("work/some", "repeat"), []string{"-", "-", "ab-", "ab-", "sub", "sub"}; !slices.Equal(got, want) {
			t.Errorf("the folder read twice has %q, want %q", got, want)
		}
	}
	if got := list("work/tons"); len(got) != tons {
		t.Errorf("the large folder has %d entries, want %d", len(got), tons)
	}
	if got := call(notFolder[compiler].code, "ls", "work/file"); !strings.Contains(got, notFolder[compiler].text) {
		t.Errorf("a file is listed as %q", got)
	}
	if got := call(0, "stat"); strings.Count(got, "isatty: false") < 4 {
		t.Errorf("stat: %q", got)
	}
}
