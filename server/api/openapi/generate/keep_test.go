package main

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"edgepod/server/registry"
)

func TestParse(t *testing.T) {
	for path, want := range map[string]target{
		"/api/v1/":                            {version: "v1"},
		"/api/v1/pods":                        {version: "v1", plural: "pods"},
		"/api/v1/namespaces/{namespace}/pods": {version: "v1", plural: "pods"},
		"/api/v1/namespaces/{namespace}/pods/{name}/status":             {version: "v1", plural: "pods", subresource: "status", named: true},
		"/api/v1/namespaces/{name}/finalize":                            {version: "v1", plural: "namespaces", subresource: "finalize", named: true},
		"/api/v1/watch/namespaces/{namespace}/pods/{name}":              {version: "v1", plural: "pods", named: true},
		"/apis/apps/v1/deployments":                                     {group: "apps", version: "v1", plural: "deployments"},
		"/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale": {group: "apps", version: "v1", plural: "deployments", subresource: "scale", named: true},
	} {
		if got, ok := parse(path); !ok || got != want {
			t.Errorf("%s: got %+v, %v, want %+v", path, got, ok, want)
		}
	}
	for _, path := range []string{"/version/", "/api/", "/apis/apps/", "/api/v1/namespaces/{namespace}/pods/{name}/proxy/{path}"} {
		if got, ok := parse(path); ok {
			t.Errorf("%s: got %+v", path, got)
		}
	}
}

func TestKeepLeavesWhatIsServed(t *testing.T) {
	document := map[string]any{}
	if err := json.Unmarshal([]byte(`{"paths": {
		"/api/v1/": {"get": {}},
		"/api/v1/pods": {"get": {"x": {"application/json": {"$ref": "#/s/PodList"}, "application/cbor": {}}}, "parameters": []},
		"/api/v1/namespaces/{namespace}/pods": {"get": {}, "post": {"consumes": ["application/json", "application/cbor"]}, "delete": {}},
		"/api/v1/namespaces/{namespace}/pods/{name}/status": {"get": {}, "put": {}},
		"/api/v1/namespaces/{namespace}/pods/{name}/resize": {"get": {}},
		"/api/v1/services": {"get": {"$ref": "#/s/Service"}},
		"/apis/apps/v1/": {"get": {}}
	}}`), &document); err != nil {
		t.Fatal(err)
	}
	keep(document, []*registry.Resource{{
		Kind: schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, Name: "pods", Verbs: []string{"create", "get", "list"},
		Subresources: []registry.Subresource{{Name: "status", Verbs: []string{"get"}}},
	}})
	got := map[string][]string{}
	for path, item := range document["paths"].(map[string]any) {
		got[path] = slices.Sorted(maps.Keys(item.(map[string]any)))
	}
	want := map[string][]string{
		"/api/v1/":                            {"get"},
		"/api/v1/pods":                        {"get", "parameters"},
		"/api/v1/namespaces/{namespace}/pods": {"get", "post"},
		"/api/v1/namespaces/{namespace}/pods/{name}/status": {"get"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	schemas := map[string]any{"PodList": map[string]any{"items": map[string]any{"$ref": "#/s/Pod"}}, "Pod": map[string]any{"self": map[string]any{"$ref": "#/s/Pod"}}, "Service": map[string]any{}}
	if got := slices.Sorted(maps.Keys(reachable(document["paths"], schemas, "#/s/"))); !slices.Equal(got, []string{"Pod", "PodList"}) {
		t.Errorf("reachable: %v", got)
	}
	text, err := json.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "cbor") {
		t.Errorf("media types that are not served: %s", text)
	}
}
