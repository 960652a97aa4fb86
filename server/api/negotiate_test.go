package api

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"edgepod/server/registry/upstream"
)

func TestNegotiateTakesTheFirstFormThatThePathHas(t *testing.T) {
	table := schema.GroupVersionKind{Group: "meta.k8s.io", Version: "v1", Kind: "Table"}
	for _, test := range []struct {
		accept, agent, query string
		want                 output
		ok                   bool
	}{
		{"", "", "", output{}, true},
		{"*/*", "", "", output{}, true},
		{"application/*", "", "", output{}, true},
		{"application/json", "", "", output{}, true},
		{"application/json, */*", "", "", output{}, true},
		{"text/html", "", "", output{}, false},
		{"application/yaml", "", "", output{media: mediaYAML}, true},
		{"application/vnd.kubernetes.protobuf,application/json", "", "", output{media: mediaProtobuf}, true},
		{"application/json;q=0.5,application/yaml", "", "", output{media: mediaYAML}, true},
		{"application/json;as=Table;v=v1;g=meta.k8s.io,application/json", "", "", output{convert: table}, true},
		{"application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io,application/yaml", "", "", output{media: mediaYAML}, true},
		{"application/json;as=Shoe;v=v1;g=meta.k8s.io", "", "", output{}, false},
		{"application/json;as=Table;v=v9;g=meta.k8s.io,application/json", "", "", output{}, true},
		{"application/json;stream=watch", "", "", output{}, true},
		{"application/json;stream=film", "", "", output{}, false},
		{"*/*", "curl/8.1", "", output{pretty: true}, true},
		{"*/*", "curl/8.1", "pretty=false", output{}, true},
		{"application/json", "", "pretty=1", output{pretty: true}, true},
		{"text/html,application/xhtml+xml,*/*;q=0.8", "Mozilla/5.0 (X11)", "", output{pretty: true}, true},
	} {
		r := httptest.NewRequest("GET", "/api/v1/pods?"+test.query, nil)
		r.Header.Set("Accept", test.accept)
		r.Header.Set("User-Agent", test.agent)
		got, ok := negotiate(r, objectForms)
		if got != test.want || ok != test.ok {
			t.Errorf("Accept %q, agent %q, query %q: got %+v, %v, want %+v, %v", test.accept, test.agent, test.query, got, ok, test.want, test.ok)
		}
	}
}

// decodeAnswer reads an answer in whichever encoding it came.
func decodeAnswer(t *testing.T, w *httptest.ResponseRecorder, into runtime.Object) {
	t.Helper()
	var err error
	switch kind := w.Header().Get("Content-Type"); kind {
	case "application/json":
		err = json.Unmarshal(w.Body.Bytes(), into)
	case "application/yaml":
		err = yaml.Unmarshal(w.Body.Bytes(), into)
	case "application/vnd.kubernetes.protobuf":
		_, _, err = upstream.Protobuf.Decode(w.Body.Bytes(), nil, into)
	default:
		t.Fatalf("Content-Type %q", kind)
	}
	if err != nil {
		t.Fatalf("%v in %q", err, w.Body)
	}
}

func TestObjectsComeAndGoInEveryEncoding(t *testing.T) {
	c := newCluster(t, nil)
	pod := &corev1.Pod{}
	if err := json.Unmarshal([]byte(podJSON("x")), pod); err != nil {
		t.Fatal(err)
	}
	for _, media := range mediaTypes {
		name := "pod-" + strings.Trim(media[len(media)-4:], "/.")
		sent := pod.DeepCopy()
		sent.Name = name
		body := encodeAs(t, media, sent)
		header := map[string]string{"Content-Type": media, "Accept": media}
		w := c.do(call{method: "POST", path: podsPath, body: body, header: header})
		if w.Code != 201 {
			t.Fatalf("%s: got %d: %s", media, w.Code, w.Body)
		}
		var created, read corev1.Pod
		decodeAnswer(t, w, &created)
		if created.UID == "" || created.Spec.RestartPolicy != corev1.RestartPolicyAlways || created.Kind != "Pod" {
			t.Errorf("%s: created %+v", media, created)
		}
		decodeAnswer(t, c.do(call{path: podsPath + "/" + name, header: header}), &read)
		if read.UID != created.UID || read.ResourceVersion != created.ResourceVersion {
			t.Errorf("%s: read %v, created %v", media, read.ObjectMeta, created.ObjectMeta)
		}
		var list corev1.PodList
		decodeAnswer(t, c.do(call{path: podsPath + "?labelSelector=app%3Dweb", header: header}), &list)
		if len(list.Items) == 0 || list.Kind != "PodList" || list.ResourceVersion == "" || list.Items[len(list.Items)-1].Spec.Containers == nil {
			t.Errorf("%s: list %+v", media, list)
		}
		var failure metav1.Status
		decodeAnswer(t, c.do(call{path: podsPath + "/none", header: header}), &failure)
		if failure.Reason != metav1.StatusReasonNotFound || failure.Code != 404 {
			t.Errorf("%s: error %+v", media, failure)
		}
	}
}

func encodeAs(t testing.TB, media string, obj runtime.Object) string {
	t.Helper()
	info, ok := runtime.SerializerInfoForMediaType(upstream.Codecs.SupportedMediaTypes(), media)
	if !ok {
		t.Fatalf("no serializer of %s", media)
	}
	text, err := runtime.Encode(info.Serializer, obj)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestTablesAndMetadataInPlaceOfObjects(t *testing.T) {
	c := newCluster(t, nil)
	c.must(201, call{method: "POST", path: podsPath, body: podJSON("x")})
	as := func(kind string) map[string]string {
		return map[string]string{"Accept": "application/json;as=" + kind + ";v=v1;g=meta.k8s.io"}
	}
	for _, path := range []string{podsPath, podsPath + "/x"} {
		table := c.must(200, call{path: path, header: as("Table")})
		columns := table["columnDefinitions"].([]any)
		row := table["rows"].([]any)[0].(map[string]any)
		object := row["object"].(map[string]any)
		if columns[0].(map[string]any)["name"] != "Name" || row["cells"].([]any)[0] != "x" || object["kind"] != "PartialObjectMetadata" || table["kind"] != "Table" {
			t.Errorf("%s: got %v", path, table)
		}
	}
	list := c.must(200, call{path: podsPath, header: as("PartialObjectMetadataList")})
	if item := list["items"].([]any)[0].(map[string]any); list["kind"] != "PartialObjectMetadataList" || item["spec"] != nil {
		t.Errorf("got %v", list)
	}
	if one := c.must(200, call{path: podsPath + "/x", header: as("PartialObjectMetadata")}); one["kind"] != "PartialObjectMetadata" {
		t.Errorf("got %v", one)
	}
	c.must(406, call{path: podsPath, header: as("PartialObjectMetadata")})
	c.must(400, call{path: podsPath + "?includeObject=Nonsense", header: as("Table")})
	bare := c.must(200, call{path: podsPath + "?includeObject=None", header: as("Table")})
	if object := bare["rows"].([]any)[0].(map[string]any)["object"]; object != nil {
		t.Errorf("includeObject=None: got %v", object)
	}
}

func TestPrettyAnswersAreTheSameWithSpaces(t *testing.T) {
	c := newCluster(t, nil)
	c.must(201, call{method: "POST", path: configMapsPath, body: configMapJSON("x", "y")})
	for _, path := range []string{configMapsPath, configMapsPath + "/x", configMapsPath + "/none"} {
		plain := c.do(call{path: path}).Body.Bytes()
		pretty := c.do(call{path: path, header: map[string]string{"User-Agent": "curl/8"}}).Body.Bytes()
		if compact(t, pretty) != compact(t, plain) || !strings.Contains(string(pretty), "\n  \"") {
			t.Errorf("%s: got %s, want %s", path, pretty, plain)
		}
	}
}
