package api

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"strings"

	"edgepod/server/api/openapi"
)

// openapiDocuments are served by path and hash: a client that has a document by its hash never asks for it again.
type openapiDocuments struct {
	index    []byte
	etag     string
	byPath   map[string]hashed
	v2, v2pb hashed
}

type hashed struct {
	gz   []byte
	hash string
}

func hashOf(gz []byte) hashed {
	sum := sha256.Sum256(gz)
	return hashed{gz: gz, hash: strings.ToUpper(hex.EncodeToString(sum[:]))}
}

func newOpenAPI() (*openapiDocuments, error) {
	documents, err := openapi.V3()
	if err != nil {
		return nil, err
	}
	type item struct {
		ServerRelativeURL string `json:"serverRelativeURL"`
	}
	o := &openapiDocuments{byPath: map[string]hashed{}}
	paths := map[string]item{}
	for _, d := range documents {
		h := hashOf(d.GZ)
		o.byPath[d.Path] = h
		paths[d.Path] = item{"/openapi/v3/" + d.Path + "?hash=" + h.hash}
	}
	if o.index, err = json.Marshal(map[string]any{"paths": paths}); err != nil {
		return nil, err
	}
	o.etag = hashOf(o.index).hash
	asJSON, asProtobuf := openapi.V2()
	o.v2, o.v2pb = hashOf(asJSON), hashOf(asProtobuf)
	return o, nil
}

// openAPIIndex serves /openapi/v3: where each group's document is.
func (a *API) openAPIIndex(r *request) error {
	header := r.Response().Header()
	header.Set("ETag", `"`+a.openapi.etag+`"`)
	header.Set("Vary", "Accept")
	if matches(r.Request(), a.openapi.etag) {
		return r.NoContent(http.StatusNotModified)
	}
	return a.writeJSON(r, output{}, http.StatusOK, a.openapi.index)
}

// openAPIDocument serves /openapi/v3/PATH?hash=H. With the document's hash the answer may be kept for ever; with another,
// the client is sent to the right one.
func (a *API) openAPIDocument(r *request) error {
	path := strings.TrimPrefix(r.Request().URL.Path, "/openapi/v3/")
	document, ok := a.openapi.byPath[path]
	if !ok {
		return a.notFound(r)
	}
	header := r.Response().Header()
	if asked := r.query().Get("hash"); asked != "" {
		if asked != document.hash {
			return r.Redirect(http.StatusMovedPermanently, "/openapi/v3/"+path+"?hash="+document.hash)
		}
		header.Set("Cache-Control", "public, immutable")
		header.Set("Expires", r.start.AddDate(1, 0, 0).UTC().Format(http.TimeFormat))
	}
	return a.writeDocument(r, document, "application/json")
}

// openAPIv2 serves the one document that older clients read.
func (a *API) openAPIv2(r *request) error {
	const protobuf = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
	document, kind := a.openapi.v2, "application/json"
	if strings.Contains(r.Request().Header.Get("Accept"), "proto-openapi.spec.v2") {
		document, kind = a.openapi.v2pb, protobuf
	}
	if document.gz == nil {
		return a.notFound(r)
	}
	return a.writeDocument(r, document, kind)
}

// writeDocument sends the document compressed as it is kept, or plain to clients that can't take it so.
func (a *API) writeDocument(r *request, document hashed, kind string) error {
	header := r.Response().Header()
	header.Set("ETag", `"`+document.hash+`"`)
	header.Set("Vary", "Accept, Accept-Encoding")
	if matches(r.Request(), document.hash) {
		return r.NoContent(http.StatusNotModified)
	}
	if strings.Contains(r.Request().Header.Get("Accept-Encoding"), "gzip") {
		header.Set("Content-Encoding", "gzip")
		return r.Blob(http.StatusOK, kind, document.gz)
	}
	plain, err := gzip.NewReader(bytes.NewReader(document.gz))
	if err != nil {
		return err
	}
	header.Set("Content-Type", kind)
	r.Response().WriteHeader(http.StatusOK)
	if _, err := io.Copy(r.Response(), plain); err != nil {
		a.Log.Debug("a client left while it was sent a document", "err", err)
	}
	return nil
}
