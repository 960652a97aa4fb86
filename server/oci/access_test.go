package oci_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"edgepod/server"
	"edgepod/server/registry"
)

// as returns the cluster as somebody else reaches it.
func (c *cluster) as(config *rest.Config) *cluster {
	c.t.Helper()
	transport, err := rest.TransportFor(config)
	if err != nil {
		c.t.Fatal(err)
	}
	other := *c
	other.client = &http.Client{Transport: withoutToken{transport}}
	return &other
}

// withoutToken leaves it to the connection to tell who asks.
type withoutToken struct{ http.RoundTripper }

func (w withoutToken) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Del("Authorization")
	return w.RoundTripper.RoundTrip(r)
}

func TestNodesPullAndOthersMayNothing(t *testing.T) {
	dir := t.TempDir()
	c := start(t, dir, nil)
	c.pushImage("default/app", "v1", []byte("layer"))
	data, err := server.NodeKubeconfig(dir, "n1", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(data)
	if err != nil {
		t.Fatal(err)
	}
	node := c.as(config)
	node.must(http.StatusOK, request{path: "/v2/"})
	node.must(http.StatusOK, request{path: "/v2/default/app/manifests/v1"})
	node.must(http.StatusOK, request{path: "/v2/default/app/blobs/" + digestOf([]byte("layer"))})
	node.want(http.StatusForbidden, "DENIED", request{method: "POST", path: "/v2/default/app/blobs/uploads/"})
	node.want(http.StatusForbidden, "DENIED", putManifest("default/app", "v1", []byte("{}")))
	node.want(http.StatusForbidden, "DENIED", request{method: "DELETE", path: "/v2/default/app/manifests/v1"})

	admin, err := clientcmd.BuildConfigFromFlags("", filepath.Join(dir, server.KubeconfigFile))
	if err != nil {
		t.Fatal(err)
	}
	admin.BearerToken = ""
	admin.CertFile, admin.KeyFile = filepath.Join(dir, "pki", "admin.crt"), filepath.Join(dir, "pki", "admin.key")
	byCertificate := c.as(admin)
	byCertificate.pushImage("default/mine", "v1", []byte("layer"))

	jane := map[string]string{"Impersonate-User": "jane"}
	c.must(http.StatusOK, request{path: "/v2/", header: jane})
	c.want(http.StatusForbidden, "DENIED", request{path: "/v2/default/app/manifests/v1", header: jane})
	c.want(http.StatusForbidden, "DENIED", request{path: "/v2/default/none/tags/list", header: jane})
	if got := c.must(http.StatusOK, request{path: "/v2/_catalog", header: jane}).body; got != `{"repositories":[]}` {
		t.Errorf("catalog of one who may nothing: %s", got)
	}
	as := map[string]string{"Impersonate-User": "system:node:n2", "Impersonate-Group": "system:nodes"}
	c.must(http.StatusOK, request{path: "/v2/default/app/manifests/v1", header: as})
}

func TestTheAPIsOwnRefusalsAreInTheRegistrysForm(t *testing.T) {
	c := start(t, t.TempDir(), nil)
	r := c.do(request{path: "/v2/_catalog", header: map[string]string{"Sec-Fetch-Site": "cross-site"}})
	if r.code != http.StatusOK {
		t.Errorf("a read: %d %s", r.code, r.body)
	}
	c.want(http.StatusForbidden, "DENIED", request{method: "POST", path: "/v2/default/app/blobs/uploads/", header: map[string]string{"Sec-Fetch-Site": "cross-site"}})
	c.want(http.StatusMisdirectedRequest, "DENIED", request{path: "/v2/", host: "evil.example"})
}

func TestFiguresAreShown(t *testing.T) {
	c := start(t, t.TempDir(), nil)
	c.pushImage("default/app", "v1", []byte("layer"))
	c.must(http.StatusOK, request{path: "/v2/default/app/manifests/v1"})
	r := c.must(http.StatusOK, request{path: "/metrics"})
	for _, line := range []string{
		"edgepod_registry_repositories 1", "edgepod_registry_manifests 1", "edgepod_registry_tags 1", "edgepod_registry_contents 3",
		"edgepod_registry_pushes_total 1", "edgepod_registry_pulls_total 1", "edgepod_registry_uploads 0", "edgepod_registry_received_bytes_total 20",
	} {
		if !strings.Contains(r.body, "\n"+line+"\n") {
			t.Errorf("the figures lack %q", line)
		}
	}
}

func TestPathsThatNameNothing(t *testing.T) {
	c := start(t, t.TempDir(), nil)
	for path, want := range map[string]string{
		"/v2/nonsense": "404 UNSUPPORTED", "/v2/default/app": "404 UNSUPPORTED", "/v2/default/app/manifests": "404 UNSUPPORTED",
		"/v2/app/tags/list":                                              "400 NAME_INVALID",
		"/v2/default/App/tags/list":                                      "400 NAME_INVALID",
		"/v2/default/../kube-system/app/tags/list":                       "400 NAME_INVALID",
		"/v2/default/%2e%2e/%2e%2e/etc/tags/list":                        "400 NAME_INVALID",
		"/v2/default%2f..%2f..%2fx/tags/list":                            "400 NAME_INVALID",
		"/v2/default//app/tags/list":                                     "400 NAME_INVALID",
		"/v2/default/_repository.json/tags/list":                         "400 NAME_INVALID",
		"/v2/default/a%00b/tags/list":                                    "400 NAME_INVALID",
		"/v2/default/" + strings.Repeat("a", 300) + "/tags/list":         "400 NAME_INVALID",
		"/v2/-default/app/tags/list":                                     "400 NAME_INVALID",
		"/v2/default.x/app/tags/list":                                    "400 NAME_INVALID",
		"/v2/default/app/blobs/sha256:abc":                               "400 DIGEST_INVALID",
		"/v2/default/app/blobs/..%2f..%2fx":                              "404 UNSUPPORTED",
		"/v2/default/app/manifests/..":                                   "400 MANIFEST_INVALID",
		"/v2/default/app/manifests/sha256:zz":                            "400 DIGEST_INVALID",
		"/v2/default/app/referrers/v1":                                   "400 DIGEST_INVALID",
		"/v2/default/app/blobs/uploads/..":                               "404 BLOB_UPLOAD_UNKNOWN",
		"/v2/default/app/blobs/uploads/0123456789abcdef0123456789abcdef": "404 BLOB_UPLOAD_UNKNOWN",
		"/v2/default/blobs/uploads/tags/list":                            "404 NAME_UNKNOWN",
	} {
		r := c.do(request{path: path})
		if got := fmt.Sprint(r.code, " ", r.errorCode()); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	for _, q := range []request{
		{method: "PUT", path: "/v2/"},
		{method: "DELETE", path: "/v2/_catalog"},
		{method: "POST", path: "/v2/default/app/manifests/v1"},
		{method: "PATCH", path: "/v2/default/app/blobs/" + digestOf(nil)},
		{method: "GET", path: "/v2/default/app/blobs/uploads/"},
	} {
		r := c.do(q)
		if r.code != http.StatusMethodNotAllowed || r.errorCode() != "UNSUPPORTED" || r.header.Get("Allow") == "" {
			t.Errorf("%s %s: %d %v %s", q.method, q.path, r.code, r.header, r.body)
		}
	}
}

func TestImagesGoWithTheirNamespace(t *testing.T) {
	c := start(t, t.TempDir(), nil)
	c.want(http.StatusNotFound, "NAME_UNKNOWN", request{method: "POST", path: "/v2/nowhere/app/blobs/uploads/"})
	c.namespace("shop")
	c.pushImage("shop/app", "v1", noise(1000))
	c.pushImage("default/app", "v1", noise(1000))
	resource := c.verbs.Resource("", "namespaces")
	hold := func(held bool) {
		t.Helper()
		_, err := c.verbs.Update(t.Context(), resource, registry.UpdateRequest{Name: "shop", Modify: func(live runtime.Object) (runtime.Object, error) {
			live.(*corev1.Namespace).Finalizers = nil
			if held {
				live.(*corev1.Namespace).Finalizers = []string{"example.com/held"}
			}
			return live, nil
		}})
		if err != nil {
			t.Fatal(err)
		}
	}
	hold(true)
	if _, err := c.verbs.Delete(t.Context(), resource, registry.DeleteRequest{Name: "shop", Options: &metav1.DeleteOptions{}}); err != nil {
		t.Fatal(err)
	}
	c.want(http.StatusForbidden, "DENIED", request{method: "POST", path: "/v2/shop/app/blobs/uploads/"})
	poll(t, "the images to go", func() bool { return c.do(request{path: "/v2/shop/app/tags/list"}).code == http.StatusNotFound })
	hold(false)
	c.must(http.StatusOK, request{path: "/v2/default/app/manifests/v1"})
	c.must(http.StatusOK, request{path: "/v2/default/app/blobs/" + digestOf(noise(1000))})
}
