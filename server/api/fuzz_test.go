package api

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"edgepod/server/registry/upstream"
)

// wellFormed holds every answer to what clients rely on: an error is a Status with the answer's code, and no error is the
// server's fault.
func wellFormed(t *testing.T, w *httptest.ResponseRecorder) {
	t.Helper()
	if w.Code >= 500 && w.Code != http.StatusGatewayTimeout {
		t.Errorf("got %d: %s", w.Code, w.Body)
	}
	if w.Code < 400 || w.Header().Get("Content-Type") != "application/json" {
		return
	}
	var status struct {
		Kind string
		Code int
	}
	if err := json.Unmarshal(w.Body.Bytes(), &status); err != nil || status.Kind != "Status" || status.Code != w.Code {
		t.Errorf("got %d with %s, %v", w.Code, w.Body, err)
	}
}

func FuzzPathAndQuery(f *testing.F) {
	c := newCluster(f, nil)
	for _, path := range []string{
		podsPath + "?limit=1&continue=x", "/api/v1/pods?fieldSelector=status.phase%3DRunning", "/api/v1/namespaces/a%2Fb/pods/c%00d", "/apis//v1/x",
		"/api/v1/namespaces/x/finalize", "/api/v1/watch/pods?timeoutSeconds=1", podsPath + "/x/log?tailLines=1&sinceTime=y", "/openapi/v3/api/v1?hash=1",
		configMapsPath + "?resourceVersion=5&resourceVersionMatch=Exact", "/api/v1/../../x", "/livez/%2e%2e", podsPath + "?timeout=1x&pretty=2",
	} {
		f.Add("GET", path, "application/json")
		f.Add("DELETE", path, "application/yaml")
	}
	f.Fuzz(func(t *testing.T, method, path, accept string) {
		target, err := url.ParseRequestURI(path)
		if err != nil || !strings.HasPrefix(path, "/") || strings.Contains(strings.ToLower(path), "watch") {
			return // net/http refuses the first; watches would only wait
		}
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Method, r.URL, r.RequestURI = method, target, path
		r.Header.Set("Authorization", "Bearer "+adminToken)
		r.Header.Set("Accept", accept)
		wellFormed(t, do(c, r))
	})
}

func FuzzBody(f *testing.F) {
	c := newCluster(f, nil)
	c.must(201, call{method: "POST", path: podsPath, body: podJSON("x")})
	for _, kind := range []string{"application/json", "application/yaml", "application/vnd.kubernetes.protobuf"} {
		f.Add("POST", kind, []byte(podJSON("y")))
		f.Add("PUT", kind, []byte(podJSON("x")))
		f.Add("DELETE", kind, []byte(`{"propagationPolicy":"Background"}`))
		f.Add("POST", kind, []byte("a: &a [*a]"))
		f.Add("POST", kind, []byte("k8s\x00\n\x09\n\x02v1\x12\x03Pod\x12\x00"))
	}
	f.Add("PATCH", "application/json-patch+json", []byte(`[{"op":"copy","from":"/spec","path":"/metadata/-"}]`))
	f.Add("PATCH", "application/merge-patch+json", []byte(`{"spec":{"containers":[null]}}`))
	f.Add("PATCH", "application/strategic-merge-patch+json", []byte(`{"spec":{"containers":[{"$patch":"delete","name":"main"}]}}`))
	f.Fuzz(func(t *testing.T, method, kind string, body []byte) {
		path := podsPath + "/x"
		if method == "POST" {
			path = podsPath
		}
		r := httptest.NewRequest(http.MethodGet, path+"?dryRun=All", strings.NewReader(string(body)))
		r.Method = method
		r.Header.Set("Authorization", "Bearer "+adminToken)
		r.Header.Set("Content-Type", kind)
		wellFormed(t, do(c, r))
	})
}

// Whatever is read flawlessly is what the serializer reads.
func FuzzDecodeFlawless(f *testing.F) {
	f.Add([]byte(podJSON("x")))
	f.Add([]byte(`{"metadata":{"name":"x","creationTimestamp":null},"spec":{"containers":[]}}`))
	kind := corev1.SchemeGroupVersion.WithKind("Pod")
	f.Fuzz(func(t *testing.T, body []byte) {
		quick := decodeFlawless(body, kind, &corev1.Pod{})
		if quick == nil {
			return
		}
		info := upstream.Codecs.SupportedMediaTypes()[0]
		slow, _, err := info.StrictSerializer.Decode(body, &kind, &corev1.Pod{})
		if err != nil {
			t.Fatalf("%q: only the serializer finds %v", body, err)
		}
		slow.GetObjectKind().SetGroupVersionKind(kind)
		got, _ := json.Marshal(quick)
		want, _ := json.Marshal(slow)
		if string(got) != string(want) {
			t.Errorf("%q: got %s, want %s", body, got, want)
		}
	})
}
