package oci_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestManifestsAreServedAsTheyWereSent(t *testing.T) {
	c := start(t, t.TempDir(), nil)
	manifest := c.pushImage("default/app", "v1", noise(1000))
	digest := digestOf(manifest)
	for _, reference := range []string{"v1", digest} {
		path := "/v2/default/app/manifests/" + reference
		r := c.must(http.StatusOK, request{path: path})
		if r.body != string(manifest) || r.header.Get("Content-Type") != manifestType || r.header.Get("Docker-Content-Digest") != digest {
			t.Errorf("%s: %v %s", reference, r.header, r.body)
		}
		head := c.must(http.StatusOK, request{method: "HEAD", path: path})
		if head.body != "" || head.header.Get("Content-Length") != fmt.Sprint(len(manifest)) || head.header.Get("Docker-Content-Digest") != digest {
			t.Errorf("HEAD %s: %v %s", reference, head.header, head.body)
		}
		c.must(http.StatusNotModified, request{path: path, header: map[string]string{"If-None-Match": head.header.Get("ETag")}})
	}
	c.want(http.StatusNotFound, "MANIFEST_UNKNOWN", request{path: "/v2/default/app/manifests/v2"})
	c.want(http.StatusNotFound, "MANIFEST_UNKNOWN", request{path: "/v2/default/app/manifests/" + digestOf(nil)})
	c.want(http.StatusNotFound, "NAME_UNKNOWN", request{path: "/v2/default/none/manifests/v1"})
	c.want(http.StatusBadRequest, "DIGEST_INVALID", putManifest("default/app", digestOf(nil), manifest))

	c.must(http.StatusCreated, putManifest("default/app", digest, manifest))
	c.must(http.StatusCreated, putManifest("default/app", "v2", manifest))
	c.must(http.StatusAccepted, request{method: "DELETE", path: "/v2/default/app/manifests/v1"})
	c.want(http.StatusNotFound, "MANIFEST_UNKNOWN", request{method: "DELETE", path: "/v2/default/app/manifests/v1"})
	c.must(http.StatusOK, request{path: "/v2/default/app/manifests/" + digest})
	c.must(http.StatusAccepted, request{method: "DELETE", path: "/v2/default/app/manifests/" + digest})
	c.want(http.StatusNotFound, "MANIFEST_UNKNOWN", request{path: "/v2/default/app/manifests/v2"})
}

func TestManifestsThatAreNotGoodAreRefused(t *testing.T) {
	c := start(t, t.TempDir(), nil)
	config, layer := []byte("{}"), noise(100)
	c.pushBlob("default/app", config)
	c.pushBlob("default/app", layer)
	good := string(manifestOf(config, layer))
	const indexType = "application/vnd.oci.image.index.v1+json"
	index := func(digest string) string {
		return `{"schemaVersion":2,"mediaType":"` + indexType + `","manifests":[{"mediaType":"` + manifestType + `","digest":"` + digest + `","size":1}]}`
	}
	for name, tt := range map[string]struct {
		contentType, body string
		status            int
		code              string
	}{
		"no JSON":                {manifestType, "nonsense", http.StatusBadRequest, "MANIFEST_INVALID"},
		"empty":                  {manifestType, "", http.StatusBadRequest, "MANIFEST_INVALID"},
		"a list":                 {manifestType, "[]", http.StatusBadRequest, "MANIFEST_INVALID"},
		"schema 1":               {manifestType, strings.Replace(good, `"schemaVersion":2`, `"schemaVersion":1`, 1), http.StatusBadRequest, "MANIFEST_INVALID"},
		"another type":           {indexType, good, http.StatusBadRequest, "MANIFEST_INVALID"},
		"a type of nobody":       {"application/json", strings.Replace(good, `"mediaType":"`+manifestType+`",`, "", 1), http.StatusBadRequest, "MANIFEST_INVALID"},
		"an index as well":       {manifestType, strings.Replace(good, `"layers"`, `"manifests":[],"layers"`, 1), http.StatusBadRequest, "MANIFEST_INVALID"},
		"an index with layers":   {indexType, strings.Replace(index(digestOf(config)), `"manifests"`, `"layers":[],"manifests"`, 1), http.StatusBadRequest, "MANIFEST_INVALID"},
		"layers twice":           {manifestType, strings.Replace(good, `"layers"`, `"layers":[],"layers"`, 1), http.StatusBadRequest, "MANIFEST_INVALID"},
		"Layers":                 {manifestType, strings.Replace(good, `"layers"`, `"Layers"`, 1), http.StatusBadRequest, "MANIFEST_INVALID"},
		"no config":              {manifestType, `{"schemaVersion":2,"mediaType":"` + manifestType + `","layers":[]}`, http.StatusBadRequest, "MANIFEST_INVALID"},
		"a digest of nothing":    {manifestType, strings.Replace(good, digestOf(layer), "sha256:../../etc/passwd", 1), http.StatusBadRequest, "MANIFEST_INVALID"},
		"a layer's wrong size":   {manifestType, strings.Replace(good, `"size":100`, `"size":99`, 1), http.StatusBadRequest, "MANIFEST_INVALID"},
		"a negative size":        {manifestType, strings.Replace(good, `"size":100`, `"size":-1`, 1), http.StatusBadRequest, "MANIFEST_INVALID"},
		"a layer that is none":   {manifestType, string(manifestOf(config, noise(101))), http.StatusNotFound, "MANIFEST_BLOB_UNKNOWN"},
		"an image that is none":  {indexType, index(digestOf(noise(5))), http.StatusNotFound, "MANIFEST_BLOB_UNKNOWN"},
		"a blob as an image":     {indexType, strings.Replace(index(digestOf(layer)), `"size":1`, `"size":100`, 1), http.StatusNotFound, "MANIFEST_BLOB_UNKNOWN"},
		"more than 4 MiB":        {manifestType, good + strings.Repeat(" ", 4<<20), http.StatusRequestEntityTooLarge, "SIZE_INVALID"},
		"deep":                   {manifestType, `{"schemaVersion":2,"x":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + "}", http.StatusBadRequest, "MANIFEST_INVALID"},
		"more layers than there": {manifestType, manyLayers(2100), http.StatusBadRequest, "MANIFEST_INVALID"},
	} {
		t.Run(name, func(t *testing.T) {
			q := putManifest("default/app", "v1", []byte(tt.body))
			q.header["Content-Type"] = tt.contentType
			c.want(tt.status, tt.code, q)
			q = putManifest("default/app", "v1", []byte(tt.body))
			q.header["Content-Type"], q.length = tt.contentType, -1
			c.want(tt.status, tt.code, q)
		})
	}
	c.want(http.StatusBadRequest, "MANIFEST_INVALID", putManifest("default/app", ".hidden", []byte(good)))
	c.want(http.StatusBadRequest, "MANIFEST_INVALID", putManifest("default/app", strings.Repeat("t", 129), []byte(good)))
	c.must(http.StatusCreated, putManifest("default/app", strings.Repeat("t", 128), []byte(good)))
	foreign := strings.Replace(good, `"layers":[`, `"layers":[{"mediaType":"application/vnd.oci.image.layer.nondistributable.v1.tar","digest":"`+
		digestOf(noise(7))+`","size":7,"urls":["https://elsewhere.example/x"]},`, 1)
	c.must(http.StatusCreated, putManifest("default/app", "foreign", []byte(foreign)))
}

func manyLayers(n int) string {
	layers := make([][]byte, n)
	for i := range layers {
		layers[i] = fmt.Append(nil, i)
	}
	return string(manifestOf([]byte("{}"), layers...))
}

func TestWhatAManifestNeedsIsNotDeleted(t *testing.T) {
	c := start(t, t.TempDir(), nil)
	layer := noise(1000)
	manifest := c.pushImage("default/app", "v1", layer)
	index := fmt.Appendf(nil, `{"schemaVersion":2,"manifests":[{"mediaType":%q,"digest":%q,"size":%d}]}`, manifestType, digestOf(manifest), len(manifest))
	put := putManifest("default/app", "all", index)
	put.header["Content-Type"] = "application/vnd.oci.image.index.v1+json"
	c.must(http.StatusCreated, put)
	c.want(http.StatusMethodNotAllowed, "DENIED", request{method: "DELETE", path: "/v2/default/app/blobs/" + digestOf(layer)})
	c.want(http.StatusMethodNotAllowed, "DENIED", request{method: "DELETE", path: "/v2/default/app/manifests/" + digestOf(manifest)})
	c.must(http.StatusAccepted, request{method: "DELETE", path: "/v2/default/app/manifests/" + digestOf(index)})
	c.must(http.StatusAccepted, request{method: "DELETE", path: "/v2/default/app/manifests/" + digestOf(manifest)})
	c.must(http.StatusAccepted, request{method: "DELETE", path: "/v2/default/app/blobs/" + digestOf(layer)})
}

func TestListsComeInPages(t *testing.T) {
	c := start(t, t.TempDir(), nil)
	var want []string
	for _, tag := range []string{"Z", "_", "a", "b", "v1", "v1.0", "v10"} {
		c.pushImage("default/app", tag, []byte("layer"))
		want = append(want, tag)
	}
	for _, name := range []string{"default/app", "default/app/sub", "default/b"} {
		c.pushImage(name, "v1", []byte("layer"))
	}
	read := func(path, field string) (names []string) {
		t.Helper()
		for path != "" {
			r := c.must(http.StatusOK, request{path: path})
			var body map[string]any
			if err := json.Unmarshal([]byte(r.body), &body); err != nil {
				t.Fatal(err)
			}
			page := body[field].([]any)
			if len(page) == 0 || len(page) > 2 {
				t.Fatalf("%s: a page of %d", path, len(page))
			}
			for _, name := range page {
				names = append(names, name.(string))
			}
			path, _, _ = strings.Cut(strings.TrimPrefix(r.header.Get("Link"), "<"), ">")
		}
		return names
	}
	if diff := cmp.Diff(want, read("/v2/default/app/tags/list?n=2", "tags")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"default/app", "default/app/sub", "default/b"}, read("/v2/_catalog?n=2", "repositories")); diff != "" {
		t.Error(diff)
	}
	for path, want := range map[string]string{
		"/v2/default/app/tags/list":           `{"name":"default/app","tags":["Z","_","a","b","v1","v1.0","v10"]}`,
		"/v2/default/app/tags/list?n=0":       `{"name":"default/app","tags":[]}`,
		"/v2/default/app/tags/list?last=v1.0": `{"name":"default/app","tags":["v10"]}`,
		"/v2/default/app/tags/list?last=c":    `{"name":"default/app","tags":["v1","v1.0","v10"]}`,
		"/v2/default/app/tags/list?last=zz":   `{"name":"default/app","tags":[]}`,
		"/v2/_catalog?last=default/app&n=1":   `{"repositories":["default/app/sub"]}`,
	} {
		if got := c.must(http.StatusOK, request{path: path}).body; got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	c.want(http.StatusNotFound, "NAME_UNKNOWN", request{path: "/v2/default/none/tags/list"})
	c.want(http.StatusBadRequest, "PAGINATION_NUMBER_INVALID", request{path: "/v2/_catalog?n=-1"})
}

func TestReferrersAreFoundAndFiltered(t *testing.T) {
	dir := t.TempDir()
	c := start(t, dir, nil)
	manifest := c.pushImage("default/app", "v1", noise(10))
	subject := digestOf(manifest)
	list := func(query string) (types []string, header http.Header) {
		t.Helper()
		r := c.must(http.StatusOK, request{path: "/v2/default/app/referrers/" + subject + query})
		var index struct {
			SchemaVersion int
			MediaType     string
			Manifests     []struct {
				ArtifactType, Digest string
				Size                 int
				Annotations          map[string]string
			}
		}
		if err := json.Unmarshal([]byte(r.body), &index); err != nil || index.SchemaVersion != 2 || index.MediaType != "application/vnd.oci.image.index.v1+json" {
			t.Fatalf("%v %s", err, r.body)
		}
		for _, m := range index.Manifests {
			types = append(types, m.ArtifactType+" "+m.Annotations["note"])
		}
		return types, r.header
	}
	if got, _ := list(""); len(got) != 0 {
		t.Errorf("referrers of one that has none: %v", got)
	}
	c.must(http.StatusOK, request{path: "/v2/default/none/referrers/" + subject})
	attach := func(extra string) response {
		body := strings.Replace(string(manifestOf([]byte(`{"os":"wasip1"}`), noise(10))), `"layers"`,
			extra+`,"subject":{"mediaType":"`+manifestType+`","digest":"`+subject+`","size":1},"layers"`, 1)
		return c.must(http.StatusCreated, putManifest("default/app", digestOf([]byte(body)), []byte(body)))
	}
	r := attach(`"artifactType":"signature/x","annotations":{"note":"one"}`)
	if r.header.Get("OCI-Subject") != subject {
		t.Errorf("header of a put with a subject: %v", r.header)
	}
	attach(`"annotations":{"note":"two"}`)
	got, _ := list("?artifactType=signature/x")
	if diff := cmp.Diff([]string{"signature/x one"}, got); diff != "" {
		t.Error(diff)
	}
	got, header := list("?artifactType=application/vnd.wasm.config.v0%2Bjson")
	if diff := cmp.Diff([]string{"application/vnd.wasm.config.v0+json two"}, got); diff != "" || header.Get("OCI-Filters-Applied") != "artifactType" {
		t.Errorf("%s %v", diff, header)
	}
	c.must(http.StatusAccepted, request{method: "DELETE", path: "/v2/default/app/manifests/" + subject})
	if got, _ := list(""); len(got) != 2 {
		t.Errorf("referrers of one that was deleted: %v", got)
	}
	_, sum, _ := strings.Cut(r.header.Get("Docker-Content-Digest"), ":")
	if err := os.Remove(filepath.Join(dir, "registry", "blobs", "sha256", sum)); err != nil {
		t.Fatal(err)
	}
	if got, _ := list(""); !slices.Equal(got, []string{"application/vnd.wasm.config.v0+json two"}) {
		t.Errorf("referrers, one of which goes meanwhile: %v", got)
	}
}

func TestPartsOfBlobsCanBeHad(t *testing.T) {
	c := start(t, t.TempDir(), nil)
	data := noise(100_000)
	path := "/v2/default/app/blobs/" + c.pushBlob("default/app", data)
	whole := c.must(http.StatusOK, request{path: path})
	if whole.body != string(data) || whole.header.Get("Content-Length") != "100000" || whole.header.Get("Accept-Ranges") != "bytes" {
		t.Errorf("whole: %v", whole.header)
	}
	part := c.must(http.StatusPartialContent, request{path: path, header: map[string]string{"Range": "bytes=1000-1999"}})
	if part.body != string(data[1000:2000]) || part.header.Get("Content-Range") != "bytes 1000-1999/100000" {
		t.Errorf("part: %v", part.header)
	}
	c.must(http.StatusRequestedRangeNotSatisfiable, request{path: path, header: map[string]string{"Range": "bytes=100000-"}})
	c.must(http.StatusNotModified, request{path: path, header: map[string]string{"If-None-Match": whole.header.Get("ETag")}})
	head := c.must(http.StatusOK, request{method: "HEAD", path: path})
	if head.header.Get("Content-Length") != "100000" {
		t.Errorf("head: %v", head.header)
	}
	empty := c.must(http.StatusOK, request{path: "/v2/default/app/blobs/" + c.pushBlob("default/app", nil)})
	if empty.body != "" {
		t.Errorf("an empty blob: %q", empty.body)
	}
}

func TestDamagedContentsAreNotPassedOffAsGood(t *testing.T) {
	dir := t.TempDir()
	c := start(t, dir, nil)
	layer := noise(100_000)
	manifest := c.pushImage("default/app", "v1", layer)
	damage := func(digest string) {
		t.Helper()
		path := filepath.Join(dir, "registry", "blobs", "sha256", strings.TrimPrefix(digest, "sha256:"))
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		data[len(data)/2] ^= 1
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	damage(digestOf(layer))
	if r, err := c.try(request{path: "/v2/default/app/blobs/" + digestOf(layer)}); err == nil {
		t.Errorf("a damaged blob was sent whole: %d", r.code)
	}
	c.want(http.StatusNotFound, "BLOB_UNKNOWN", request{path: "/v2/default/app/blobs/" + digestOf(layer)})
	c.pushBlob("default/app", layer)
	damage(digestOf(manifest))
	c.want(http.StatusNotFound, "MANIFEST_UNKNOWN", request{path: "/v2/default/app/manifests/v1"})
	c.must(http.StatusCreated, putManifest("default/app", "v1", manifest))
	c.must(http.StatusOK, request{path: "/v2/default/app/manifests/v1"})
}
