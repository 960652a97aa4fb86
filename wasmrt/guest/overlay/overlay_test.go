package overlay

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

func TestVersions(t *testing.T) {
	for version, want := range map[string]bool{
		"go1.25": true, "go1.25.5": true, "go1.26rc1": true, "go1.26.8 X:nocoverageredesign": true, "go1.26-custom": true,
		"go1.24.1": false, "go1.27": false, "go1.250": false, "devel go1.27-abc": false, "": false,
	} {
		err := Toolchain{Version: version}.Supports()
		if (err == nil) != want {
			t.Errorf("%q: got %v", version, err)
		}
		if err != nil && !strings.Contains(err.Error(), "only go1.25 and go1.26 are") {
			t.Errorf("%q: %v does not name what is supported", version, err)
		}
	}
}

// installed is the toolchain that runs the tests.
func installed(t *testing.T) Toolchain {
	t.Helper()
	text, err := exec.Command("go", "env", "-json", "GOROOT", "GOVERSION").Output()
	if err != nil {
		t.Fatal(err)
	}
	var env struct{ GOROOT, GOVERSION string }
	if err := json.Unmarshal(text, &env); err != nil {
		t.Fatal(err)
	}
	return Toolchain{Root: env.GOROOT, Version: env.GOVERSION}
}

// list reads what is replaced by what.
func list(t *testing.T, o Overlay) map[string]string {
	t.Helper()
	text, err := os.ReadFile(o.List)
	if err != nil {
		t.Fatal(err)
	}
	var read struct{ Replace map[string]string }
	if err := json.Unmarshal(text, &read); err != nil {
		t.Fatal(err)
	}
	return read.Replace
}

func TestWhatIsReplaced(t *testing.T) {
	toolchain := installed(t)
	made, err := Prepare(t.TempDir(), toolchain)
	if err != nil {
		t.Fatal(err)
	}
	if made.Root != toolchain.Root {
		t.Errorf("built with %s, not with %s", made.Root, toolchain.Root)
	}
	replaced := list(t, made)
	for _, from := range slices.Sorted(maps.Keys(replaced)) {
		_, err := os.Stat(from)
		switch to := replaced[from]; {
		case to == "" && err != nil:
			t.Errorf("%s is taken away, and is not there", from)
		case to != "" && err == nil:
			t.Errorf("%s hides a file of the standard library", from)
		case to != "":
			if _, err := os.Stat(to); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestToolchainAmongModules(t *testing.T) {
	cache := t.TempDir()
	root := filepath.Join(cache, "golang.org", "toolchain@v0.0.1-go1.26.0")
	if err := os.MkdirAll(filepath.Join(root, "src"), 0o755); err != nil {
		t.Fatal(err)
	}
	made, err := Prepare(t.TempDir(), Toolchain{Root: root, Version: "go1.26.0", ModCache: cache})
	if err != nil {
		t.Fatal(err)
	}
	if target, err := filepath.EvalSymlinks(made.Root); err != nil || target != root {
		t.Errorf("%s leads to %s, %v", made.Root, target, err)
	}
	for from := range list(t, made) {
		if strings.HasPrefix(from, cache) || !strings.HasPrefix(from, made.Root) {
			t.Errorf("%s is replaced, which the go command refuses", from)
		}
	}
}

func TestPrepareIsTheSameForAll(t *testing.T) {
	toolchain, dir := installed(t), t.TempDir()
	var wg sync.WaitGroup
	made := make([]Overlay, 8)
	for i := range made {
		wg.Go(func() {
			var err error
			if made[i], err = Prepare(dir, toolchain); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, m := range made {
		if m != made[0] {
			t.Errorf("got %v and %v", m, made[0])
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("left %v, %v", entries, err)
	}
	if n := len(list(t, made[0])); n < len(replaced) {
		t.Errorf("%d files are replaced", n)
	}
}

func TestBuildFails(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module broken\n\ngo 1.25\n", "main.go": "package main\n\nfunc main() { missing() }\n", "lib/lib.go": "package lib\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		build Build
		want  string
	}{
		"program":    {Build{}, "undefined: missing"},
		"library":    {Build{Package: "./lib"}, "./lib is no program: it is package lib, not package main"},
		"to a file":  {Build{Package: "./lib", Output: "lib.wasm"}, "./lib is no program: it is package lib, not package main"},
		"overlay":    {Build{Flags: []string{"-v", "-overlay=other.json"}}, "the flags have an -overlay (-overlay=other.json)"},
		"no package": {Build{Package: "./nowhere"}, "nowhere"},
		"no go":      {Build{Go: "no-such-go"}, "to build a Go program takes Go"},
	} {
		t.Run(name, func(t *testing.T) {
			var said strings.Builder
			c.build.Dir, c.build.Stdout, c.build.Stderr = dir, &said, &said
			err := c.build.Run(t.Context())
			if err == nil || !strings.Contains(said.String()+err.Error(), c.want) {
				t.Errorf("got %v\n%s", err, &said)
			}
		})
	}
	t.Run("another overlay", func(t *testing.T) {
		t.Setenv("GOFLAGS", "-overlay=/other.json")
		if err := (Build{Dir: dir}).Run(t.Context()); err == nil || !strings.Contains(err.Error(), "GOFLAGS has an -overlay") {
			t.Errorf("got %v", err)
		}
	})
}
