package oci_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/crane"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// TestCraneWorksThroughTheWholeLifeOfImages does what users of crane do, over TLS, with a password.
func TestCraneWorksThroughTheWholeLifeOfImages(t *testing.T) {
	c := start(t, t.TempDir(), nil)
	c.namespace("shop")
	image, err := random.Image(100_000, 3)
	if err != nil {
		t.Fatal(err)
	}
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(crane.Push(image, c.ref("default/app:v1"), c.crane()...))
	check(crane.Tag(c.ref("default/app:v1"), "latest", c.crane()...))
	check(crane.Copy(c.ref("default/app:v1"), c.ref("shop/deep/er/app:v2"), c.crane()...))

	want, err := image.Digest()
	check(err)
	for _, ref := range []string{"default/app:v1", "default/app:latest", "shop/deep/er/app:v2", "default/app@" + want.String()} {
		pulled, err := crane.Pull(c.ref(ref), c.crane()...)
		check(err)
		check(validate.Image(pulled))
		if got, err := pulled.Digest(); err != nil || got != want {
			t.Errorf("%s: pulled %v, %v, want %v", ref, got, err, want)
		}
	}
	repositories, err := crane.Catalog(c.host, c.crane()...)
	check(err)
	if got := strings.Join(repositories, " "); got != "default/app shop/deep/er/app" {
		t.Errorf("catalog: %s", got)
	}
	tags, err := crane.ListTags(c.ref("default/app"), c.crane()...)
	check(err)
	if got := strings.Join(tags, " "); got != "latest v1" {
		t.Errorf("tags: %s", got)
	}
	check(crane.Delete(c.ref("default/app@"+want.String()), c.crane()...))
	if _, err := crane.Head(c.ref("default/app:v1"), c.crane()...); !isStatus(err, http.StatusNotFound) {
		t.Errorf("head of a deleted image: %v", err)
	}
	_, err = crane.Pull(c.ref("shop/deep/er/app:v2"), c.crane()...)
	check(err)
}

func isStatus(err error, code int) bool {
	fault, ok := err.(*transport.Error)
	return ok && fault.StatusCode == code
}

func TestIndexesAndReferrersAreKept(t *testing.T) {
	c := start(t, t.TempDir(), nil)
	index, err := random.Index(5_000, 2, 3)
	if err != nil {
		t.Fatal(err)
	}
	ref, err := name.ParseReference(c.ref("default/many:v1"))
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.WriteIndex(ref, index, c.remote()...); err != nil {
		t.Fatal(err)
	}
	pulled, err := remote.Index(ref, c.remote()...)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(pulled); err != nil {
		t.Error(err)
	}

	described, err := remote.Head(ref, c.remote()...)
	if err != nil {
		t.Fatal(err)
	}
	signature, err := random.Image(100, 1)
	if err != nil {
		t.Fatal(err)
	}
	attached := mutate.Subject(signature, *described).(v1.Image)
	if err := remote.Put(ref.Context().Tag("sig"), attached, c.remote()...); err == nil {
		t.Error("a manifest without its blobs was taken")
	}
	if err := remote.Push(ref.Context().Tag("sig"), attached, c.remote()...); err != nil {
		t.Fatal(err)
	}
	found, err := remote.Referrers(ref.Context().Digest(described.Digest.String()), c.remote()...)
	if err != nil {
		t.Fatal(err)
	}
	list, err := found.IndexManifest()
	if err != nil || len(list.Manifests) != 1 {
		t.Fatalf("referrers: %+v, %v", list, err)
	}
	tags, err := remote.List(ref.Context(), c.remote()...)
	if err != nil || !slices.Equal(tags, []string{"sig", "v1"}) {
		t.Errorf("tags: %v, %v; a client that found no referrers makes tags for them", tags, err)
	}
}

func TestWithoutCredentialsNothingIsSaid(t *testing.T) {
	c := start(t, t.TempDir(), nil)
	c.pushImage("default/app", "v1", []byte("layer"))
	for _, header := range []map[string]string{
		{"Authorization": ""}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic d2hvOndyb25n"}, {"Authorization": "Digest x"},
	} {
		for _, q := range []request{
			{path: "/v2/"},
			{path: "/v2/_catalog"},
			{path: "/v2/default/app/manifests/v1"},
			{path: "/v2/default/none/tags/list"},
			{method: http.MethodPost, path: "/v2/default/app/blobs/uploads/"},
			{path: "/v2/nonsense"},
		} {
			q.header = header
			r := c.do(q)
			if r.code != http.StatusUnauthorized || r.errorCode() != "UNAUTHORIZED" || !strings.HasPrefix(r.header.Get("WWW-Authenticate"), "Basic ") {
				t.Errorf("%s %s with %v: %d %v %s", q.method, q.path, header, r.code, r.header, r.body)
			}
		}
	}
	_, err := crane.Pull(c.ref("default/app:v1"), crane.WithTransport(c.client.Transport), crane.WithAuth(authn.Anonymous))
	if !isStatus(err, http.StatusUnauthorized) {
		t.Errorf("anonymous pull: %v", err)
	}
}
