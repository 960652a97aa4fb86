package remote

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/google/go-containerregistry/pkg/v1/types"

	"edgepod/wasmrt/sandbox"
)

// Repository is one repository, as it is reached for one pull. Its methods may be called at the same time.
type Repository struct {
	name      string
	endpoints []*endpoint // mirrors first

	mu    sync.Mutex
	first int // the endpoint that had the manifest
}

// Name is the repository's full name, with that of its registry.
func (r *Repository) Name() string { return r.name }

// Manifest is a manifest or index as it came.
type Manifest struct {
	Raw []byte
	// MediaType is what the registry said that it is, Digest the SHA-256 of Raw.
	MediaType, Digest string
}

// MaxManifest is the most bytes that a manifest, index or configuration may have.
const MaxManifest = 4 << 20

var manifestTypes = strings.Join([]string{
	string(types.OCIImageIndex), string(types.OCIManifestSchema1), string(types.DockerManifestList), string(types.DockerManifestSchema2),
}, ", ")

// Manifest fetches what a tag or digest names. Mirrors are asked first, in their order; the error is that of the
// repository's own registry, and tells of theirs.
func (r *Repository) Manifest(ctx context.Context, reference string) (Manifest, error) {
	var failed []error
	for i, e := range r.endpoints {
		m, err := e.manifest(ctx, reference)
		if err == nil {
			r.mu.Lock()
			r.first = i
			r.mu.Unlock()
			return m, nil
		}
		if ctx.Err() != nil {
			return Manifest{}, context.Cause(ctx)
		}
		failed = append(failed, err)
	}
	return Manifest{}, together(failed)
}

// together makes one error of those of all endpoints, the last of which counts.
func together(failed []error) error {
	last := failed[len(failed)-1]
	if len(failed) == 1 {
		return last
	}
	return fmt.Errorf("%w (mirrors: %s)", last, strings.ReplaceAll(errors.Join(failed[:len(failed)-1]...).Error(), "\n", "; "))
}

func (e *endpoint) manifest(ctx context.Context, reference string) (Manifest, error) {
	resp, err := e.get(ctx, "manifests/"+reference, http.Header{"Accept": {manifestTypes}}, http.StatusOK)
	if err != nil {
		return Manifest{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, MaxManifest+1))
	if err != nil {
		return Manifest{}, fmt.Errorf("read the manifest from %s: %w", e.host, err)
	}
	if len(raw) > MaxManifest {
		return Manifest{}, fmt.Errorf("the manifest that %s sent is larger than %d MiB", e.host, MaxManifest>>20)
	}
	sum := sha256.Sum256(raw)
	m := Manifest{Raw: raw, Digest: "sha256:" + hex.EncodeToString(sum[:])}
	if strings.Contains(reference, ":") && reference != m.Digest {
		return Manifest{}, fmt.Errorf("%s sent something else than the manifest asked for: its digest is %s", e.host, m.Digest)
	}
	if m.MediaType, _, err = mime.ParseMediaType(resp.Header.Get("Content-Type")); err != nil {
		m.MediaType = ""
	}
	return m, nil
}

// Blob is the content of a blob from an offset on. It is not checked: that is for who writes it down.
type Blob struct {
	io.ReadCloser
	// Offset is where it begins: the one asked for, or 0 where the registry sends the whole.
	Offset int64
}

// Blob fetches a blob from an offset on. URLs in its descriptor are not followed.
func (r *Repository) Blob(ctx context.Context, digest string, offset int64) (Blob, error) {
	r.mu.Lock()
	first := r.first
	r.mu.Unlock()
	var failed []error
	for i := range r.endpoints {
		e := r.endpoints[(first+i)%len(r.endpoints)]
		b, err := e.blob(ctx, digest, offset)
		if err == nil {
			return b, nil
		}
		if ctx.Err() != nil {
			return Blob{}, context.Cause(ctx)
		}
		failed = append(failed, err)
	}
	return Blob{}, together(failed)
}

func (e *endpoint) blob(ctx context.Context, digest string, offset int64) (Blob, error) {
	header, want := http.Header{}, []int{http.StatusOK}
	if offset > 0 {
		header.Set("Range", fmt.Sprintf("bytes=%d-", offset))
		want = append(want, http.StatusPartialContent, http.StatusRequestedRangeNotSatisfiable)
	}
	resp, err := e.get(ctx, "blobs/"+digest, header, want...)
	if err != nil {
		return Blob{}, err
	}
	switch {
	case resp.StatusCode == http.StatusOK:
		return Blob{ReadCloser: resp.Body}, nil
	case resp.StatusCode == http.StatusPartialContent && rangeStart(resp.Header.Get("Content-Range")) == offset:
		return Blob{ReadCloser: resp.Body, Offset: offset}, nil
	}
	discard(resp)
	return e.blob(ctx, digest, 0)
}

// rangeStart reads where the range begins that a Content-Range header names, -1 where it names none.
func rangeStart(value string) int64 {
	span, _, _ := strings.Cut(strings.TrimPrefix(value, "bytes "), "-")
	start, err := strconv.ParseInt(span, 10, 64)
	if err != nil || start < 0 {
		return -1
	}
	return start
}

// Proof tells with which credential the repository's manifest was fetched; the empty one where none was needed.
func (r *Repository) Proof() sandbox.Credential {
	r.mu.Lock()
	e := r.endpoints[r.first]
	r.mu.Unlock()
	if e.direct {
		return sandbox.Credential{}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.credentials[e.chosen]
}
