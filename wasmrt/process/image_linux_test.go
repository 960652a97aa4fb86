package process_test

import (
	"archive/tar"
	"bytes"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"edgepod/wasmrt/process"
	"edgepod/wasmrt/sandbox"

	edgeremote "edgepod/wasmrt/image/remote"
)

// pushImage puts an image of these files into a registry of its own, which runs as long as the test, and returns its
// reference.
func pushImage(t *testing.T, files map[string][]byte, links map[string]string) string {
	t.Helper()
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	write := func(h *tar.Header, data []byte) {
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	for file, data := range files {
		write(&tar.Header{Name: file, Mode: 0o600, Size: int64(len(data)), Typeflag: tar.TypeReg}, data)
	}
	for link, target := range links {
		write(&tar.Header{Name: link, Linkname: target, Mode: 0o777, Typeflag: tar.TypeSymlink}, nil)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	blob, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer.Bytes())), nil })
	if err != nil {
		t.Fatal(err)
	}
	img, err := mutate.AppendLayers(empty.Image, blob)
	if err != nil {
		t.Fatal(err)
	}
	img, err = mutate.ConfigFile(img, &v1.ConfigFile{
		OS: "wasi", Architecture: "wasm", Config: v1.Config{Entrypoint: []string{"/app.wasm"}},
		RootFS: v1.RootFS{Type: "layers", DiffIDs: diffIDs(t, img)},
	})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	ref, err := name.ParseReference(strings.TrimPrefix(server.URL, "http://")+"/files:v1", name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, img); err != nil {
		t.Fatal(err)
	}
	return ref.String()
}

func diffIDs(t *testing.T, img v1.Image) []v1.Hash {
	t.Helper()
	cfg, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	return cfg.RootFS.DiffIDs
}

func TestFilesOfAnImageAreTheGuestsRoot(t *testing.T) {
	module, err := os.ReadFile(filepath.Join(guests(t), "guest.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	ref := pushImage(t, map[string][]byte{"app.wasm": module, "lib/data/greeting": []byte("hello from the image")},
		map[string]string{"greeting": "lib/data/greeting", "out": "../../../../../../etc/hostname"})
	r := open(t, t.TempDir(), func(c *process.Config) {
		host, _, _ := strings.Cut(ref, "/")
		c.Registries = edgeremote.Registries{Hosts: map[string]edgeremote.Host{host: {PlainHTTP: true}}}
	})
	img, err := r.Pull(t.Context(), sandbox.PullRequest{Ref: ref, Policy: sandbox.PullIfNotPresent})
	if err != nil {
		t.Fatal(err)
	}
	s := create(t, r, "pod1")
	run := func(id string, readOnly bool, args ...string) (sandbox.Exit, string) {
		t.Helper()
		c := sandbox.ContainerSpec{
			ID: id, Name: "c", Image: ref, Digest: img.Digest, Args: append([]string{"app"}, args...), ReadOnlyRoot: readOnly,
			Log: sandbox.Log{Path: filepath.Join(t.TempDir(), "logs", "0.log")},
		}
		start(t, s, c)
		return await(t, s, id), logged(t, c.Log.Path)
	}
	for _, readOnly := range []bool{false, true} {
		kind := map[bool]string{false: "writable", true: "read-only"}[readOnly]
		if exit, out := run(kind+"-read", readOnly, "cat", "/greeting"); exit.Code != 0 || out != "hello from the image" {
			t.Errorf("%s: read a file of the image: %+v, %q", kind, exit, out)
		}
		if exit, out := run(kind+"-write", readOnly, "put", "/lib/data/greeting", "changed"); (exit.Code == 0) == readOnly {
			t.Errorf("%s: write to a file of the image: %+v, %q", kind, exit, out)
		}
		if exit, out := run(kind+"-out", readOnly, "cat", "/out"); exit.Code == 0 {
			t.Errorf("%s: read through a link that leads out: %+v, %q", kind, exit, out)
		}
	}
	if _, out := run("again", false, "cat", "/lib/data/greeting"); out != "hello from the image" {
		t.Errorf("a later attempt reads %q: one wrote to the image's own files", out)
	}
}
