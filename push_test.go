package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"k8s.io/client-go/rest"

	"edgepod/wasmrt/image/imagetest"
)

// emptyModule is the smallest module: the header alone.
const emptyModule = wasmMagic + "\x01\x00\x00\x00"

// writeTree writes files and returns their folder.
func writeTree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for path, content := range files {
		path = filepath.Join(dir, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestModuleBecomesAnArtifactThatIsTheSameEachTime(t *testing.T) {
	path := filepath.Join(writeTree(t, map[string]string{"app.wasm": emptyModule}), "app.wasm")
	at := time.Date(2026, 5, 4, 3, 2, 1, 987, time.UTC)
	if err := os.Chtimes(path, at, at); err != nil {
		t.Fatal(err)
	}
	var digests []v1.Hash
	for range 2 {
		p, err := openPushable(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		image := p.Taggable.(v1.Image)
		manifest, err := image.Manifest()
		if err != nil {
			t.Fatal(err)
		}
		if len(manifest.Layers) != 1 || manifest.Layers[0].MediaType != "application/wasm" ||
			manifest.Config.MediaType != "application/vnd.wasm.config.v0+json" || manifest.MediaType != "application/vnd.oci.image.manifest.v1+json" {
			t.Errorf("manifest: %+v", manifest)
		}
		raw, err := image.RawConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		var config map[string]any
		if err := json.Unmarshal(raw, &config); err != nil {
			t.Fatal(err)
		}
		want := map[string]any{
			"created": "2026-05-04T03:02:01Z", "architecture": "wasm", "os": "wasip1", "layerDigests": []any{manifest.Layers[0].Digest.String()},
		}
		if diff := cmp.Diff(want, config); diff != "" {
			t.Errorf("configuration: %s", diff)
		}
		digest, err := partial.Digest(p.Taggable)
		if err != nil {
			t.Fatal(err)
		}
		digests = append(digests, digest)
	}
	if digests[0] != digests[1] {
		t.Errorf("the same module has the digests %v", digests)
	}
}

func TestModuleWithFoldersBecomesAnImage(t *testing.T) {
	dir := writeTree(t, map[string]string{"app.wasm": emptyModule, "lib/a.py": "a", "lib/deep/b.py": "b", "share/words": "w"})
	if err := errors.Join(os.Symlink("a.py", filepath.Join(dir, "lib", "link")), os.Chmod(filepath.Join(dir, "share", "words"), 0o700)); err != nil {
		t.Fatal(err)
	}
	p, err := openPushable(filepath.Join(dir, "app.wasm"), []string{dir + "/lib:/usr/lib", dir + "/share:/"})
	if err != nil {
		t.Fatal(err)
	}
	image := p.Taggable.(v1.Image)
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.OS != "wasip1" || config.Architecture != "wasm" || !cmp.Equal(config.Config.Entrypoint, []string{"/app.wasm"}) {
		t.Errorf("configuration: %+v", config)
	}
	layers, err := image.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatal(layers, err)
	}
	content, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	got := map[string]string{}
	for archive := tar.NewReader(content); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		got[header.Name] = header.FileInfo().Mode().String() + " " + header.Linkname + string(data)
	}
	want := map[string]string{
		"app.wasm": "-rwxr-xr-x " + emptyModule, "usr/lib/": "drwxr-xr-x ", "usr/lib/a.py": "-rw-r--r-- a", "usr/lib/deep/": "drwxr-xr-x ",
		"usr/lib/deep/b.py": "-rw-r--r-- b", "usr/lib/link": "Lrwxrwxrwx a.py", "words": "-rwxr-xr-x w",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestLayoutsAndArchivesArePushedAsTheyAre(t *testing.T) {
	image, err := random.Image(1000, 2)
	if err != nil {
		t.Fatal(err)
	}
	index, err := random.Index(100, 1, 2)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	one, several, archive := filepath.Join(dir, "one"), filepath.Join(dir, "several"), filepath.Join(dir, "image.tar")
	lone, err := layout.Write(one, empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	if err := lone.AppendImage(image); err != nil {
		t.Fatal(err)
	}
	if _, err := layout.Write(several, index); err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag("example.com/app:v1")
	if err != nil {
		t.Fatal(err)
	}
	if err := tarball.WriteToFile(archive, tag, image); err != nil {
		t.Fatal(err)
	}
	imageDigest, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	indexDigest, err := index.Digest()
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]v1.Hash{one: imageDigest, several: indexDigest} {
		p, err := openPushable(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := partial.Digest(p.Taggable); err != nil || got != want {
			t.Errorf("%s: %v %v, want %v", path, got, err, want)
		}
	}
	p, err := openPushable(archive, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Image(p.Taggable.(v1.Image)); err != nil {
		t.Error(err)
	}
}

func TestWhatCannotBePushedIsSaid(t *testing.T) {
	dir := writeTree(t, map[string]string{
		"text": "hello", "cut.wasm": wasmMagic, "bad.wasm": emptyModule + "\x01\xff\xff\xff\xff\x0f", "app.wasm": emptyModule,
		"tree/app.wasm": "", "tree/x": "", "other/x": "", "plain/file": "", "new.wasm": wasmMagic + "\x02\x00\x00\x00",
	})
	archive := filepath.Join(dir, "other.tar")
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	if err := errors.Join(w.WriteHeader(&tar.Header{Name: "x", Mode: 0o600, Typeflag: tar.TypeReg}), w.Close(), os.WriteFile(archive, buf.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		source string
		dirs   []string
		want   string
	}{
		"missing":               {"none.wasm", nil, "no such file"},
		"text":                  {"text", nil, "not a WebAssembly module"},
		"cut off":               {"cut.wasm", nil, "cut off"},
		"damaged":               {"bad.wasm", nil, "damaged"},
		"another version":       {"new.wasm", nil, "unknown version"},
		"no layout":             {"plain", nil, "no OCI layout"},
		"another archive":       {"other.tar", nil, "docker save"},
		"folders to a layout":   {"plain", []string{dir + "/tree:/x"}, "--dir"},
		"folders to a tar":      {"other.tar", []string{dir + "/tree:/x"}, "--dir"},
		"no path":               {"app.wasm", []string{dir + "/tree"}, "FOLDER:/PATH"},
		"no folder":             {"app.wasm", []string{dir + "/text:/x"}, "not a folder"},
		"two files of a name":   {"app.wasm", []string{dir + "/tree:/x", dir + "/other:/x"}, "comes from two folders"},
		"the module's own name": {"app.wasm", []string{dir + "/tree:/"}, "where the module is to be"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := openPushable(filepath.Join(dir, tt.source), tt.dirs); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v does not say %q", err, tt.want)
			}
		})
	}
}

func TestWhatNodesWillRefuseIsPushedWithANote(t *testing.T) {
	const (
		runs    = emptyModule + "\x01\x04\x01\x60\x00\x00\x03\x02\x01\x00\x07\x0a\x01\x06_start\x00\x00\x0a\x04\x01\x02\x00\x0b"
		foreign = emptyModule + "\x01\x04\x01\x60\x00\x00\x02\x09\x01\x03env\x01f\x00\x00"
	)
	many := imagetest.Module(imagetest.Section(1, 1, 0x60, 0, 0), imagetest.Section(2, append([]byte{9}, bytes.Repeat([]byte("\x03env\x01f\x00\x00"), 9)...)...))
	if note, err := checkModule(many); err != nil || strings.Count(note, "; ") < 3 || !strings.HasSuffix(note, "and 7 more, which `edgepod inspect` tells") {
		t.Errorf("many problems: %q, %v", note, err)
	}
	for module, want := range map[string]string{
		runs:                      "",
		foreign:                   "nodes will refuse it: the module imports env.f",
		emptyModule:               "nodes will refuse it: it exports no function _start",
		"\x00asm\x0d\x00\x01\x00": "nodes will refuse it: it is a component",
	} {
		note, err := checkModule([]byte(module))
		if err != nil || (want == "") != (note == "") || !strings.HasPrefix(note, want) {
			t.Errorf("%q: note %q, %v, want %q", module, note, err, want)
		}
	}
}

func TestNamesOfImagesToPush(t *testing.T) {
	r := &registryClient{namespace: "shop"}
	for text, want := range map[string]string{
		"app":                            "registry.local/shop/app:latest",
		"app:v1":                         "registry.local/shop/app:v1",
		"team/app:v1":                    "registry.local/shop/team/app:v1",
		"registry.local/app":             "registry.local/shop/app:latest",
		"registry.local/other/app:v1":    "registry.local/other/app:v1",
		"registry.local/other/team/a:v1": "registry.local/other/team/a:v1",
		"docker.io/app":                  "",
		"localhost/app":                  "",
		"host:5000/app":                  "",
		"App":                            "",
		"app:":                           "",
		"":                               "",
		"../app":                         "",
	} {
		ref, err := r.reference(text)
		switch {
		case (err == nil) != (want != ""):
			t.Errorf("%q: %v, %v", text, ref, err)
		case err == nil && ref.Name() != want:
			t.Errorf("%q: %s, want %s", text, ref.Name(), want)
		}
	}
}

func TestSizesForPeople(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1024: "1Ki", 1536: "1.5Ki", 2_700_000: "2.6Mi", 3 << 30: "3Gi"} {
		if got := sizeText(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

func TestProgressIsToldForWhatIsLarge(t *testing.T) {
	updates := make(chan v1.Update, 100)
	for done := int64(0); done <= 40; done++ {
		updates <- v1.Update{Total: 40 << 20, Complete: done << 20}
	}
	close(updates)
	var out bytes.Buffer
	tellProgress(updates, "app", &out)
	if got := strings.Count(out.String(), "\n"); got != 4 || !strings.Contains(out.String(), "Pushing app: 20Mi of 40Mi\n") {
		t.Errorf("%d lines: %s", got, &out)
	}
}

func TestRequestsForTheRegistryGoToTheAPIServer(t *testing.T) {
	var got []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.Host+" "+r.URL.RequestURI()+" "+r.Header.Get("Authorization"))
	}))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	for _, base := range []string{"", "/clusters/one/"} {
		transport, err := newRegistryTransport(&rest.Config{Host: server.URL + base, BearerToken: "secret"})
		if err != nil {
			t.Fatal(err)
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://registry.local/v2/default/app/tags/list?n=1", nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := transport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if r.URL.Host != "registry.local" {
			t.Errorf("the request was changed: %s", r.URL)
		}
	}
	want := []string{host + " /v2/default/app/tags/list?n=1 Bearer secret", host + " /clusters/one/v2/default/app/tags/list?n=1 Bearer secret"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
