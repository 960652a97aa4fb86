package oci

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"edgepod/server/oci/depot"
)

// maxManifest is the largest manifest that is taken.
const maxManifest = 4 << 20

func (c *call) getManifest() error {
	m, data, err := c.depot.Manifest(c.lasting(), c.repository, c.reference)
	if err != nil {
		return err
	}
	header := c.w.Header()
	header.Set("Content-Type", m.MediaType)
	header.Set("Docker-Content-Digest", string(m.Digest))
	header.Set("ETag", `"`+string(m.Digest)+`"`)
	if c.r.Method == http.MethodGet {
		c.pulls.Add(1)
	}
	http.ServeContent(c.w, c.r, "", time.Time{}, bytes.NewReader(data))
	return nil
}

func (c *call) putManifest() error {
	limits, err := c.limits(c.r.Context(), c.repository)
	if err != nil {
		return err
	}
	data, err := c.manifestBody()
	if err != nil {
		return err
	}
	parsed, err := parseManifest(c.r.Header.Get("Content-Type"), data)
	if err != nil {
		return err
	}
	m, tag := parsed.manifest, ""
	m.Digest = depot.DigestOf(data)
	if digest, ok := c.digest(); ok {
		h := digest.NewHash()
		h.Write(data)
		if !digest.Matches(h) {
			return &depot.DigestError{Want: digest}
		}
		m.Digest = digest
	} else {
		tag = c.reference
	}
	if err := c.depot.CheckSizes(c.repository, parsed.sizes); err != nil {
		return refuse(http.StatusBadRequest, manifestInvalid, "%v", err)
	}
	if err := c.depot.PutManifest(c.lasting(), c.repository, tag, m, data, limits.Quota); err != nil {
		return err
	}
	c.pushes.Add(1)
	if m.Subject != "" {
		c.w.Header().Set("OCI-Subject", string(m.Subject))
	}
	c.created("manifests", m.Digest)
	return nil
}

func (c *call) manifestBody() ([]byte, error) {
	tooLarge := refuse(http.StatusRequestEntityTooLarge, sizeInvalid, "the manifest is larger than %d MiB", maxManifest>>20)
	if c.r.ContentLength > maxManifest {
		return nil, tooLarge
	}
	body := newPacedBody(c.w, c.r, c.config.Pace)
	defer body.done()
	data, err := io.ReadAll(io.LimitReader(body, maxManifest+1))
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, refuse(http.StatusBadRequest, manifestInvalid, "the request ended before its content did")
	case err != nil:
		return nil, fmt.Errorf("manifest: %w", err)
	case len(data) > maxManifest:
		return nil, tooLarge
	}
	return data, nil
}

// deleteManifest removes a tag, or by digest a manifest with all its tags.
func (c *call) deleteManifest() error {
	if digest, ok := c.digest(); ok {
		return c.deleted(c.depot.DeleteManifest(c.lasting(), c.repository, digest))
	}
	return c.deleted(c.depot.DeleteTag(c.lasting(), c.repository, c.reference))
}
