package api

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
)

func TestPatchesOfEveryKind(t *testing.T) {
	c := newCluster(t, nil)
	c.must(201, call{method: "POST", path: podsPath, body: podJSON("x")})
	patch := func(kind, query, body string) call {
		return call{method: "PATCH", path: podsPath + "/x" + query, body: body, header: map[string]string{"Content-Type": "application/" + kind + "+json"}}
	}
	for _, test := range []struct {
		name string
		call call
		code int
		want string // a part of the answer, or of its Warning headers
	}{
		{"json", patch("json-patch", "", `[{"op":"add","path":"/metadata/labels/a","value":"1"}]`), 200, `"a":"1"`},
		{"merge", patch("merge-patch", "", `{"metadata":{"labels":{"b":"2"}}}`), 200, `"b":"2"`},
		{"merge removes", patch("merge-patch", "", `{"metadata":{"labels":{"b":null}}}`), 200, `"labels":{"a":"1","app":"web"}`},
		{"strategic", patch("strategic-merge-patch", "", `{"spec":{"containers":[{"name":"main","image":"edgepod.dev/other"}]}}`), 200, `"image":"edgepod.dev/other"`},
		{"strategic keeps the list's other fields", patch("strategic-merge-patch", "", `{"metadata":{"annotations":{"n":"1"}}}`), 200, `"name":"main"`},
		{"dry run", patch("merge-patch", "?dryRun=All", `{"metadata":{"labels":{"dry":"1"}}}`), 200, `"dry":"1"`},
		{"unknown field warns", patch("merge-patch", "", `{"spec":{"shoes":1}}`), 200, `299 - "unknown field \"spec.shoes\""`},
		{"unknown field ignored", patch("merge-patch", "?fieldValidation=Ignore", `{"spec":{"shoes":1}}`), 200, `"kind":"Pod"`},
		{"unknown field refused", patch("strategic-merge-patch", "?fieldValidation=Strict", `{"spec":{"shoes":1}}`), 422, `unknown field \"spec.shoes\"`},
		{"repeated field refused", patch("merge-patch", "?fieldValidation=Strict", `{"spec":{},"spec":{}}`), 422, `duplicate field \"spec\"`},
		{"name may not change", patch("merge-patch", "", `{"metadata":{"name":"y"}}`), 400, `the name of the object (y) does not match the name on the URL (x)`},
		{"namespace may not change", patch("merge-patch", "", `{"metadata":{"namespace":"y"}}`), 400, `does not match the namespace`},
		{"kind may not change", patch("merge-patch", "", `{"kind":"Node"}`), 422, `cannot be handled as a Pod`},
		{"image may change, name of container not", patch("json-patch", "", `[{"op":"replace","path":"/spec/containers/0/name","value":"other"}]`), 422, `"reason":"Invalid"`},
		{"nonsense", patch("json-patch", "", `{}`), 400, `error decoding patch: json: cannot unmarshal object into Go value of type []api.jsonPatchOp`},
		{"no such directive", patch("strategic-merge-patch", "", `{"spec":{"containers":[{"$patch":"melt","name":"main"}]}}`), 422, `unknown patch type: melt`},
		{"without merge key", patch("strategic-merge-patch", "", `{"spec":{"containers":[{"image":"x"}]}}`), 422, `does not contain declared merge key: name`},
		{"not an object", patch("merge-patch", "", `[]`), 400, `error decoding patch`},
		{"not JSON", patch("strategic-merge-patch", "", `{`), 400, `"reason":"BadRequest"`},
		{"wrong type", patch("merge-patch", "", `{"spec":{"containers":7}}`), 422, `"reason":"Invalid"`},
		{"wrong type, strategic", patch("strategic-merge-patch", "", `{"spec":{"containers":7}}`), 422, `"code":422`},
		{"stale version", patch("merge-patch", "", `{"metadata":{"resourceVersion":"1"}}`), 409, `the object has been modified; please apply your changes to the latest version and try again`},
		{"too many operations", patch("json-patch", "", "["+strings.Repeat(`{"op":"test","path":"/kind","value":"Pod"},`, 10_000)+`{"op":"test","path":"/kind","value":"Pod"}]`), 413, `operations in a JSON patch`},
		{"doubling itself", patch("json-patch", "", "["+strings.Repeat(`{"op":"copy","from":"/metadata","path":"/metadata/x"},{"op":"copy","from":"/metadata","path":"/metadata/y"},`, 20)+`{"op":"test","path":"/kind","value":"Pod"}]`), 413, `larger than`},
		{"too many copies", patch("json-patch", "", "["+strings.Repeat(`{"op":"copy","from":"/kind","path":"/x"},`, 101)+`{"op":"test","path":"/kind","value":"Pod"}]`), 413, `maximum of copies`},
		{"absent", call{method: "PATCH", path: podsPath + "/none", body: "{}", header: map[string]string{"Content-Type": "application/merge-patch+json"}}, 404, `pods \"none\" not found`},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := c.do(test.call)
			text := w.Body.String() + strings.Join(w.Header().Values("Warning"), "\n")
			if w.Code != test.code || !strings.Contains(text, test.want) {
				t.Errorf("got %d %s, want %d with %s", w.Code, text, test.code, test.want)
			}
		})
	}
	if text := c.do(call{path: podsPath + "/x"}).Body.String(); strings.Contains(text, `"dry"`) {
		t.Errorf("a dry run was stored: %s", text)
	}
}

func TestFieldValidationOfCreate(t *testing.T) {
	c := newCluster(t, nil)
	body := func(name string) string {
		return strings.Replace(configMapJSON(name, "1"), `"data":`, `"shoes":1,"data":{},"data":`, 1)
	}
	w := c.do(call{method: "POST", path: configMapsPath, body: body("warn")})
	if got := strings.Join(w.Header().Values("Warning"), "|"); w.Code != 201 || got != `299 - "unknown field \"shoes\""|299 - "duplicate field \"data\""` {
		t.Errorf("got %d with %s", w.Code, got)
	}
	if w := c.do(call{method: "POST", path: configMapsPath + "?fieldValidation=Ignore", body: body("ignore")}); w.Code != 201 || w.Header().Get("Warning") != "" {
		t.Errorf("got %d with %v", w.Code, w.Header())
	}
	c.must(400, call{method: "POST", path: configMapsPath + "?fieldValidation=Strict", body: body("strict")})
	c.must(422, call{method: "POST", path: configMapsPath + "?fieldValidation=Loose", body: body("loose")})
	yaml := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: yaml}\nshoes: 1\n"
	w = c.do(call{method: "POST", path: configMapsPath, body: yaml, header: map[string]string{"Content-Type": "application/yaml"}})
	if got := w.Header().Get("Warning"); w.Code != 201 || !strings.Contains(got, "shoes") {
		t.Errorf("got %d with %q", w.Code, got)
	}
}

func TestDeletion(t *testing.T) {
	c := newCluster(t, nil)
	for _, name := range []string{"a", "b", "c", "d"} {
		c.must(201, call{method: "POST", path: configMapsPath, body: configMapJSON(name, "1")})
	}
	gone := c.must(200, call{method: "DELETE", path: configMapsPath + "/a", body: `{"propagationPolicy":"Background"}`})
	details := gone["details"].(map[string]any)
	if gone["status"] != "Success" || details["name"] != "a" || details["kind"] != "configmaps" || details["uid"] == "" {
		t.Errorf("got %v", gone)
	}
	c.must(404, call{method: "DELETE", path: configMapsPath + "/a"})
	c.must(409, call{method: "DELETE", path: configMapsPath + "/b", body: `{"apiVersion":"v1","kind":"DeleteOptions","preconditions":{"uid":"other"}}`})
	c.must(200, call{method: "DELETE", path: configMapsPath + "/b?dryRun=All"})
	c.must(422, call{method: "DELETE", path: configMapsPath + "/b?propagationPolicy=Never"})
	c.must(400, call{method: "DELETE", path: configMapsPath + "/b", body: `{"kind":"Pod","apiVersion":"v1"}`})
	c.must(200, call{method: "DELETE", path: configMapsPath + "/b", body: "kind: DeleteOptions\napiVersion: meta.k8s.io/v1\n", header: map[string]string{"Content-Type": "application/yaml"}})
	list := c.must(200, call{method: "DELETE", path: configMapsPath + "?fieldSelector=metadata.name!%3Dd"})
	if items := list["items"].([]any); len(items) != 1 || list["kind"] != "ConfigMapList" {
		t.Errorf("deleted %v", list)
	}
	left := c.must(200, call{path: configMapsPath})
	if items := left["items"].([]any); len(items) != 1 {
		t.Errorf("left: %v", left)
	}
	pod := c.must(201, call{method: "POST", path: podsPath, body: podJSON("x")})
	if deleted := c.must(200, call{method: "DELETE", path: podsPath + "/x?gracePeriodSeconds=0"}); deleted["kind"] != "Pod" || deleted["metadata"].(map[string]any)["uid"] != pod["metadata"].(map[string]any)["uid"] {
		t.Errorf("got %v", deleted)
	}
}

func TestListsInChunks(t *testing.T) {
	c := newCluster(t, nil)
	for i := range 5 {
		c.must(201, call{method: "POST", path: configMapsPath, body: configMapJSON("m"+strconv.Itoa(i), "1")})
	}
	var names []string
	path := configMapsPath + "?limit=2"
	for {
		list := c.must(200, call{path: path})
		for _, item := range list["items"].([]any) {
			names = append(names, item.(map[string]any)["metadata"].(map[string]any)["name"].(string))
		}
		next, _ := list["metadata"].(map[string]any)["continue"].(string)
		if next == "" {
			break
		}
		path = configMapsPath + "?limit=2&continue=" + next
	}
	if got := strings.Join(names, " "); got != "m0 m1 m2 m3 m4" {
		t.Errorf("got %s", got)
	}
	c.must(400, call{path: configMapsPath + "?limit=2&continue=nonsense"})
	c.must(400, call{path: configMapsPath + "?fieldSelector=spec.shoes%3D1"})
	c.must(400, call{path: configMapsPath + "?labelSelector=((("})
	c.must(400, call{path: configMapsPath + "?resourceVersion=x"})
}

func TestSubresources(t *testing.T) {
	c := newCluster(t, nil)
	pod := c.must(201, call{method: "POST", path: podsPath, body: podJSON("x")})
	merge := map[string]string{"Content-Type": "application/merge-patch+json"}
	body := `{"spec":{"nodeName":"elsewhere"},"status":{"phase":"Running"}}`
	patched := c.must(200, call{method: "PATCH", path: podsPath + "/x/status", body: body, header: merge})
	if patched["status"].(map[string]any)["phase"] != "Running" || patched["spec"].(map[string]any)["nodeName"] != nil {
		t.Errorf("got %v", patched)
	}
	c.must(200, call{path: podsPath + "/x/status"})
	c.must(405, call{method: "DELETE", path: podsPath + "/x/status"})
	c.must(405, call{path: podsPath + "/x/binding"})
	uid := pod["metadata"].(map[string]any)["uid"].(string)
	binding := `{"apiVersion":"v1","kind":"Binding","metadata":{"name":"x","uid":"` + uid + `"},"target":{"kind":"Node","name":"n1"}}`
	if got := c.must(201, call{method: "POST", path: podsPath + "/x/binding", body: binding}); got["status"] != "Success" {
		t.Errorf("got %v", got)
	}
	c.must(409, call{method: "POST", path: podsPath + "/x/binding", body: binding})
	c.must(400, call{method: "POST", path: podsPath + "/x/binding", body: `{"apiVersion":"v1","kind":"Binding","target":{"kind":"Node","name":"n1"}}`})
	c.must(400, call{method: "POST", path: podsPath + "/x/binding", body: strings.Replace(binding, `"name":"x"`, `"name":"y"`, 1)})
	if bound := c.must(200, call{path: podsPath + "/x"}); bound["spec"].(map[string]any)["nodeName"] != "n1" {
		t.Errorf("got %v", bound)
	}
	c.must(201, call{method: "POST", path: "/api/v1/namespaces", body: `{"metadata":{"name":"space"}}`})
	live := c.must(200, call{method: "DELETE", path: "/api/v1/namespaces/space"})
	if live["status"].(map[string]any)["phase"] != "Terminating" {
		t.Errorf("got %v", live)
	}
	c.must(200, call{path: "/api/v1/namespaces/space/status"})
	c.must(200, call{method: http.MethodPut, path: "/api/v1/namespaces/space/finalize", body: `{"metadata":{"name":"space"},"spec":{"finalizers":[]}}`})
	c.must(404, call{path: "/api/v1/namespaces/space"})
}

func TestReadsAreNotOlderThanAsked(t *testing.T) {
	c := newCluster(t, nil)
	pod := c.must(201, call{method: "POST", path: podsPath, body: podJSON("x")})
	version := pod["metadata"].(map[string]any)["resourceVersion"].(string)
	c.must(200, call{path: podsPath + "/x?resourceVersion=0"})
	c.must(200, call{path: podsPath + "/x?resourceVersion=" + version})
	c.must(201, call{method: "POST", path: podsPath, body: podJSON("y")})
	newest := c.must(200, call{path: podsPath})["metadata"].(map[string]any)["resourceVersion"].(string)
	c.must(200, call{path: podsPath + "/x?resourceVersion=" + newest})
	late := c.must(504, call{path: podsPath + "/x?resourceVersion=99999999"})
	if details := late["details"].(map[string]any); details["retryAfterSeconds"] != 1.0 {
		t.Errorf("got %v", late)
	}
}

func TestPutIsAboutTheObjectWhoseUIDItNames(t *testing.T) {
	c := newCluster(t, nil)
	made := c.must(201, call{method: "POST", path: configMapsPath, body: configMapJSON("m", "1")})
	uid := made["metadata"].(map[string]any)["uid"].(string)
	put := func(path, body, uid string) call {
		return call{method: "PUT", path: path, body: strings.Replace(body, `"metadata":{`, `"metadata":{"uid":"`+uid+`",`, 1)}
	}
	c.must(200, put(configMapsPath+"/m", configMapJSON("m", "2"), uid))
	refused := c.must(409, put(configMapsPath+"/m", configMapJSON("m", "3"), "another"))
	if text := refused["message"].(string); refused["reason"] != "Conflict" || !strings.Contains(text, "UID in precondition: another, UID in object meta: "+uid) {
		t.Errorf("got %v", refused)
	}
	lease := `{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"l"}}`
	leases := "/apis/coordination.k8s.io/v1/namespaces/default/leases"
	c.must(409, put(leases+"/l", lease, "another"))
	c.must(404, call{path: leases + "/l"})
	c.must(201, call{method: "PUT", path: leases + "/l", body: lease})
}
