package image

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"edgepod/wasmrt/sandbox"
)

// refused pulls what must not be pulled, and checks the reason.
func refused(t *testing.T, what string, s *Store, ref, want string) {
	t.Helper()
	e, err := resolve(t, s, ref, sandbox.PullIfNotPresent)
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%s: %+v, %v, want an error with %q", what, e, err, want)
	}
	if left := s.content(t); len(left) != 0 && strings.HasPrefix(left[0], imageDir) {
		t.Errorf("%s: stored %v", what, left)
	}
}

func TestAmbiguousManifestsAreRefused(t *testing.T) {
	h := newHub(t)
	good := h.artifact("app", "v1", ConfigType, ModuleType, command())
	layer, err := json.Marshal(h.blob("app", ModuleType, command()))
	if err != nil {
		t.Fatal(err)
	}
	config, err := json.Marshal(h.blob("app", ConfigType, []byte("{}")))
	if err != nil {
		t.Fatal(err)
	}
	entry, err := json.Marshal(good)
	if err != nil {
		t.Fatal(err)
	}
	image := func(more string) string {
		return fmt.Sprintf(`{"schemaVersion":2,"config":%s,"layers":[%s]%s}`, config, layer, more)
	}
	for name, tt := range map[string]struct{ text, mediaType, want string }{
		"good":                  {image(""), string(types.OCIManifestSchema1), ""},
		"both":                  {image(fmt.Sprintf(`,"manifests":[%s]`, entry)), string(types.OCIManifestSchema1), "an index at the same time"},
		"both in other letters": {image(fmt.Sprintf(`,"Manifests":[%s]`, entry)), string(types.OCIManifestSchema1), "an index at the same time"},
		"both, as an index":     {image(fmt.Sprintf(`,"manifests":[%s]`, entry)), string(types.OCIImageIndex), "an index at the same time"},
		"layers twice":          {image(`,"layers":[]`), string(types.OCIManifestSchema1), "comes twice"},
		"layers twice in other": {image(`,"LAYERS":[]`), string(types.OCIManifestSchema1), "comes twice"},
		"image said to be index": {
			image(`,"mediaType":"application/vnd.oci.image.index.v1+json"`), string(types.OCIManifestSchema1),
			"says that it is of type application/vnd.oci.image.index.v1+json",
		},
		"sent as an index": {image(""), string(types.OCIImageIndex), "says that it is of type"},
		"neither":          {`{"schemaVersion":2}`, string(types.OCIManifestSchema1), "neither an image nor an index"},
		"schema 1":         {`{"schemaVersion":1,"fsLayers":[],"layers":[]}`, "application/json", "schema 1"},
		"something behind": {image("") + "x", string(types.OCIManifestSchema1), "valid JSON"},
		"an array":         {`[]`, string(types.OCIManifestSchema1), "valid JSON"},
		"wrong digest":     {`{"schemaVersion":2,"config":{"digest":"sha256:00"},"layers":[]}`, string(types.OCIManifestSchema1), "can't be read"},
		"another kind of digest": {
			fmt.Sprintf(`{"schemaVersion":2,"config":%s,"layers":[{"mediaType":"application/wasm","size":1,"digest":"sha512:%s"}]}`, config, strings.Repeat("0", 128)),
			string(types.OCIManifestSchema1), "sha256",
		},
		"negative size": {
			fmt.Sprintf(`{"schemaVersion":2,"config":%s,"layers":[{"mediaType":"application/wasm","size":-1,"digest":"sha256:%s"}]}`, config, strings.Repeat("0", 64)),
			string(types.OCIManifestSchema1), "a layer of it has",
		},
		"no layers": {fmt.Sprintf(`{"schemaVersion":2,"config":%s,"layers":[]}`, config), string(types.OCIManifestSchema1), "no layers"},
	} {
		h.before = func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.HasSuffix(r.URL.Path, "/manifests/v1") {
				return false
			}
			w.Header().Set("Content-Type", tt.mediaType)
			_, _ = fmt.Fprint(w, tt.text)
			return true
		}
		s, _ := openStore(t, nil)
		if tt.want == "" {
			if _, err := resolve(t, s, h.ref("app:v1"), sandbox.PullIfNotPresent); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		refused(t, name, s, h.ref("app:v1"), tt.want)
	}
}

func TestBlobsThatAreNotWhatTheyShouldBeAreRefused(t *testing.T) {
	h := newHub(t)
	wasm := command(custom("v", strings.Repeat("x", 1000)))
	d := h.blob("app", ModuleType, wasm)
	h.artifact("app", "v1", ConfigType, ModuleType, wasm)
	other := []byte(strings.Replace(string(wasm), "xxx", "yyy", 1))
	for name, content := range map[string][]byte{"other": other, "longer": append(wasm, 'x'), "empty": {}} {
		h.before = func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.HasSuffix(r.URL.Path, "/blobs/"+d.Digest.String()) {
				return false
			}
			_, _ = w.Write(content)
			return true
		}
		s, _ := openStore(t, nil)
		_, err := resolve(t, s, h.ref("app:v1"), sandbox.PullIfNotPresent)
		if err == nil || !strings.Contains(err.Error(), "something else than announced") && !strings.Contains(err.Error(), "ended after 0 of") {
			t.Errorf("%s: %v", name, err)
		}
		if left := s.content(t); len(left) != 0 {
			t.Errorf("%s: stored %v", name, left)
		}
		h.before = nil
		if _, err := resolve(t, s, h.ref("app:v1"), sandbox.PullIfNotPresent); err != nil {
			t.Errorf("%s: when the registry is right again: %v", name, err)
		}
	}
}

func TestURLsInManifestsAreNotFollowed(t *testing.T) {
	var asked atomic.Int64
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	t.Cleanup(elsewhere.Close)
	h := newHub(t)
	l := describe(t, types.DockerForeignLayer, tarOf(t, map[string]string{"m.wasm": string(command())}))
	l.URLs = []string{elsewhere.URL + "/layer"}
	h.before = func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/manifests/v1") {
			return false
		}
		raw, err := json.Marshal(v1.Manifest{SchemaVersion: 2, Config: h.blob("app", types.OCIConfigJSON, []byte(`{"os":"wasi","architecture":"wasm"}`)), Layers: []v1.Descriptor{l}})
		if err != nil {
			t.Error(err)
		}
		_, _ = w.Write(raw)
		return true
	}
	s, _ := openStore(t, nil)
	refused(t, "foreign layer", s, h.ref("app:v1"), "there is no image")
	if asked.Load() != 0 {
		t.Error("the URL in the manifest was followed")
	}
}

func TestImagesBeyondTheLimitsAreRefused(t *testing.T) {
	h := newHub(t)
	big := strings.Repeat("x", 100_000)
	wasmImage := v1.ConfigFile{OS: "wasi", Architecture: "wasm"}
	h.artifact("module", "v1", ConfigType, ModuleType, command(custom("big", big)))
	h.picture("files", "v1", picture{config: wasmImage, layers: [][]byte{gzipped(t, tarOf(t, map[string]string{"a": big, "b": big, "m.wasm": string(command())}))}})
	var layers [][]byte
	for i := range 5 {
		layers = append(layers, tarOf(t, map[string]string{fmt.Sprint("f", i): "x"}))
	}
	h.picture("layers", "v1", picture{config: wasmImage, layers: layers})
	verbose := wasmImage
	verbose.Config.Env = []string{"A=" + strings.Repeat("x", 300_000)}
	h.picture("verbose", "v1", picture{config: verbose, layers: layers[:1]})
	wrong := wasmImage
	wrong.RootFS.DiffIDs = []v1.Hash{diffID(t, layers[1])}
	raw, err := json.Marshal(wrong)
	if err != nil {
		t.Fatal(err)
	}
	h.manifest("diff", "v1", types.OCIManifestSchema1, v1.Manifest{
		SchemaVersion: 2, Config: h.blob("diff", types.OCIConfigJSON, raw), Layers: []v1.Descriptor{h.blob("diff", types.OCILayer, layers[0])},
	})
	for _, tt := range []struct {
		repo   string
		limits Limits
		want   string
	}{
		{"module", Limits{Module: 50_000}, "larger than"},
		{"module", Limits{Download: 50_000}, "a layer of it has"},
		{"files", Limits{Unpacked: 150_000}, "larger than what an image may have"},
		{"files", Limits{Files: 2}, "more files"},
		{"layers", Limits{Layers: 4}, "it has 5 layers, and at most 4 are taken"},
		{"layers", Limits{Download: 5000}, "its layers have"},
		{"verbose", Limits{}, "more than the 256 KiB"},
		{"diff", Limits{}, "holds something else than its configuration says"},
	} {
		s, _ := openStore(t, func(c *Config) { c.Limits = tt.limits })
		refused(t, tt.repo, s, h.ref("%s:v1", tt.repo), tt.want)
	}
}

// cutter ends each answer with a blob after so many bytes, and counts what was sent.
func cutter(digest string, after int, wasm []byte, sent *atomic.Int64) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/blobs/"+digest) {
			return false
		}
		from := 0
		if _, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from); err == nil {
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(wasm)-1, len(wasm)))
			w.Header().Set("Content-Length", fmt.Sprint(len(wasm)-from))
			w.WriteHeader(http.StatusPartialContent)
		} else {
			w.Header().Set("Content-Length", fmt.Sprint(len(wasm)))
		}
		n, _ := w.Write(wasm[from:min(from+after, len(wasm))])
		sent.Add(int64(n))
		if from+after < len(wasm) {
			panic(http.ErrAbortHandler)
		}
		return true
	}
}

func TestACutPullIsResumed(t *testing.T) {
	h := newHub(t)
	wasm := command(custom("v", strings.Repeat("x", 100_000)))
	d := h.artifact("app", "v1", ConfigType, ModuleType, wasm)
	blob := describe(t, ModuleType, wasm).Digest.String()
	var sent atomic.Int64
	h.before = cutter(blob, 30_000, wasm, &sent)
	s, _ := openStore(t, nil)
	e, err := resolve(t, s, h.ref("app:v1"), sandbox.PullIfNotPresent)
	if err != nil || e.Digest != d.Digest.String() {
		t.Fatalf("%+v, %v", e, err)
	}
	if sent.Load() != int64(len(wasm)) {
		t.Errorf("%d bytes were sent for %d", sent.Load(), len(wasm))
	}

	// Across two pulls, between which the registry was gone, and the agent.
	s, _ = openStore(t, nil)
	var down atomic.Bool
	cut := cutter(blob, 40_000, wasm, &sent)
	h.before = func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "/blobs/") {
			return false
		}
		if down.Load() {
			w.WriteHeader(http.StatusForbidden)
			return true
		}
		defer down.Store(true)
		return cut(w, r)
	}
	sent.Store(0)
	if _, err := resolve(t, s, h.ref("app:v1"), sandbox.PullIfNotPresent); err == nil {
		t.Fatal("a cut pull succeeded")
	}
	again, _ := openStore(t, func(c *Config) { c.Dir = s.cfg.Dir })
	h.before = cutter(blob, len(wasm), wasm, &sent)
	if _, err := resolve(t, again, h.ref("app:v1"), sandbox.PullIfNotPresent); err != nil {
		t.Fatal(err)
	}
	if sent.Load() != int64(len(wasm)) {
		t.Errorf("%d bytes were sent for %d in two pulls", sent.Load(), len(wasm))
	}
}

func TestADamagedBeginningIsFetchedAnew(t *testing.T) {
	h := newHub(t)
	wasm := command(custom("v", strings.Repeat("x", 10_000)))
	h.artifact("app", "v1", ConfigType, ModuleType, wasm)
	s, _ := openStore(t, nil)
	p, err := s.openPartial(describe(t, ModuleType, wasm))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.file.WriteString("damage"); err != nil {
		t.Fatal(err)
	}
	// While another holds it, a pull takes a file of its own.
	if _, err := resolve(t, s, h.ref("app:v1"), sandbox.PullIfNotPresent); err != nil {
		t.Error(err)
	}
	p.close()
	s.forgetBlobs(t)
	if _, err := resolve(t, s, h.ref("app:v1"), sandbox.PullIfNotPresent); err != nil {
		t.Error(err)
	}
}

// forgetBlobs leaves the beginnings of blobs alone in the store.
func (s *Store) forgetBlobs(t *testing.T) {
	t.Helper()
	collect(t, s, sandbox.CollectRequest{Free: 1 << 40})
	if left := s.content(t); len(left) != 0 {
		t.Fatalf("left over: %v", left)
	}
}

func TestBusyAndHangingRegistries(t *testing.T) {
	h := newHub(t)
	h.artifact("app", "v1", ConfigType, ModuleType, command())
	var n atomic.Int64
	h.before = func(w http.ResponseWriter, _ *http.Request) bool {
		if n.Add(1)%2 == 0 {
			return false
		}
		w.WriteHeader(int([]int64{http.StatusTooManyRequests, http.StatusServiceUnavailable}[n.Load()/2%2]))
		return true
	}
	s, _ := openStore(t, nil)
	if _, err := resolve(t, s, h.ref("app:v1"), sandbox.PullIfNotPresent); err != nil {
		t.Errorf("every other request was answered 429 or 503: %v", err)
	}
	h.before = func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusTooManyRequests)
		return true
	}
	s, _ = openStore(t, nil)
	refused(t, "429 for ever", s, h.ref("app:v1"), "429 Too Many Requests")
	h.before = func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, "/blobs/") {
			<-r.Context().Done()
		}
		return false
	}
	s, _ = openStore(t, func(c *Config) { c.Limits.Stall = 50 * time.Millisecond })
	refused(t, "hangs", s, h.ref("app:v1"), "has sent nothing for 50ms")
	s, _ = openStore(t, func(c *Config) { c.Limits.Pull = 50 * time.Millisecond })
	refused(t, "hangs for ever", s, h.ref("app:v1"), "the pull has taken longer than 50ms")
}

func TestManyPullsAtOnceFetchOnce(t *testing.T) {
	h := newHub(t)
	wasm := command(custom("v", strings.Repeat("x", 100_000)))
	h.artifact("app", "v1", ConfigType, ModuleType, wasm)
	blob := describe(t, ModuleType, wasm).Digest.String()
	var fetched atomic.Int64
	h.before = func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, blob) {
			fetched.Add(1)
		}
		return false
	}
	a, _ := openStore(t, nil)
	b, _ := openStore(t, func(c *Config) { c.Dir = a.cfg.Dir })
	var pulls sync.WaitGroup
	for i := range 16 {
		pulls.Go(func() {
			s := []*Store{a, b}[i%2]
			e, err := s.Resolve(t.Context(), sandbox.PullRequest{Ref: h.ref("app:v1"), Policy: sandbox.PullAlways})
			if err != nil || e.Sum == "" {
				t.Errorf("%+v, %v", e, err)
			}
			if i%4 == 3 {
				if _, err := s.Collect(t.Context(), sandbox.CollectRequest{Free: 1, MinAge: time.Hour}, func(string) bool { return false }); err != nil {
					t.Error(err)
				}
			}
		})
	}
	pulls.Wait()
	if n := fetched.Load(); n < 1 || n > 2 {
		t.Errorf("the layer was fetched %d times by two stores", n)
	}
}
