package remote

import (
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"

	"edgepod/wasmrt/sandbox"
)

// fake is a registry with one manifest, "v1", and one blob, that does as it is told. It notes what it is asked.
type fake struct {
	*httptest.Server
	handle func(http.ResponseWriter, *http.Request) bool // true if it has answered

	mu    sync.Mutex
	asked []string // path and authorization
}

const (
	manifestText = `{"schemaVersion":2,"layers":[]}`
	blobText     = "0123456789"
	blobDigest   = "sha256:84d89877f0d4041efb6bf91a16f0248f2fd573e6af05c19f96bedb9f882f7882"
)

func newFake(t *testing.T, handle func(http.ResponseWriter, *http.Request) bool) *fake {
	t.Helper()
	f := &fake{handle: handle}
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Close)
	return f
}

func (f *fake) host() string {
	return strings.TrimPrefix(strings.TrimPrefix(f.URL, "http://"), "https://")
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	f.asked = append(f.asked, r.URL.Path+" "+r.Header.Get("Authorization"))
	f.mu.Unlock()
	if f.handle != nil && f.handle(w, r) {
		return
	}
	switch {
	case r.URL.Path == "/v2/":
	case strings.HasSuffix(r.URL.Path, "/manifests/v1"):
		w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
		_, _ = io.WriteString(w, manifestText)
	case strings.HasSuffix(r.URL.Path, "/blobs/"+blobDigest):
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(blobText))
	default:
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest unknown"}]}`)
	}
}

// seen returns what was asked so far, as one text.
func (f *fake) seen() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.asked, "\n")
}

func newClient(t *testing.T, change func(*Config)) *Client {
	t.Helper()
	cfg := Config{Pause: time.Millisecond}
	if change != nil {
		change(&cfg)
	}
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func repository(t *testing.T, c *Client, text string, credentials ...sandbox.Credential) *Repository {
	t.Helper()
	repo, err := name.NewRepository(text)
	if err != nil {
		t.Fatal(err)
	}
	r, err := c.Repository(repo, credentials)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// readBlob fetches the blob from an offset on.
func readBlob(t *testing.T, r *Repository, offset int64) (string, int64, error) {
	t.Helper()
	b, err := r.Blob(t.Context(), blobDigest, offset)
	if err != nil {
		return "", 0, err
	}
	defer func() { _ = b.Close() }()
	text, err := io.ReadAll(b)
	return string(text), b.Offset, err
}

func TestRedirectsAreFollowedWithCare(t *testing.T) {
	request := func(text string) *http.Request {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		return &http.Request{URL: u}
	}
	for _, tt := range []struct{ from, to, want string }{
		{"https://r.example/x", "https://cdn.example/y", ""},
		{"http://127.0.0.1:5000/x", "http://127.0.0.1:5001/y", ""},
		{"https://r.example/x", "http://r.example/x", "not encrypted"},
		{"https://r.example/x", "https://169.254.169.254/latest", "address of this machine"},
		{"https://r.example/x", "https://localhost:8080/", "address of this machine"},
		{"https://r.example/x", "https://[::1]/", "address of this machine"},
		{"https://r.example/x", "https://0.0.0.0/", "address of this machine"},
	} {
		err := redirects(request(tt.to), []*http.Request{request(tt.from)})
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("from %s to %s: %v, want %q", tt.from, tt.to, err, tt.want)
		}
	}
	loop := newFake(t, nil)
	loop.handle = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/v2/" {
			return false
		}
		http.Redirect(w, r, loop.URL+r.URL.Path+"x", http.StatusFound)
		return true
	}
	if _, err := repository(t, newClient(t, nil), loop.host()+"/app").Manifest(t.Context(), "v1"); err == nil || !strings.Contains(err.Error(), "more than 5 times") {
		t.Errorf("a redirect without end: %v", err)
	}
}

func TestPartsOfBlobs(t *testing.T) {
	ignoring := func(w http.ResponseWriter, r *http.Request) bool {
		r.Header.Del("Range")
		return false
	}
	lying := func(w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Range") == "" {
			return false
		}
		w.Header().Set("Content-Range", "bytes 2-9/10")
		w.WriteHeader(http.StatusPartialContent)
		_, _ = io.WriteString(w, blobText[2:])
		return true
	}
	for name, tt := range map[string]struct {
		handle func(http.ResponseWriter, *http.Request) bool
		offset int64
		want   string
		from   int64
	}{
		"whole":          {nil, 0, blobText, 0},
		"rest":           {nil, 4, blobText[4:], 4},
		"beyond the end": {nil, 10, blobText, 0},
		"ignored":        {ignoring, 4, blobText, 0},
		"another part":   {lying, 4, blobText, 0},
	} {
		f := newFake(t, tt.handle)
		got, from, err := readBlob(t, repository(t, newClient(t, nil), f.host()+"/app"), tt.offset)
		if err != nil || got != tt.want || from != tt.from {
			t.Errorf("%s: %q from %d, %v; want %q from %d", name, got, from, err, tt.want, tt.from)
		}
	}
}

func TestMirrorsAreAskedFirst(t *testing.T) {
	down := newFake(t, func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusForbidden)
		return true
	})
	lacking := newFake(t, func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/v2/" {
			return false
		}
		w.WriteHeader(http.StatusNotFound)
		return true
	})
	mirror, own := newFake(t, nil), newFake(t, nil)
	mirrors := []string{down.URL, lacking.URL, mirror.URL + "/proxy/hub/"}
	c := newClient(t, func(cfg *Config) { cfg.Registries.Hosts = map[string]Host{own.host(): {Mirrors: mirrors}} })
	r := repository(t, c, own.host()+"/app", sandbox.Credential{Server: own.host(), Username: "u", Password: "secret"})
	if _, err := r.Manifest(t.Context(), "v1"); err != nil {
		t.Fatal(err)
	}
	if text, _, err := readBlob(t, r, 0); err != nil || text != blobText {
		t.Errorf("blob %q, %v", text, err)
	}
	if own.seen() != "" || !strings.Contains(mirror.seen(), "/v2/proxy/hub/app/blobs/") || strings.Contains(down.seen()+lacking.seen()+mirror.seen(), "Basic") {
		t.Errorf("own: %s\nmirror: %s", own.seen(), mirror.seen())
	}
	_, err := r.Manifest(t.Context(), "v2")
	if !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), "mirrors: ") || !strings.Contains(err.Error(), down.host()) {
		t.Errorf("of what no one has: %v", err)
	}
	if !strings.Contains(own.seen(), "/manifests/v2") {
		t.Errorf("the registry itself was not asked at last: %s", own.seen())
	}
}

func TestDirectHostsSeeToTheirOwnAuthentication(t *testing.T) {
	f := newFake(t, nil)
	direct := transportFunc(func(r *http.Request) (*http.Response, error) {
		if r.URL.Scheme != "https" || r.URL.Host != "registry.local" || r.Header.Get("Authorization") != "" {
			t.Errorf("asked for %s with %v", r.URL, r.Header)
		}
		r = r.Clone(r.Context())
		r.URL.Scheme, r.URL.Host = "http", f.host()
		return http.DefaultTransport.RoundTrip(r)
	})
	c := newClient(t, func(cfg *Config) { cfg.Direct = map[string]http.RoundTripper{"registry.local": direct} })
	r := repository(t, c, "registry.local/ns/app", sandbox.Credential{Server: "registry.local", Username: "u", Password: "p"})
	if _, err := r.Manifest(t.Context(), "v1"); err != nil {
		t.Error(err)
	}
	if _, err := r.Manifest(t.Context(), "v2"); !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), "manifest unknown") {
		t.Errorf("of what is not there: %v", err)
	}
	f.handle = func(w http.ResponseWriter, r *http.Request) bool {
		http.Redirect(w, r, "https://elsewhere.example/", http.StatusFound)
		return true
	}
	if _, err := r.Manifest(t.Context(), "v1"); err == nil {
		t.Error("a redirect of the cluster's registry was followed")
	}
}

type transportFunc func(*http.Request) (*http.Response, error)

func (f transportFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestEncryptionIsNotGivenUp(t *testing.T) {
	f := &fake{}
	f.Server = httptest.NewUnstartedServer(f)
	f.Config.ErrorLog = log.New(io.Discard, "", 0)
	f.StartTLS()
	t.Cleanup(f.Close)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		host Host
		want string
	}{
		"unknown authority": {Host{}, "certificate"},
		"its authority":     {Host{CAFile: ca}, ""},
		"any authority":     {Host{SkipVerify: true}, ""},
	} {
		c := newClient(t, func(cfg *Config) { cfg.Registries.Hosts = map[string]Host{"*": tt.host} })
		_, err := repository(t, c, f.host()+"/app").Manifest(t.Context(), "v1")
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
	guard := &schemeGuard{host: "r.example", inner: transportFunc(func(*http.Request) (*http.Response, error) { return nil, io.EOF })}
	if _, err := guard.RoundTrip(&http.Request{URL: &url.URL{Scheme: "http", Host: "r.example"}}); !errors.Is(err, errPlain) {
		t.Errorf("without encryption: %v", err)
	}
}

func TestConfigurationIsChecked(t *testing.T) {
	for _, r := range []Registries{
		{Default: "https://r.example"},
		{Hosts: map[string]Host{"r.example/path": {}}},
		{Hosts: map[string]Host{"r.example": {Mirrors: []string{"mirror.example"}}}},
		{Hosts: map[string]Host{"r.example": {Mirrors: []string{"ftp://mirror.example"}}}},
		{Hosts: map[string]Host{"r.example": {Mirrors: []string{"https://user:pw@mirror.example"}}}},
		{Hosts: map[string]Host{"": {}}},
	} {
		if _, err := New(Config{Registries: r}); err == nil || !strings.Contains(err.Error(), "registries: ") {
			t.Errorf("%+v: %v, want it refused", r, err)
		}
	}
	good := Registries{Default: "r.example:5000", Hosts: map[string]Host{"*": {SkipVerify: true}, "docker.io": {PlainHTTP: true}, "[::1]:5000": {}}}
	if _, err := New(Config{Registries: good}); err != nil {
		t.Error(err)
	}
	if !good.host("index.docker.io").PlainHTTP || !good.host("other.example").SkipVerify || good.host("[::1]:5000").SkipVerify {
		t.Error("hosts are not found by their names")
	}
}

func TestAnEndlessGreetingIsCutOff(t *testing.T) {
	f := newFake(t, func(w http.ResponseWriter, r *http.Request) bool {
		for r.URL.Path == "/v2/" {
			if _, err := w.Write(make([]byte, 32<<10)); err != nil {
				return true
			}
		}
		return false
	})
	if _, err := repository(t, newClient(t, nil), f.host()+"/app").Manifest(t.Context(), "v1"); err != nil {
		t.Error(err)
	}
}

func TestWrongManifestsAreRefused(t *testing.T) {
	f := newFake(t, func(w http.ResponseWriter, r *http.Request) bool {
		switch {
		case strings.HasSuffix(r.URL.Path, "/manifests/large"):
			_, _ = w.Write(make([]byte, MaxManifest+1))
		case strings.Contains(r.URL.Path, "/manifests/sha256:"):
			_, _ = io.WriteString(w, manifestText)
		default:
			return false
		}
		return true
	})
	r := repository(t, newClient(t, nil), f.host()+"/app")
	if _, err := r.Manifest(t.Context(), "large"); err == nil || !strings.Contains(err.Error(), "larger than 4 MiB") {
		t.Errorf("large: %v", err)
	}
	if _, err := r.Manifest(t.Context(), blobDigest); err == nil || !strings.Contains(err.Error(), "something else") {
		t.Errorf("wrong digest: %v", err)
	}
}
