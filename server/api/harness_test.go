package api

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"edgepod/server/registry"
	"edgepod/server/store"
)

const (
	adminToken = "admin-token"
	nodeToken  = "node-token"
	userToken  = "user-token"
)

// cluster is the API on a real registry over a real store.
type cluster struct {
	t        testing.TB
	api      *API
	registry *registry.Registry
}

func newCluster(t testing.TB, change func(*Config)) *cluster {
	t.Helper()
	return newClusterOn(t, store.Config{}, change)
}

// newSmallCluster remembers only so many events.
func newSmallCluster(t testing.TB, history int) *cluster {
	t.Helper()
	return newClusterOn(t, store.Config{HistoryEvents: history}, nil)
}

func newClusterOn(t testing.TB, on store.Config, change func(*Config)) *cluster {
	t.Helper()
	on.Path = filepath.Join(t.TempDir(), "db")
	s, err := store.Open(on)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	reg, err := registry.New(registry.Config{Store: s})
	if err != nil {
		t.Fatal(err)
	}
	credentials := NewCredentials(nil)
	credentials.AddToken(adminToken, registry.Caller{Name: "admin", Groups: []string{groupMasters}})
	credentials.AddToken(nodeToken, registry.Caller{Name: "system:node:n1", Groups: []string{groupNodes}})
	credentials.AddToken(userToken, registry.Caller{Name: "jane"})
	config := Config{Registry: reg, Authenticator: credentials, Log: slog.New(slog.NewTextHandler(testWriter{t}, nil))}
	if change != nil {
		change(&config)
	}
	a, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	return &cluster{t: t, api: a, registry: reg}
}

// testWriter shows what the API logs beside the test that made it.
type testWriter struct{ t testing.TB }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}

// call is one request; its zero fields are those of an administrator's kubectl.
type call struct {
	method, path, body string
	token              string
	header             map[string]string
}

func (c *cluster) do(q call) *httptest.ResponseRecorder {
	c.t.Helper()
	w := httptest.NewRecorder()
	c.api.ServeHTTP(w, q.request())
	return w
}

func (q call) request() *http.Request {
	method := q.method
	if method == "" {
		method = http.MethodGet
	}
	var body io.Reader
	if q.body != "" {
		body = strings.NewReader(q.body)
	}
	r := httptest.NewRequest(method, q.path, body)
	switch q.token {
	case "":
		r.Header.Set("Authorization", "Bearer "+adminToken)
	case "none":
	default:
		r.Header.Set("Authorization", "Bearer "+q.token)
	}
	if q.body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for name, value := range q.header {
		r.Header.Set(name, value)
	}
	return r
}

// must does a request whose code the test takes for granted, and returns the decoded body.
func (c *cluster) must(code int, q call) map[string]any {
	c.t.Helper()
	w := c.do(q)
	if w.Code != code {
		c.t.Fatalf("%s %s: got %d, want %d: %s", q.method, q.path, w.Code, code, w.Body)
	}
	var out map[string]any
	if strings.HasPrefix(w.Header().Get("Content-Type"), "application/json") {
		if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil {
			c.t.Fatalf("%s: %v in %s", q.path, err, w.Body)
		}
	}
	return out
}

func podJSON(name string) string {
	return `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"` + name + `","labels":{"app":"web"}},"spec":{"containers":[{"name":"main","image":"edgepod.dev/hello"}]}}`
}

func configMapJSON(name, value string) string {
	return `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"` + name + `"},"data":{"key":"` + value + `"}}`
}

const (
	podsPath       = "/api/v1/namespaces/default/pods"
	configMapsPath = "/api/v1/namespaces/default/configmaps"
)

// serve listens on 127.0.0.1 with TLS and HTTP/2, until the test ends.
func (c *cluster) serve() *httptest.Server {
	c.t.Helper()
	return c.serveWith(func(*http.Server) {})
}

func (c *cluster) serveWith(change func(*http.Server)) *httptest.Server {
	c.t.Helper()
	s := httptest.NewUnstartedServer(nil)
	s.Config = HTTPServer(c.api, slog.New(slog.DiscardHandler))
	change(s.Config)
	s.EnableHTTP2 = true
	s.TLS = &tls.Config{ClientAuth: tls.VerifyClientCertIfGiven}
	s.StartTLS()
	c.t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// open starts a request whose answer streams.
func open(ctx context.Context, t testing.TB, s *httptest.Server, path string, header map[string]string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+adminToken)
	for name, value := range header {
		r.Header.Set(name, value)
	}
	answer, err := s.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { answer.Body.Close() })
	return answer
}

func compact(t testing.TB, text []byte) string {
	t.Helper()
	var buf bytes.Buffer
	if err := json.Compact(&buf, text); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return buf.String()
}

func do(c *cluster, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	c.api.ServeHTTP(w, r)
	return w
}
