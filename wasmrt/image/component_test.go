package image

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"edgepod/wasmrt/sandbox"
)

func TestTheModuleIsCutOutOfAnAdaptedComponent(t *testing.T) {
	data := component(command(custom("name", "\x01\x04\x01\x00\x01f")), importing("wasi:cli/exit@0.2.0", "exit"))
	h := newHub(t)
	artifact := h.artifact("app", "v1", ConfigType, typeComponentLayer, data)
	s, dir := openStore(t, nil)
	if err := os.WriteFile(filepath.Join(dir, "c.wasm"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	for ref, digest := range map[string]string{"./c.wasm": "sha256:" + sumOf(data), h.ref("app:v1"): artifact.Digest.String()} {
		e, err := resolve(t, s, ref, sandbox.PullIfNotPresent)
		if err != nil || e.Digest != digest || e.NamesPath == "" {
			t.Errorf("%s: %+v, %v", ref, e, err)
			continue
		}
		if module, err := os.ReadFile(e.Path); err != nil || string(module) != string(command()) {
			t.Errorf("%s: the module has %d bytes, %v", ref, len(module), err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "d.wasm"), component(importing("wasi:cli/exit@0.2.0", "exit"), command()), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := resolve(t, s, "./d.wasm", sandbox.PullIfNotPresent); err == nil || !strings.Contains(err.Error(), "imports \"wasi:cli/exit@0.2.0\", which is not of WASI preview 1") {
		t.Errorf("a component whose main module is for WASI 0.2: %v", err)
	}
}

func TestInspectDescribesAlsoWhatDoesNotRun(t *testing.T) {
	h := newHub(t)
	wasm := command(custom("name", "x"))
	h.artifact("module", "v1", ConfigType, ModuleType, wasm)
	config := v1.ConfigFile{OS: "wasi", Architecture: "wasm", Config: v1.Config{Entrypoint: []string{"/bin/m.wasm"}, Env: []string{"A=b"}}}
	d := h.picture("files", "v1", picture{config: config, layers: [][]byte{tarOf(t, map[string]string{"bin/m.wasm": string(wasm)})}})
	h.picture("index", "", picture{config: config, layers: [][]byte{tarOf(t, map[string]string{"bin/m.wasm": string(wasm)})}})
	h.index("index", "v1", on(d, "wasi", "wasm"))
	h.artifact("reactor", "v1", ConfigType, ModuleType, importing("env", "warp"))
	h.artifact("chart", "v1", "application/vnd.cncf.helm.config.v1+json", "application/vnd.cncf.helm.chart.content.v1.tar+gzip", []byte("x"))
	config.OS, config.Architecture, config.Config.Entrypoint = "linux", "arm64", []string{"/bin/sh"}
	h.picture("linux", "v1", picture{config: config, layers: [][]byte{tarOf(t, map[string]string{"bin/sh": "\x7fELF"})}})
	for repo, tt := range map[string]struct {
		layout, module string
		runs           bool
		problem        string
	}{
		"module":  {layout: "module", runs: true},
		"files":   {layout: "files", module: "bin/m.wasm", runs: true},
		"index":   {layout: "files", module: "bin/m.wasm", runs: true},
		"reactor": {layout: "module", problem: "env.warp"},
		"chart":   {problem: "helm"},
		"linux":   {layout: "files", problem: "Linux image (linux/arm64"},
	} {
		s, _ := openStore(t, nil)
		r, err := s.Inspect(t.Context(), sandbox.PullRequest{Ref: h.ref("%s:v1", repo)})
		if err != nil {
			t.Errorf("%s: %v", repo, err)
			continue
		}
		said := slices.ContainsFunc(r.Problems, func(p string) bool { return strings.Contains(p, tt.problem) })
		if r.Runs != tt.runs || !tt.runs && !said || r.Image.Layout != tt.layout || r.Image.ModulePath != tt.module || len(r.Image.Layers) != 1 || r.ID != h.ref("%s@%s", repo, r.Digest) {
			t.Errorf("%s: %+v, image %+v", repo, r, r.Image)
		}
		if (repo == "index") != (r.Image.Manifest != "") {
			t.Errorf("%s: manifest %q", repo, r.Image.Manifest)
		}
		if left := s.content(t); slices.ContainsFunc(left, func(name string) bool { return !strings.HasPrefix(name, blobDir) }) {
			t.Errorf("%s: inspecting imported something: %v", repo, left)
		}
	}
	s, _ := openStore(t, nil)
	if _, err := s.Inspect(t.Context(), sandbox.PullRequest{Ref: h.ref("none:v1")}); err == nil || !strings.Contains(err.Error(), "there is no image") {
		t.Errorf("what is not there: %v", err)
	}
	if _, err := s.Inspect(t.Context(), sandbox.PullRequest{Ref: "./none.wasm"}); err == nil || !strings.Contains(err.Error(), "there is no file") {
		t.Errorf("what is not there: %v", err)
	}
}
