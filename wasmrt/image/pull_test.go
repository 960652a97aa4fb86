package image

import (
	"errors"
	"io"
	"log"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"edgepod/wasmrt/sandbox"
)

func discardLogger() *log.Logger { return log.New(io.Discard, "", 0) }

func resolve(t *testing.T, s *Store, ref string, policy sandbox.PullPolicy) (Entry, error) {
	t.Helper()
	return s.Resolve(t.Context(), sandbox.PullRequest{Ref: ref, Policy: policy, Namespace: "default"})
}

func TestEveryLayoutOfModulesInRegistriesIsPulled(t *testing.T) {
	h := newHub(t)
	wasm := command(custom("producers", "\x00"))
	files := gzipped(t, tarOf(t, map[string]string{"app/main.wasm": string(wasm), "etc/motd": "hi"}))
	compat := picture{config: v1.ConfigFile{OS: "wasi", Architecture: "wasm", Config: v1.Config{Entrypoint: []string{"/app/main.wasm"}, Env: []string{"A=b"}}}, layers: [][]byte{files}}
	h.artifact("cncf", "v1", ConfigType, ModuleType, wasm)
	h.artifact("legacy", "v1", typeConfigOld, typeContentLayer, wasm)
	h.artifact("runwasi", "v1", types.OCIConfigJSON, typeComponentLayer, wasm)
	h.artifact("istio", "v1", "application/vnd.module.wasm.config.v1+json", typeModuleLayer, wasm)
	h.picture("compat", "v1", compat)
	docker := compat
	docker.docker = true
	h.picture("docker", "v1", docker)
	annotated := picture{
		config:      v1.ConfigFile{OS: "linux", Architecture: "amd64", Config: v1.Config{Cmd: []string{"main.wasm"}, WorkingDir: "/app"}},
		layers:      [][]byte{zstded(t, tarOf(t, map[string]string{"app/main.wasm": string(wasm), "app/other.wasm": "x"}))},
		annotations: map[string]string{variantAnnotation: "compat"},
	}
	h.picture("annotated", "v1", annotated)
	h.picture("plugin", "v1", picture{config: v1.ConfigFile{OS: "linux", Architecture: "amd64"}, layers: [][]byte{tarOf(t, map[string]string{"plugin.wasm": string(wasm)})}})
	linux := h.picture("multi", "linux", picture{config: v1.ConfigFile{OS: "linux", Architecture: "amd64", Config: v1.Config{Entrypoint: []string{"/bin/sh"}}}, layers: [][]byte{files}})
	h.index("multi", "v1", on(linux, "linux", "amd64"), on(h.picture("multi", "", compat), "wasi", "wasm"))

	for _, tt := range []struct {
		repo   string
		root   []string
		config sandbox.ImageConfig
	}{
		{repo: "cncf"},
		{repo: "legacy"},
		{repo: "runwasi"},
		{repo: "istio"},
		{repo: "compat", root: []string{"app/main.wasm", "etc/motd"}, config: sandbox.ImageConfig{Entrypoint: []string{"/app/main.wasm"}, Env: []string{"A=b"}}},
		{repo: "docker", root: []string{"app/main.wasm", "etc/motd"}, config: sandbox.ImageConfig{Entrypoint: []string{"/app/main.wasm"}, Env: []string{"A=b"}}},
		{repo: "annotated", root: []string{"app/main.wasm", "app/other.wasm"}, config: sandbox.ImageConfig{Cmd: []string{"main.wasm"}, WorkingDir: "/app"}},
		{repo: "plugin", root: []string{"plugin.wasm"}},
		{repo: "multi", root: []string{"app/main.wasm", "etc/motd"}, config: sandbox.ImageConfig{Entrypoint: []string{"/app/main.wasm"}, Env: []string{"A=b"}}},
	} {
		s, _ := openStore(t, nil)
		e, err := resolve(t, s, h.ref("%s:v1", tt.repo), sandbox.PullIfNotPresent)
		if err != nil {
			t.Errorf("%s: %v", tt.repo, err)
			continue
		}
		slim, err := os.ReadFile(e.Path)
		if err != nil || string(slim) != string(command()) {
			t.Errorf("%s: module of %d bytes, %v", tt.repo, len(slim), err)
		}
		if want := h.ref("%s@%s", tt.repo, e.Digest); e.ID != want || e.Cached || e.Size == 0 {
			t.Errorf("%s: %+v, want ID %s", tt.repo, e, want)
		}
		if diff := cmp.Diff(tt.config, e.Config); diff != "" {
			t.Errorf("%s: config: %s", tt.repo, diff)
		}
		if diff := cmp.Diff(tt.root, filesOf(t, e.Root)); diff != "" {
			t.Errorf("%s: root: %s", tt.repo, diff)
		}
		got, ok := s.Get(e.Digest)
		if !ok || got.Root != e.Root || got.Sum != e.Sum {
			t.Errorf("%s: Get: %+v, %v", tt.repo, got, ok)
		}
	}
}

// filesOf lists the files of a folder whose modes let everybody read them.
func filesOf(t *testing.T, dir string) (out []string) {
	t.Helper()
	if dir == "" {
		return nil
	}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if want := os.FileMode(0o444); info.Mode()&want != want || d.IsDir() && info.Mode()&0o111 != 0o111 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		if !d.IsDir() {
			rel, err := filepath.Rel(dir, path)
			out = append(out, rel)
			return err
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	return out
}

func TestWhatCannotRunFromARegistryIsRefusedWithAReason(t *testing.T) {
	h := newHub(t)
	linux := picture{config: v1.ConfigFile{OS: "linux", Architecture: "amd64", Config: v1.Config{Entrypoint: []string{"/bin/server"}}}, layers: [][]byte{tarOf(t, map[string]string{"bin/server": "\x7fELF"})}}
	d := h.picture("linux", "v1", linux)
	h.picture("linuxes", "", linux)
	h.index("linuxes", "v1", on(d, "linux", "amd64"), on(d, "linux", "arm64"), on(d, "unknown", "unknown"))
	nameless := linux
	nameless.config.OS, nameless.config.Architecture = "", ""
	h.picture("nameless", "v1", nameless)
	elf := linux
	elf.config.OS, elf.config.Architecture = "wasi", "wasm"
	h.picture("elf", "v1", elf)
	h.artifact("spin", "v1", typeSpinConfig, typeContentLayer, command())
	h.artifact("chart", "v1", "application/vnd.cncf.helm.config.v1+json", "application/vnd.cncf.helm.chart.content.v1.tar+gzip", []byte("x"))
	h.artifact("component", "v1", ConfigType, ModuleType, []byte("\x00asm\x0d\x00\x01\x00"))
	h.artifact("text", "v1", ConfigType, ModuleType, []byte("hello"))
	two := picture{config: v1.ConfigFile{OS: "wasi", Architecture: "wasm"}, layers: [][]byte{tarOf(t, map[string]string{"a.wasm": string(command()), "b.wasm": string(command())})}}
	h.picture("two", "v1", two)
	h.index("empty", "v1")
	h.picture("nested", "", linux)
	inner := h.index("nested", "", on(d, "wasi", "wasm"))
	inner.MediaType = ""
	h.index("nested", "v1", on(inner, "wasi", "wasm"))

	for repo, want := range map[string]string{
		"linux":     "Linux image (linux/amd64, which runs /bin/server)",
		"nameless":  "Linux image (which runs /bin/server)",
		"linuxes":   "it has images for linux/amd64, linux/arm64, and none for WebAssembly",
		"elf":       "Linux program (ELF)",
		"spin":      "Spin",
		"chart":     "helm",
		"component": "component",
		"text":      "text file",
		"two":       "several modules (a.wasm, b.wasm)",
		"empty":     "empty index",
		"nested":    "index of indexes",
		"missing":   "there is no image",
	} {
		s, _ := openStore(t, nil)
		_, err := resolve(t, s, h.ref("%s:v1", repo), sandbox.PullIfNotPresent)
		var img *sandbox.ImageError
		if !errors.As(err, &img) || img.Reason != sandbox.ReasonErrImagePull || !strings.Contains(img.Message, want) {
			t.Errorf("%s: %v, want an image error with %q", repo, err, want)
		}
	}
}

func TestTheBestImageOfAnIndexIsChosen(t *testing.T) {
	one := func(os, architecture string, annotated bool) v1.Descriptor {
		d := v1.Descriptor{MediaType: types.OCIManifestSchema1}
		if os != "" {
			d = on(d, os, architecture)
		}
		if annotated {
			d.Annotations = map[string]string{variantAnnotation: "compat"}
		}
		return d
	}
	linux, p1, wasi, old, p2 := one("linux", "amd64", false), one("wasip1", "wasm", false), one("wasi", "wasm", false), one("wasi", "wasm32", false), one("wasip2", "wasm", false)
	marked, plain, attestation := one("linux", "amd64", true), one("", "", false), one("unknown", "unknown", false)
	for name, tt := range map[string]struct {
		images []v1.Descriptor
		want   *v1.Descriptor
	}{
		"preview 1":         {[]v1.Descriptor{linux, p2, wasi, p1, attestation}, &p1},
		"docker's name":     {[]v1.Descriptor{linux, p2, wasi}, &wasi},
		"docker's old name": {[]v1.Descriptor{linux, old}, &old},
		"preview 2":         {[]v1.Descriptor{linux, p2}, &p2},
		"annotated":         {[]v1.Descriptor{linux, marked}, &marked},
		"without platform":  {[]v1.Descriptor{linux, plain}, &plain},
		"Linux alone":       {[]v1.Descriptor{linux, attestation}, nil},
	} {
		got, err := chooseImage(&v1.IndexManifest{Manifests: tt.images})
		if tt.want == nil {
			if err == nil || !strings.Contains(err.Error(), "linux/amd64") {
				t.Errorf("%s: %+v, %v", name, got, err)
			}
			continue
		}
		if diff := cmp.Diff(*tt.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v %s", name, err, diff)
		}
	}
}
