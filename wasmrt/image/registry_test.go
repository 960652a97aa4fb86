package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/zstd"
)

// hub is a registry to which tests push.
type hub struct {
	t testing.TB
	*httptest.Server
	// before sees each request first; it returns true if it has answered.
	before func(http.ResponseWriter, *http.Request) bool
	mu     sync.Mutex // for set
}

func newHub(t testing.TB) *hub {
	t.Helper()
	h := &hub{t: t}
	backend := registry.New(registry.Logger(discardLogger()), registry.WithReferrersSupport(true))
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		before := h.before
		h.mu.Unlock()
		if before != nil && r.Method == http.MethodGet && before(w, r) {
			return
		}
		backend.ServeHTTP(w, r)
	}))
	t.Cleanup(h.Close)
	return h
}

// set changes what sees requests first, also while there are some.
func (h *hub) set(before func(http.ResponseWriter, *http.Request) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.before = before
}

// host is the registry's name in references.
func (h *hub) host() string { return strings.TrimPrefix(h.URL, "http://") }

func (h *hub) send(method, path, mediaType string, body []byte) {
	h.t.Helper()
	req, err := http.NewRequestWithContext(h.t.Context(), method, h.URL+path, bytes.NewReader(body))
	if err != nil {
		h.t.Fatal(err)
	}
	req.Header.Set("Content-Type", mediaType)
	resp, err := h.Client().Do(req)
	if err != nil {
		h.t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		text, _ := io.ReadAll(resp.Body)
		h.t.Fatalf("%s %s: %s %s", method, path, resp.Status, text)
	}
}

// blob pushes content and returns what describes it.
func (h *hub) blob(repo string, t types.MediaType, content []byte) v1.Descriptor {
	h.t.Helper()
	d := describe(h.t, t, content)
	h.send(http.MethodPost, "/v2/"+repo+"/blobs/uploads/?digest="+d.Digest.String(), "application/octet-stream", content)
	return d
}

func describe(t testing.TB, mediaType types.MediaType, content []byte) v1.Descriptor {
	t.Helper()
	sum, size, err := v1.SHA256(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	return v1.Descriptor{MediaType: mediaType, Digest: sum, Size: size}
}

// manifest pushes a manifest or index under a tag, or under its digest where tag is "".
func (h *hub) manifest(repo, tag string, t types.MediaType, content any) v1.Descriptor {
	h.t.Helper()
	raw, ok := content.([]byte)
	if !ok {
		var err error
		if raw, err = json.Marshal(content); err != nil {
			h.t.Fatal(err)
		}
	}
	d := describe(h.t, t, raw)
	if tag == "" {
		tag = d.Digest.String()
	}
	h.send(http.MethodPut, "/v2/"+repo+"/manifests/"+tag, string(t), raw)
	return d
}

// artifact pushes a module alone.
func (h *hub) artifact(repo, tag string, config, layer types.MediaType, wasm []byte) v1.Descriptor {
	h.t.Helper()
	return h.manifest(repo, tag, types.OCIManifestSchema1, v1.Manifest{
		SchemaVersion: 2, MediaType: types.OCIManifestSchema1,
		Config: h.blob(repo, config, []byte(`{"architecture":"wasm","os":"wasip1"}`)),
		Layers: []v1.Descriptor{h.blob(repo, layer, wasm)},
	})
}

// picture is an ordinary image to push.
type picture struct {
	config      v1.ConfigFile
	layers      [][]byte // packed
	annotations map[string]string
	docker      bool
}

func (h *hub) picture(repo, tag string, p picture) v1.Descriptor {
	h.t.Helper()
	kinds := [3]types.MediaType{types.OCIManifestSchema1, types.OCIConfigJSON, types.OCILayer}
	if p.docker {
		kinds = [3]types.MediaType{types.DockerManifestSchema2, types.DockerConfigJSON, types.DockerLayer}
	}
	m := v1.Manifest{SchemaVersion: 2, MediaType: kinds[0], Annotations: p.annotations}
	for _, l := range p.layers {
		m.Layers = append(m.Layers, h.blob(repo, kinds[2], l))
		p.config.RootFS.DiffIDs = append(p.config.RootFS.DiffIDs, diffID(h.t, l))
	}
	p.config.RootFS.Type = "layers"
	raw, err := json.Marshal(p.config)
	if err != nil {
		h.t.Fatal(err)
	}
	m.Config = h.blob(repo, kinds[1], raw)
	return h.manifest(repo, tag, kinds[0], m)
}

func diffID(t testing.TB, packed []byte) v1.Hash {
	t.Helper()
	var plain io.Reader = bytes.NewReader(packed)
	switch {
	case bytes.HasPrefix(packed, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(plain)
		if err != nil {
			t.Fatal(err)
		}
		plain = z
	case bytes.HasPrefix(packed, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		z, err := zstd.NewReader(plain)
		if err != nil {
			t.Fatal(err)
		}
		defer z.Close()
		plain = z
	}
	sum, _, err := v1.SHA256(plain)
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

// tarOf packs files, by path; a path that ends in / is a folder.
func tarOf(t testing.TB, files map[string]string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for name, content := range files {
		h := &tar.Header{Name: name, Mode: 0o600, Size: int64(len(content)), Typeflag: tar.TypeReg}
		if strings.HasSuffix(name, "/") {
			h.Typeflag, h.Mode = tar.TypeDir, 0o700
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// index pushes an index of images.
func (h *hub) index(repo, tag string, images ...v1.Descriptor) v1.Descriptor {
	h.t.Helper()
	return h.manifest(repo, tag, types.OCIImageIndex, v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: images})
}

func on(d v1.Descriptor, os, architecture string) v1.Descriptor {
	d.Platform = &v1.Platform{OS: os, Architecture: architecture}
	return d
}

func (h *hub) ref(format string, args ...any) string {
	return h.host() + "/" + fmt.Sprintf(format, args...)
}
