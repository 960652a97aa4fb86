package oci_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"testing"
)

// BenchmarkBlob sends and fetches one large blob over TLS and HTTP/2, by one client.
func BenchmarkBlob(b *testing.B) {
	c := start(b, b.TempDir(), nil)
	data := noise(64 << 20)
	digest := digestOf(data)
	path := "/v2/default/app/blobs/" + digest
	b.Run("push", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		for b.Loop() {
			c.must(http.StatusCreated, request{method: "POST", path: "/v2/default/app/blobs/uploads/?digest=" + digest, body: bytes.NewReader(data)})
		}
	})
	b.Run("pull", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		for b.Loop() {
			r, err := http.NewRequestWithContext(b.Context(), http.MethodGet, "https://"+c.host+path, nil)
			if err != nil {
				b.Fatal(err)
			}
			r.Header.Set("Authorization", "Bearer "+c.token)
			answer, err := c.client.Do(r)
			if err != nil {
				b.Fatal(err)
			}
			if n, err := io.Copy(io.Discard, answer.Body); err != nil || n != int64(len(data)) {
				b.Fatal(n, err)
			}
			answer.Body.Close()
		}
	})
}

// BenchmarkSmallImage pushes and pulls images of a few kilobytes: what the requests and the disk cost.
func BenchmarkSmallImage(b *testing.B) {
	c := start(b, b.TempDir(), nil)
	n := 0
	b.Run("push", func(b *testing.B) {
		for b.Loop() {
			n++
			c.pushImage("default/app", fmt.Sprint("v", n%100), fmt.Appendf(nil, "layer %d", n))
		}
	})
	b.Run("pull", func(b *testing.B) {
		layer := digestOf(fmt.Appendf(nil, "layer %d", n))
		for b.Loop() {
			c.must(http.StatusOK, request{path: fmt.Sprint("/v2/default/app/manifests/v", n%100)})
			c.must(http.StatusOK, request{path: "/v2/default/app/blobs/" + layer})
		}
	})
}
