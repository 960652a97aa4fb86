package oci

import (
	"errors"
	"strings"
	"testing"

	"edgepod/server/oci/depot"
)

func FuzzPathsAreReadInOneWay(f *testing.F) {
	for _, seed := range []string{
		"/v2/", "/v2/_catalog", "/v2/a/b/tags/list", "/v2/a/b/manifests/v1", "/v2/a/b/blobs/uploads/", "/v2/a/../b/tags/list",
		"/v2/a/blobs/uploads/tags/list", "/v2/a/b/blobs/uploads/0123456789abcdef0123456789abcdef", "/v2/a/b/referrers/sha256:" + strings.Repeat("0", 64),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, path string) {
		got, err := parsePath(path)
		if err != nil {
			if faultOf(err) == nil {
				t.Errorf("%q: a client is not told of %v", path, err)
			}
			return
		}
		if got.repository == "" {
			return
		}
		if depot.CheckRepository(got.repository) != nil || strings.ContainsAny(got.repository+got.reference, "\\\x00\n") || strings.Contains(path, "/../") {
			t.Errorf("%q: %+v", path, got)
		}
		if _, ok := got.digest(); !ok && strings.ContainsAny(got.reference, "/:") {
			t.Errorf("%q: reference %q", path, got.reference)
		}
		again := map[kind]string{
			blobs: "/blobs/", manifests: "/manifests/", referrers: "/referrers/", upload: "/blobs/uploads/", uploads: "/blobs/uploads", tags: "/tags/list",
		}
		if whole := "/v2/" + got.repository + again[got.kind] + got.reference; whole != strings.TrimSuffix(path, "/") {
			t.Errorf("%q is read as %q", path, whole)
		}
	})
}

func FuzzManifestsAreReadInOneWay(f *testing.F) {
	digest := "sha256:" + strings.Repeat("0", 64)
	f.Add(ociManifest, []byte(`{"schemaVersion":2,"config":{"digest":"`+digest+`","size":1},"layers":[],"subject":{"digest":"`+digest+`"}}`))
	f.Add(ociIndex, []byte(`{"schemaVersion":2,"manifests":[{"digest":"`+digest+`","size":1}]}`))
	f.Add("", []byte(`{"schemaVersion":2,"mediaType":"`+dockerList+`","manifests":[]}`))
	f.Add(dockerManifest, []byte(`{"layers":[],"Layers":null,"manifests":[]}`))
	f.Fuzz(func(t *testing.T, contentType string, data []byte) {
		p, err := parseManifest(contentType, data)
		if err != nil {
			var known *fault
			if !errors.As(err, &known) {
				t.Errorf("a client is not told of %v", err)
			}
			return
		}
		m := p.manifest
		if m.Size != int64(len(data)) || len(m.Blobs) > 0 && len(m.Manifests) > 0 || len(m.Blobs)+len(m.Manifests) > maxDescriptors {
			t.Errorf("%+v", m)
		}
		for digest, size := range p.sizes {
			if _, err := depot.ParseDigest(string(digest)); err != nil || size < 0 {
				t.Errorf("%s of %d bytes: %v", digest, size, err)
			}
		}
	})
}
