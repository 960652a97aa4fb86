package api

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"edgepod/server/api/openapi"
	"edgepod/server/registry"
)

func TestHealth(t *testing.T) {
	var fault error
	c := newCluster(t, func(config *Config) { config.Ready = func() error { return fault } })
	check := func(path string, code int, want string) {
		t.Helper()
		if w := c.do(call{path: path, token: "none"}); w.Code != code || w.Body.String() != want {
			t.Errorf("%s: got %d %q, want %d %q", path, w.Code, w.Body, code, want)
		}
	}
	check("/livez", 200, "ok")
	check("/readyz", 200, "ok")
	check("/readyz?verbose", 200, "[+]ping ok\n[+]ready ok\nreadyz check passed\n")
	fault = errors.New("not yet")
	check("/livez", 200, "ok")
	check("/readyz", 500, "[+]ping ok\n[-]ready failed: reason withheld\nreadyz check failed\n")
	check("/readyz?exclude=ready", 200, "ok")
	check("/healthz/ready", 500, "[-]ready failed: reason withheld\nhealthz check failed\n")
	check("/healthz/ping", 200, "ok")
	check("/healthz/shoes", 404, "404 page not found\n")
}

func TestDiscoveryDocumentsAreTagged(t *testing.T) {
	c := newCluster(t, nil)
	for _, version := range []string{"v2", "v2beta1"} {
		accept := "application/json;g=apidiscovery.k8s.io;v=" + version + ";as=APIGroupDiscoveryList"
		for path, resource := range map[string]string{"/api": "pods", "/apis": "leases"} {
			w := c.do(call{path: path, header: map[string]string{"Accept": accept + ",application/json"}})
			tag := w.Header().Get("ETag")
			if w.Code != 200 || w.Header().Get("Content-Type") != accept || tag == "" || !strings.Contains(w.Body.String(), `"resource":"`+resource+`"`) {
				t.Errorf("%s %s: got %d %v %s", path, version, w.Code, w.Header(), w.Body)
			}
			again := c.do(call{path: path, header: map[string]string{"Accept": accept, "If-None-Match": tag}})
			if again.Code != 304 || again.Body.Len() != 0 {
				t.Errorf("%s %s again: got %d", path, version, again.Code)
			}
		}
	}
	if legacy := c.must(200, call{path: "/api"}); legacy["kind"] != "APIVersions" {
		t.Errorf("got %v", legacy)
	}
	if legacy := c.must(200, call{path: "/apis"}); legacy["kind"] != "APIGroupList" {
		t.Errorf("got %v", legacy)
	}
	if group := c.must(200, call{path: "/apis/coordination.k8s.io/"}); group["kind"] != "APIGroup" || group["name"] != "coordination.k8s.io" {
		t.Errorf("got %v", group)
	}
	if list := c.must(200, call{path: "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"}); list["kind"] != "CustomResourceDefinitionList" {
		t.Errorf("got %v", list)
	}
	list := c.must(200, call{path: "/api/v1"})
	text, err := json.Marshal(list["resources"])
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{`"name":"pods/log"`, `"shortNames":["po"]`, `"categories":["all"]`, `"name":"namespaces/finalize"`} {
		if !strings.Contains(string(text), part) {
			t.Errorf("no %s in %s", part, text)
		}
	}
	for _, path := range []string{"/api/v2", "/apis/acme.example", "/apis/acme.example/v1"} {
		c.must(404, call{path: path})
	}
}

func TestOpenAPIDocumentsAreServedByHash(t *testing.T) {
	c := newCluster(t, nil)
	index := c.must(200, call{path: "/openapi/v3"})["paths"].(map[string]any)
	documents, err := openapi.V3()
	if err != nil || len(index) != len(documents) {
		t.Fatalf("index of %d documents, %d embedded, %v", len(index), len(documents), err)
	}
	c.must(404, call{path: "/openapi/v3/api/v7"})
	for path, item := range index {
		address := item.(map[string]any)["serverRelativeURL"].(string)
		w := c.do(call{path: address})
		var document struct {
			OpenAPI string
			Paths   map[string]any
		}
		if err := json.Unmarshal(w.Body.Bytes(), &document); err != nil || document.OpenAPI != "3.0.0" || document.Paths["/"+path+"/"] == nil {
			t.Errorf("%s: %d, %v", address, w.Code, err)
		}
		if w.Header().Get("Cache-Control") != "public, immutable" {
			t.Errorf("%s: %v", address, w.Header())
		}
		zipped := c.do(call{path: address, header: map[string]string{"Accept-Encoding": "gzip"}})
		plain, err := gzip.NewReader(zipped.Body)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(plain); err != nil || string(text) != w.Body.String() {
			t.Errorf("%s: compressed differs, %v", address, err)
		}
		if w := c.do(call{path: "/openapi/v3/" + path + "?hash=OLD"}); w.Code != 301 || w.Header().Get("Location") != address {
			t.Errorf("%s with an old hash: got %d to %s", path, w.Code, w.Header().Get("Location"))
		}
		if w := c.do(call{path: address, header: map[string]string{"If-None-Match": w.Header().Get("ETag")}}); w.Code != 304 {
			t.Errorf("%s again: got %d", address, w.Code)
		}
	}
}

func TestMetricsCountRequests(t *testing.T) {
	c := newCluster(t, nil)
	c.must(200, call{path: podsPath})
	c.must(404, call{path: podsPath + "/none"})
	c.must(404, call{path: podsPath + "/x/" + "invented"})
	text := c.do(call{path: "/metrics"}).Body.String()
	for _, line := range []string{
		`apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="pods",scope="namespace",subresource="",verb="LIST",version="v1"} 1`,
		`apiserver_request_total{code="404",component="apiserver",dry_run="",group="",resource="pods",scope="resource",subresource="",verb="GET",version="v1"} 2`,
		`apiserver_request_duration_seconds_count{component="apiserver",dry_run="",group="",resource="pods",scope="namespace",subresource="",verb="LIST",version="v1"} 1`,
		`apiserver_current_inflight_requests{request_kind="readOnly"} 1`,
		`go_goroutines`,
	} {
		if !strings.Contains(text, line) {
			t.Errorf("no line %s", line)
		}
	}
	if strings.Contains(text, "invented") {
		t.Error("a client can invent labels")
	}
}

// slowRegistry answers reads when it is told to.
type slowRegistry struct {
	registry.Verbs
	entered chan struct{}
	release chan struct{}
}

func (s *slowRegistry) List(ctx context.Context, res *registry.Resource, req registry.ListRequest) (registry.List, error) {
	s.entered <- struct{}{}
	select {
	case <-s.release:
		return s.Verbs.List(ctx, res, req)
	case <-ctx.Done():
		return registry.List{}, ctx.Err()
	}
}

func (s *slowRegistry) Get(context.Context, *registry.Resource, string, string) (*registry.Object, error) {
	panic("a fault in the program")
}

func newSlowCluster(t *testing.T, limits Limits) (*cluster, *slowRegistry) {
	slow := &slowRegistry{entered: make(chan struct{}), release: make(chan struct{})}
	c := newCluster(t, func(config *Config) {
		slow.Verbs, config.Registry, config.Limits = config.Registry, slow, limits
	})
	return c, slow
}

func TestMoreRequestsThanTheServerTakesAreSentBack(t *testing.T) {
	c, slow := newSlowCluster(t, Limits{Reading: 2})
	codes := make(chan int, 2)
	for range 2 {
		go func() { codes <- do(c, call{path: podsPath}.request()).Code }()
		<-slow.entered
	}
	w := c.do(call{path: podsPath})
	if w.Code != 429 || w.Header().Get("Retry-After") != "1" || !strings.Contains(w.Body.String(), `"reason":"TooManyRequests"`) {
		t.Errorf("got %d %v %s", w.Code, w.Header(), w.Body)
	}
	c.must(201, call{method: "POST", path: configMapsPath, body: configMapJSON("x", "1")})
	close(slow.release)
	for range 2 {
		if code := <-codes; code != 200 {
			t.Errorf("got %d", code)
		}
	}
}

func TestRequestsEndInTime(t *testing.T) {
	c, slow := newSlowCluster(t, Limits{Request: time.Millisecond})
	go func() { <-slow.entered }()
	w := c.do(call{path: podsPath})
	if w.Code != 504 || !strings.Contains(w.Body.String(), `"reason":"Timeout"`) {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

func TestAPanicIsAnAnswer(t *testing.T) {
	c, _ := newSlowCluster(t, Limits{})
	w := c.do(call{path: podsPath + "/x"})
	if w.Code != 500 || !strings.Contains(w.Body.String(), `"reason":"InternalError"`) || strings.Contains(w.Body.String(), "a fault in the program") {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
	if text := c.do(call{path: "/metrics"}).Body.String(); !strings.Contains(text, "apiserver_request_panics_total 1") {
		t.Error("the panic is not counted")
	}
}

func TestOneUserHasSoManyWatches(t *testing.T) {
	c := newCluster(t, func(config *Config) { config.Limits.Streams = 2 })
	s := c.serve()
	for range 2 {
		open(t.Context(), t, s, podsPath+"?watch=true", nil)
	}
	c.must(429, call{path: podsPath + "?watch=true"})
	c.must(200, call{path: podsPath})
}

func TestLargeAnswersAreCompressedForOtherMachines(t *testing.T) {
	c := newCluster(t, nil)
	for i := range 3 {
		c.must(201, call{method: "POST", path: configMapsPath, body: configMapJSON("m"+strconv.Itoa(i), strings.Repeat("x", 50_000))})
	}
	plain := c.do(call{path: configMapsPath}).Body.Bytes()
	r := call{path: configMapsPath, header: map[string]string{"Accept-Encoding": "gzip"}}.request()
	w := do(c, r)
	if w.Header().Get("Content-Encoding") != "gzip" || w.Body.Len() > len(plain)/10 {
		t.Errorf("%d bytes, %v", w.Body.Len(), w.Header())
	}
	unzipped, err := gzip.NewReader(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(unzipped); err != nil || string(text) != string(plain) {
		t.Errorf("compressed differs: %v", err)
	}
	r.RemoteAddr = "127.0.0.1:1234"
	if w := do(c, r); w.Header().Get("Content-Encoding") != "" || w.Body.String() != string(plain) || w.Header().Get("Content-Length") != strconv.Itoa(len(plain)) {
		t.Errorf("on this machine: %v", w.Header())
	}
	if w := c.do(call{path: configMapsPath + "/m0", header: map[string]string{"Accept-Encoding": "gzip"}}); w.Header().Get("Content-Encoding") != "" {
		t.Error("a small answer is compressed")
	}
	if code := c.do(call{method: http.MethodHead, path: configMapsPath}).Code; code != 405 {
		t.Errorf("HEAD: got %d", code)
	}
}

func TestYAMLBombsAreRefused(t *testing.T) {
	c := newCluster(t, nil)
	yaml := map[string]string{"Content-Type": "application/yaml"}
	scalar := "a: &a " + strings.Repeat("x", 10_000) + "\nb: [" + strings.Repeat("*a,", 100_000) + "]\n"
	var nested strings.Builder
	nested.WriteString("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n")
	for i := 1; i < 12; i++ {
		ref := "*a" + strconv.Itoa(i-1)
		nested.WriteString("a" + strconv.Itoa(i) + ": &a" + strconv.Itoa(i) + " [" + strings.Repeat(ref+",", 9) + ref + "]\n")
	}
	for name, body := range map[string]string{
		"of one long word": scalar, "of lists of lists": nested.String(), "of itself": "a: &a [*a]\n",
		"deep in YAML": strings.Repeat("- ", 100_000) + "x", "deep in flow": strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000),
	} {
		if w := c.do(call{method: "POST", path: configMapsPath, body: body, header: yaml}); w.Code != 400 {
			t.Errorf("a bomb %s: got %d %.200s", name, w.Code, w.Body)
		}
	}
	if w := c.do(call{method: "POST", path: configMapsPath, body: strings.Repeat(`{"a":`, 500_000)}); w.Code != 400 {
		t.Errorf("deep JSON: got %d %.200s", w.Code, w.Body)
	}
	good := "kind: ConfigMap\napiVersion: v1\nmetadata: {name: x, labels: &l {a: b}, annotations: *l}\n"
	if w := c.do(call{method: "POST", path: configMapsPath, body: good, header: yaml}); w.Code != 201 {
		t.Errorf("an alias: got %d %s", w.Code, w.Body)
	}
}
