package oci_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"edgepod/server"
	"edgepod/server/oci"
)

// noise is n bytes that do not compress.
func noise(n int) []byte {
	data := make([]byte, n)
	random := rand.NewChaCha8([32]byte{byte(n), byte(n >> 8)})
	_, _ = random.Read(data)
	return data
}

func TestUploadsComeWholeInPiecesOrAsAStream(t *testing.T) {
	c := start(t, t.TempDir(), nil)
	data := noise(300_000)
	digest := digestOf(data)
	blob := "/v2/default/app/blobs/" + digest
	for name, push := range map[string]func() response{
		"whole": func() response {
			return c.do(request{method: "POST", path: "/v2/default/app/blobs/uploads/?digest=" + digest, body: bytes.NewReader(data)})
		},
		"in the last request": func() response {
			return c.do(request{method: "PUT", path: c.begin("default/app") + "?digest=" + digest, body: bytes.NewReader(data)})
		},
		"as a stream of unknown length": func() response {
			at := c.begin("default/app")
			c.must(http.StatusAccepted, request{method: "PATCH", path: at, body: bytes.NewReader(data), length: -1})
			return c.do(request{method: "PUT", path: at + "?digest=" + digest})
		},
		"in chunks, the last with the end": func() response {
			at := c.begin("default/app")
			for from := 0; from < 200_000; from += 50_000 {
				r := c.must(http.StatusAccepted, request{
					method: "PATCH", path: at, body: bytes.NewReader(data[from : from+50_000]),
					header: map[string]string{"Content-Range": fmt.Sprintf("%d-%d", from, from+49_999)},
				})
				if got, want := r.header.Get("Range"), fmt.Sprintf("0-%d", from+49_999); got != want {
					t.Errorf("range after a chunk: %s, want %s", got, want)
				}
				at = r.header.Get("Location")
			}
			return c.do(request{
				method: "PUT", path: at + "?digest=" + digest, body: bytes.NewReader(data[200_000:]),
				header: map[string]string{"Content-Range": "200000-299999"},
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := push()
			if r.code != http.StatusCreated || r.header.Get("Docker-Content-Digest") != digest || r.header.Get("Location") != blob {
				t.Fatalf("%d %v %s", r.code, r.header, r.body)
			}
			if got := c.must(http.StatusOK, request{path: blob}); got.body != string(data) {
				t.Error("the blob is not what was sent")
			}
			c.must(http.StatusAccepted, request{method: "DELETE", path: blob})
			c.want(http.StatusNotFound, "NAME_UNKNOWN", request{path: blob})
		})
	}
}

func TestChunksOutOfOrderAreRefusedAndTheUploadGoesOn(t *testing.T) {
	c := start(t, t.TempDir(), nil)
	data := noise(3000)
	at := c.begin("default/app")
	chunk := func(from, to int, contentRange string) request {
		return request{method: "PATCH", path: at, body: bytes.NewReader(data[from:to]), header: map[string]string{"Content-Range": contentRange}}
	}
	c.must(http.StatusAccepted, chunk(0, 1000, "0-999"))
	for _, q := range []request{chunk(2000, 3000, "2000-2999"), chunk(0, 1000, "0-999"), chunk(999, 2000, "999-1999")} {
		r := c.do(q)
		if r.code != http.StatusRequestedRangeNotSatisfiable || r.errorCode() != "BLOB_UPLOAD_INVALID" || r.header.Get("Range") != "0-999" {
			t.Errorf("%v: %d %s, range %q", q.header, r.code, r.body, r.header.Get("Range"))
		}
	}
	for _, bad := range []string{"x-y", "5-3", "1000", "-5", "1000-1999999999999999999999", "1000-99999999999999999999999999"} {
		c.want(http.StatusBadRequest, "BLOB_UPLOAD_INVALID", chunk(1000, 2000, bad))
	}
	c.want(http.StatusBadRequest, "SIZE_INVALID", chunk(1000, 2000, "1000-1500"))
	long := chunk(1000, 2000, "1000-1499")
	long.length = -1
	c.want(http.StatusBadRequest, "SIZE_INVALID", long) // it had come to 1500 before that was seen
	status := c.must(http.StatusNoContent, request{path: at})
	if got := status.header.Get("Range"); got != "0-1499" {
		t.Errorf("status: range %s", got)
	}
	c.must(http.StatusAccepted, chunk(1500, 3000, "bytes 1500-2999/3000"))
	c.must(http.StatusCreated, request{method: "PUT", path: at + "?digest=" + digestOf(data)})
	c.want(http.StatusNotFound, "BLOB_UPLOAD_UNKNOWN", request{path: at})
}

func TestWhatIsNotWhatItsDigestSaysIsRefused(t *testing.T) {
	c := start(t, t.TempDir(), nil)
	data, wrong := noise(1000), digestOf([]byte("something else"))
	c.want(http.StatusBadRequest, "DIGEST_INVALID", request{method: "POST", path: "/v2/default/app/blobs/uploads/?digest=" + wrong, body: bytes.NewReader(data)})
	at := c.begin("default/app")
	c.must(http.StatusAccepted, request{method: "PATCH", path: at, body: bytes.NewReader(data)})
	for _, bad := range []string{"", "sha256:abc", "md5:d41d8cd98f00b204e9800998ecf8427e", strings.ToUpper(wrong)} {
		c.want(http.StatusBadRequest, "DIGEST_INVALID", request{method: "PUT", path: at + "?digest=" + bad})
	}
	c.want(http.StatusBadRequest, "DIGEST_INVALID", request{method: "PUT", path: at + "?digest=" + wrong})
	c.want(http.StatusNotFound, "BLOB_UPLOAD_UNKNOWN", request{path: at})
	c.want(http.StatusNotFound, "NAME_UNKNOWN", request{path: "/v2/default/app/blobs/" + wrong})
	c.want(http.StatusNotFound, "NAME_UNKNOWN", request{path: "/v2/default/app/blobs/" + digestOf(data)})

	sum := "sha512:9b71d224bd62f3785d96d46ad3ea3d73319bfbc2890caadae2dff72519673ca72323c3d99ba5c11d7c7acc6e14b8c5da0c4663475c2e5c3adef46f73bcdec043"
	c.must(http.StatusCreated, request{method: "POST", path: "/v2/default/app/blobs/uploads/?digest=" + sum, body: strings.NewReader("hello")})
	if got := c.must(http.StatusOK, request{path: "/v2/default/app/blobs/" + sum}); got.body != "hello" {
		t.Errorf("by SHA-512: %q", got.body)
	}
}

func TestBlobsOfOtherRepositoriesAreTakenOver(t *testing.T) {
	c := start(t, t.TempDir(), nil)
	c.namespace("shop")
	digest := c.pushBlob("default/app", noise(5000))
	mount := func(query string) request {
		return request{method: "POST", path: "/v2/shop/app/blobs/uploads/?mount=" + digest + query}
	}
	c.must(http.StatusCreated, mount("&from=default/app"))
	c.must(http.StatusOK, request{method: "HEAD", path: "/v2/shop/app/blobs/" + digest})
	c.must(http.StatusAccepted, request{method: "DELETE", path: "/v2/shop/app/blobs/" + digest})
	c.must(http.StatusCreated, mount("")) // from wherever it is
	for _, from := range []string{"&from=default/none", "&from=shop/none", "&from=../../etc", "&from=default"} {
		c.must(http.StatusAccepted, request{method: "POST", path: "/v2/shop/other/blobs/uploads/?mount=" + digest + from})
	}
	c.want(http.StatusBadRequest, "DIGEST_INVALID", request{method: "POST", path: "/v2/shop/other/blobs/uploads/?mount=nonsense&from=default/app"})
	c.must(http.StatusAccepted, request{method: "DELETE", path: "/v2/default/app/blobs/" + digest})
	c.must(http.StatusOK, request{method: "HEAD", path: "/v2/shop/app/blobs/" + digest})
}

func TestACutUploadGoesOnEvenAfterARestart(t *testing.T) {
	dir := t.TempDir()
	c := start(t, dir, nil)
	data := noise(400_000)
	at := c.begin("default/app")
	line, feed := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		_, err := c.try(request{method: "PATCH", path: at, body: line, length: int64(len(data))})
		ended <- err
	}()
	if _, err := feed.Write(data[:250_000]); err != nil {
		t.Fatal(err)
	}
	poll(t, "some of it to come", func() bool { return c.must(http.StatusNoContent, request{path: at}).header.Get("Range") != "0-0" })
	feed.CloseWithError(errors.New("the line is cut"))
	if err := <-ended; err == nil {
		t.Fatal("the cut request was answered")
	}
	size := c.settled(at)
	if size < 2 || size > 250_000 {
		t.Fatalf("after the cut there are %d bytes", size)
	}
	c.stop()

	c = start(t, dir, nil)
	if got := c.settled(at); got != size {
		t.Errorf("after the restart there are %d bytes, before %d", got, size)
	}
	c.must(http.StatusAccepted, request{
		method: "PATCH", path: at, body: bytes.NewReader(data[size:]),
		header: map[string]string{"Content-Range": fmt.Sprintf("%d-%d", size, len(data)-1)},
	})
	c.must(http.StatusCreated, request{method: "PUT", path: at + "?digest=" + digestOf(data)})
	if got := c.must(http.StatusOK, request{path: "/v2/default/app/blobs/" + digestOf(data)}); got.body != string(data) {
		t.Error("the blob is not what was sent")
	}
}

// settled returns the size of an upload once nobody writes to it any more: an empty chunk takes it over.
func (c *cluster) settled(at string) (size int) {
	c.t.Helper()
	r := c.must(http.StatusAccepted, request{method: "PATCH", path: at})
	if _, err := fmt.Sscanf(r.header.Get("Range"), "0-%d", &size); err != nil {
		c.t.Fatal(err)
	}
	return size + 1
}

func TestANewConnectionTakesAnUploadOver(t *testing.T) {
	c := start(t, t.TempDir(), nil)
	data := noise(100_000)
	at := c.begin("default/app")
	hanging, feed := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		_, err := c.try(request{method: "PATCH", path: at, body: hanging, length: -1})
		ended <- err
	}()
	if _, err := feed.Write(data[:50_000]); err != nil {
		t.Fatal(err)
	}
	poll(t, "the first half to come", func() bool {
		return c.must(http.StatusNoContent, request{path: at}).header.Get("Range") == "0-49999"
	})
	c.must(http.StatusAccepted, request{method: "PATCH", path: at, body: bytes.NewReader(data[50_000:]), header: map[string]string{"Content-Range": "50000-99999"}})
	c.must(http.StatusCreated, request{method: "PUT", path: at + "?digest=" + digestOf(data)})
	feed.CloseWithError(errors.New("over"))
	<-ended
}

// poll asks until the answer is yes.
func poll(t testing.TB, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(time.Minute)
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

func TestTheSameBlobPushedByManyAtOnceIsStoredOnce(t *testing.T) {
	dir := t.TempDir()
	c := start(t, dir, nil)
	data := noise(200_000)
	digest := digestOf(data)
	var wait sync.WaitGroup
	for i := range 16 {
		wait.Go(func() {
			repository := fmt.Sprintf("default/app%d", i%4)
			at := c.begin(repository)
			r, err := c.try(request{method: "PUT", path: at + "?digest=" + digest, body: bytes.NewReader(data)})
			if err != nil || r.code != http.StatusCreated {
				t.Errorf("%s: %v %d %s", repository, err, r.code, r.body)
			}
		})
	}
	wait.Wait()
	files, err := filepath.Glob(filepath.Join(dir, "registry", "blobs", "sha256", "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("files: %v, %v", files, err)
	}
	if onDisk, err := os.ReadFile(files[0]); err != nil || !bytes.Equal(onDisk, data) {
		t.Errorf("the file is not what was sent: %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "registry", "uploads", "*")); err != nil || len(left) > 0 {
		t.Errorf("left of the uploads: %v, %v", left, err)
	}
}

// trickle is a body that comes a byte at a time.
type trickle struct{ ctx context.Context }

func (s trickle) Read(p []byte) (int, error) {
	select {
	case <-time.After(20 * time.Millisecond):
		return copy(p, "x"), nil
	case <-s.ctx.Done():
		return 0, s.ctx.Err()
	}
}

func TestWhoSendsTooSlowlyIsCutOffAndKeepsNobodyOut(t *testing.T) {
	c := alone(t, func(config *oci.Config) { config.Pace, config.Writes = time.Second, 2 })
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wait sync.WaitGroup
	for range 2 {
		at := c.begin("default/app")
		wait.Go(func() {
			r, err := c.try(request{method: "PATCH", path: at, body: trickle{ctx}, length: -1})
			if err == nil && r.code != http.StatusRequestTimeout {
				t.Errorf("a trickle was answered with %d %s", r.code, r.body)
			}
		})
	}
	wait.Wait()
	c.pushImage("default/app", "v1", noise(100_000))
}

func TestWhoReadsTooSlowlyKeepsNobodyOut(t *testing.T) {
	c := alone(t, func(config *oci.Config) { config.Pace, config.Reads = time.Second, 1 })
	path := "/v2/default/app/blobs/" + c.pushBlob("default/app", noise(16<<20))
	config := c.client.Transport.(*http.Transport).TLSClientConfig.Clone()
	config.NextProtos = []string{"http/1.1"}
	conn, err := tls.Dial("tcp", c.host, config)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", path, c.host); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	poll(t, "the one who does not read on to be cut off", func() bool { return c.do(request{path: "/v2/_catalog"}).code == http.StatusOK })
}

func TestManyAtOnceAreAskedToComeAgain(t *testing.T) {
	c := alone(t, func(config *oci.Config) { config.Writes = 1 })
	at := c.begin("default/app")
	body, feed := io.Pipe()
	ended := make(chan response, 1)
	go func() {
		r, _ := c.try(request{method: "PATCH", path: at, body: body, length: -1})
		ended <- r
	}()
	if _, err := feed.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	poll(t, "the upload to hold the only place", func() bool {
		r := c.do(request{method: "POST", path: "/v2/default/app/blobs/uploads/"})
		return r.code == http.StatusTooManyRequests && r.errorCode() == "TOOMANYREQUESTS" && r.header.Get("Retry-After") != ""
	})
	c.must(http.StatusOK, request{path: "/v2/_catalog"})
	feed.Close()
	if r := <-ended; r.code != http.StatusAccepted {
		t.Errorf("the upload: %d %s", r.code, r.body)
	}
}

func TestTooLargeIsRefusedBeforeItIsSent(t *testing.T) {
	c := alone(t, func(config *oci.Config) { config.Blob = 10_000 })
	at := c.begin("default/app")
	for _, length := range []int64{0, -1} {
		c.want(http.StatusRequestEntityTooLarge, "SIZE_INVALID", request{method: "PATCH", path: at, body: bytes.NewReader(noise(20_000)), length: length})
	}
	c.want(http.StatusRequestEntityTooLarge, "SIZE_INVALID", request{method: "POST", path: "/v2/default/app/blobs/uploads/?digest=" + digestOf(noise(20_000)), body: bytes.NewReader(noise(20_000))})
	c.pushBlob("default/app", noise(10_000))
}

func TestQuotaIsHeldAndSaidClearly(t *testing.T) {
	c := start(t, t.TempDir(), func(config *server.Config) { config.ImageQuota = 100_000 })
	c.namespace("roomy", oci.QuotaAnnotation, "1Mi")
	c.namespace("broken", oci.QuotaAnnotation, "much")
	c.pushBlob("default/app", noise(60_000))
	c.must(http.StatusCreated, request{method: "POST", path: "/v2/default/other/blobs/uploads/?from=default/app&mount=" + digestOf(noise(60_000))}) // counted once
	r := c.do(request{method: "POST", path: "/v2/default/app/blobs/uploads/?digest=" + digestOf(noise(50_000)), body: bytes.NewReader(noise(50_000))})
	if r.code != http.StatusForbidden || r.errorCode() != "DENIED" || !strings.Contains(r.body, "namespace default may keep 97.66 KiB of images") {
		t.Errorf("over the quota: %d %s", r.code, r.body)
	}
	at := c.begin("default/app")
	c.must(http.StatusAccepted, request{method: "PATCH", path: at, body: bytes.NewReader(noise(30_000))})
	c.want(http.StatusForbidden, "DENIED", request{method: "PATCH", path: c.begin("default/app"), body: bytes.NewReader(noise(20_000))})
	c.must(http.StatusNoContent, request{method: "DELETE", path: at})
	c.pushBlob("default/app", noise(30_000))
	c.pushBlob("roomy/app", noise(500_000))
	c.want(http.StatusForbidden, "DENIED", request{method: "POST", path: "/v2/broken/app/blobs/uploads/"})
	c.want(http.StatusForbidden, "DENIED", request{method: "POST", path: "/v2/default/app/blobs/uploads/?from=roomy/app&mount=" + digestOf(noise(500_000))})
	c.must(http.StatusAccepted, request{method: "DELETE", path: "/v2/default/app/blobs/" + digestOf(noise(60_000))})
	c.must(http.StatusAccepted, request{method: "DELETE", path: "/v2/default/other/blobs/" + digestOf(noise(60_000))})
	c.pushBlob("default/app", noise(60_001))
}
