package oci_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/crane"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"edgepod/server"
	"edgepod/server/oci"
	"edgepod/server/registry"
	"edgepod/server/store"
)

// cluster is a whole control plane, reached over TLS on 127.0.0.1.
type cluster struct {
	t      testing.TB
	server *server.Server // nil where the registry is alone
	verbs  registry.Verbs
	token  string
	host   string
	client *http.Client
	stop   func()
}

// start runs a control plane on a folder, until the test ends or stop is called.
func start(t testing.TB, dir string, change func(*server.Config)) *cluster {
	t.Helper()
	config := server.Config{DataDir: dir, Listen: "127.0.0.1:0"}
	if change != nil {
		change(&config)
	}
	s, err := server.New(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	stopped := false
	c := &cluster{t: t, server: s, verbs: s.Registry(), host: strings.TrimPrefix(s.URL(), "https://"), stop: func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	}}
	t.Cleanup(c.stop)
	<-s.Ready()
	token, err := os.ReadFile(filepath.Join(dir, "pki", "admin.token"))
	if err != nil {
		t.Fatal(err)
	}
	c.token = strings.TrimSpace(string(token))
	authority, err := os.ReadFile(filepath.Join(dir, "pki", "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	c.client = &http.Client{Transport: transport}
	return c
}

// alone serves a registry without the rest of a control plane, to anybody, with settings that the server does not have.
func alone(t testing.TB, change func(*oci.Config)) *cluster {
	t.Helper()
	db, err := store.Open(store.Config{Path: filepath.Join(t.TempDir(), "db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	verbs, err := registry.New(registry.Config{Store: db})
	if err != nil {
		t.Fatal(err)
	}
	config := oci.Config{
		Dir: filepath.Join(t.TempDir(), "images"), Objects: verbs,
		Allowed: func(context.Context, oci.Verb, string) bool { return true },
	}
	change(&config)
	images, err := oci.New(config)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(images)
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return &cluster{t: t, verbs: verbs, host: s.Listener.Addr().String(), client: s.Client()}
}

// ref is a reference to an image in the cluster.
func (c *cluster) ref(name string) string { return c.host + "/" + name }

// login is how docker logs in: some user's name, and the token as the password.
func (c *cluster) login() authn.Authenticator {
	return &authn.Basic{Username: "whoever", Password: c.token}
}

func (c *cluster) crane() []crane.Option {
	return []crane.Option{crane.WithTransport(c.client.Transport), crane.WithAuth(c.login()), crane.WithContext(c.t.Context())}
}

func (c *cluster) remote() []remote.Option {
	return []remote.Option{remote.WithTransport(c.client.Transport), remote.WithAuth(c.login()), remote.WithContext(c.t.Context())}
}

// namespace makes a namespace, with annotations given as KEY, VALUE.
func (c *cluster) namespace(name string, annotations ...string) {
	c.t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{}}}
	for i := 0; i < len(annotations); i += 2 {
		ns.Annotations[annotations[i]] = annotations[i+1]
	}
	if _, err := c.verbs.Create(c.t.Context(), c.verbs.Resource("", "namespaces"), registry.CreateRequest{Object: ns}); err != nil {
		c.t.Fatal(err)
	}
}

// request is one over HTTP; its zero fields are those of an administrator's reading.
type request struct {
	method, path string
	body         io.Reader
	length       int64 // -1 for a body of unknown length; 0 for that of the body
	header       map[string]string
	host         string // of the Host header, where it is to be another
}

type response struct {
	code   int
	header http.Header
	body   string
}

// errorCode is the specification's code of an answer that is an error.
func (r response) errorCode() string {
	var body struct {
		Errors []struct{ Code, Message string }
	}
	if json.Unmarshal([]byte(r.body), &body) != nil || len(body.Errors) != 1 || body.Errors[0].Message == "" {
		return "not an error in the specification's form: " + r.body
	}
	return body.Errors[0].Code
}

func (c *cluster) do(q request) response {
	c.t.Helper()
	r, err := c.try(q)
	if err != nil {
		c.t.Fatal(err)
	}
	return r
}

func (c *cluster) try(q request) (response, error) {
	if q.method == "" {
		q.method = http.MethodGet
	}
	if strings.HasPrefix(q.path, "/") {
		q.path = "https://" + c.host + q.path
	}
	r, err := http.NewRequestWithContext(c.t.Context(), q.method, q.path, q.body)
	if err != nil {
		return response{}, err
	}
	if q.length != 0 {
		r.ContentLength = q.length
	}
	if q.host != "" {
		r.Host = q.host
	}
	r.Header.Set("Authorization", "Bearer "+c.token)
	for name, value := range q.header {
		if value == "" {
			r.Header.Del(name)
			continue
		}
		r.Header.Set(name, value)
	}
	answer, err := c.client.Do(r)
	if err != nil {
		return response{}, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	return response{answer.StatusCode, answer.Header, string(body)}, err
}

// must does a request that is to be answered with the code.
func (c *cluster) must(code int, q request) response {
	c.t.Helper()
	r := c.do(q)
	if r.code != code {
		c.t.Fatalf("%s %s: got %d, want %d: %s", q.method, q.path, r.code, code, r.body)
	}
	return r
}

// want does a request that is to be refused with the status and the specification's code.
func (c *cluster) want(status int, code string, q request) {
	c.t.Helper()
	r := c.do(q)
	if r.code != status || r.errorCode() != code {
		c.t.Errorf("%s %s: got %d %s, want %d %s; body %s", q.method, q.path, r.code, r.errorCode(), status, code, r.body)
	}
}

func digestOf(data []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(data)) }

// pushBlob uploads a blob in one request, and returns its digest.
func (c *cluster) pushBlob(repository string, data []byte) string {
	c.t.Helper()
	digest := digestOf(data)
	c.must(http.StatusCreated, request{
		method: http.MethodPost, path: "/v2/" + repository + "/blobs/uploads/?digest=" + digest, body: bytes.NewReader(data),
	})
	return digest
}

// begin starts an upload and returns where it goes on.
func (c *cluster) begin(repository string) string {
	c.t.Helper()
	return c.must(http.StatusAccepted, request{method: http.MethodPost, path: "/v2/" + repository + "/blobs/uploads/"}).header.Get("Location")
}

const manifestType = "application/vnd.oci.image.manifest.v1+json"

// manifestOf is a manifest of a configuration and layers.
func manifestOf(config []byte, layers ...[]byte) []byte {
	type descriptor struct {
		MediaType string `json:"mediaType"`
		Digest    string `json:"digest"`
		Size      int    `json:"size"`
	}
	list := []descriptor{}
	for _, layer := range layers {
		list = append(list, descriptor{"application/wasm", digestOf(layer), len(layer)})
	}
	data, err := json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": manifestType,
		"config": descriptor{"application/vnd.wasm.config.v0+json", digestOf(config), len(config)}, "layers": list,
	})
	if err != nil {
		panic(err)
	}
	return data
}

// pushImage uploads an image of a configuration and a layer, and returns the manifest.
func (c *cluster) pushImage(repository, reference string, layer []byte) []byte {
	c.t.Helper()
	config := []byte(`{"os":"wasip1"}`)
	c.pushBlob(repository, config)
	c.pushBlob(repository, layer)
	manifest := manifestOf(config, layer)
	c.must(http.StatusCreated, putManifest(repository, reference, manifest))
	return manifest
}

func putManifest(repository, reference string, manifest []byte) request {
	return request{
		method: http.MethodPut, path: "/v2/" + repository + "/manifests/" + reference, body: bytes.NewReader(manifest),
		header: map[string]string{"Content-Type": manifestType},
	}
}
