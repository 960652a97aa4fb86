package api

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

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

// A patch of the parts that it touches comes to the same as a patch of the whole.
func FuzzPatchOfPartsIsPatchOfWhole(f *testing.F) {
	pod := &corev1.Pod{}
	if err := json.Unmarshal([]byte(fullPod("x")), pod); err != nil {
		f.Fatal(err)
	}
	pod.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	pod.Annotations = map[string]string{"a/b": "c"}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	resource := newCluster(f, nil).registry.Resource("", "pods")
	for i, bodies := range [][]string{
		{`[{"op":"add","path":"/metadata/labels/n","value":"1"}]`, `[{"op":"move","from":"/metadata/labels","path":"/metadata/annotations"}]`, `[{"op":"copy","from":"/status","path":"/spec"}]`, `[{"op":"replace","path":"","value":{}}]`, `[{"op":"remove","path":"/metadata/annotations/a~1b"}]`, `[{"op":"test","path":"/spec/containers/0/name","value":"main"},{"op":"add","path":"/spec/containers/-","value":{"name":"b"}}]`, `[]`, `[{"op":"add","path":"/shoes","value":1}]`},
		{`{"metadata":{"labels":{"app":null}}}`, `{"spec":null}`, `{"spec":{"containers":[{}]},"status":{"phase":"Running"}}`, `{"shoes":1}`, `{"kind":"Node"}`, `null`, `{}`, `{"metadata":7}`},
		{`{"spec":{"containers":[{"name":"main","env":[{"name":"A","$patch":"delete"}]}]}}`, `{"$patch":"replace","metadata":{"name":"x"}}`, `{"metadata":{"$retainKeys":["name"],"name":"x"}}`, `{"status":{"$setElementOrder/conditions":[{"type":"Ready"}],"conditions":[{"type":"Ready","status":"False"}]}}`, `{"spec":{"$patch":"delete"}}`},
	} {
		for _, body := range bodies {
			f.Add(i, []byte(body), true)
			f.Add(i, []byte(body), false)
		}
	}
	f.Fuzz(func(t *testing.T, kind int, body []byte, strict bool) {
		if kind < 0 || kind >= len(patchTypes) {
			return
		}
		p := &patcher{resource: resource, namespace: "default", name: "x", limit: 1 << 20, validation: metav1.FieldValidationStrict}
		if !strict {
			p.validation = metav1.FieldValidationIgnore
		}
		if p.read(types.PatchType(patchTypes[kind]), body) != nil {
			return
		}
		parts, partsErr := p.patched(pod.DeepCopy())
		whole, wholeErr := p.patchAll(pod.DeepCopy())
		if (partsErr == nil) != (wholeErr == nil) {
			t.Fatalf("%s: of the parts: %v, of the whole: %v", body, partsErr, wholeErr)
		}
		if partsErr != nil {
			return
		}
		got, _ := json.Marshal(parts)
		want, _ := json.Marshal(whole)
		if string(got) != string(want) {
			t.Errorf("%s:\nof the parts %s\nof the whole %s", body, got, want)
		}
	})
}
