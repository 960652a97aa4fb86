package oci

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"edgepod/server/oci/depot"
)

// startUpload begins an upload. With ?digest the body is all of it; with ?mount nothing needs to be sent where the
// registry has the blob already.
func (c *call) startUpload() error {
	limits, err := c.limits(c.r.Context(), c.repository)
	if err != nil {
		return err
	}
	query := c.r.URL.Query()
	if mount := query.Get("mount"); mount != "" {
		if done, err := c.mount(mount, query.Get("from"), limits); done || err != nil {
			return err
		}
	}
	var whole depot.Digest
	if text := query.Get("digest"); text != "" && query.Get("mount") == "" {
		if whole, err = parseDigest(text); err != nil {
			return err
		}
	}
	if err := c.promised(limits); err != nil {
		return err
	}
	if c.reference, err = c.depot.Begin(c.r.Context(), c.repository); err != nil {
		return err
	}
	if whole == "" {
		c.progress(http.StatusAccepted, 0)
		return nil
	}
	err = c.finish(whole, -1, limits)
	if err != nil {
		// Nobody knows of this upload to go on with it. It may have ended already.
		if gone := c.depot.Cancel(c.lasting(), c.repository, c.reference); gone != nil && !errors.Is(gone, depot.ErrUnknownUpload) {
			return errors.Join(err, gone)
		}
	}
	return err
}

// mount takes a blob over from another repository. It is not done where there is no such blob to be had.
func (c *call) mount(text, from string, limits depot.Limits) (done bool, err error) {
	digest, err := parseDigest(text)
	if err != nil {
		return false, err
	}
	namespace := ""
	if from != "" {
		if depot.CheckRepository(from) != nil {
			return false, nil
		}
		namespace = depot.NamespaceOf(from)
	}
	if !c.config.Allowed(c.r.Context(), Pull, namespace) {
		return false, nil
	}
	err = c.depot.Mount(c.lasting(), c.repository, from, digest, limits.Quota)
	if errors.Is(err, depot.ErrUnknownBlob) || errors.Is(err, depot.ErrUnknownRepository) {
		return false, nil
	}
	if err == nil {
		c.created("blobs", digest)
	}
	return true, err
}

func parseDigest(text string) (depot.Digest, error) {
	digest, err := depot.ParseDigest(text)
	if err != nil {
		return "", refuse(http.StatusBadRequest, digestInvalid, "%v", err)
	}
	return digest, nil
}

// promised refuses a body whose announced length is too large, before it is sent.
func (c *call) promised(limits depot.Limits) error {
	if c.r.ContentLength > limits.Blob {
		return &depot.SizeError{Limit: limits.Blob}
	}
	return nil
}

// uploadStatus tells how much has come.
func (c *call) uploadStatus() error {
	size, err := c.depot.Size(c.repository, c.reference)
	if err != nil {
		return err
	}
	c.progress(http.StatusNoContent, size)
	return nil
}

// progress answers where to go on, and with which byte.
func (c *call) progress(status int, size int64) {
	c.sayProgress(size)
	if status != http.StatusNoContent {
		c.w.Header().Set("Content-Length", "0")
	}
	c.w.WriteHeader(status)
}

func (c *call) sayProgress(size int64) {
	header := c.w.Header()
	header.Set("Location", fmt.Sprintf("/v2/%s/blobs/uploads/%s", c.repository, c.reference))
	header.Set("Docker-Upload-Uuid", c.reference)
	header.Set("Range", fmt.Sprintf("0-%d", max(size-1, 0)))
}

// appendUpload adds a chunk: at the place that Content-Range says, else at the end.
func (c *call) appendUpload() error {
	limits, err := c.limits(c.r.Context(), c.repository)
	if err != nil {
		return err
	}
	at, length, err := c.contentRange()
	if err != nil {
		return err
	}
	if err := c.promised(limits); err != nil {
		return err
	}
	size, err := c.receive(at, length, limits)
	if err != nil {
		return err
	}
	c.progress(http.StatusAccepted, size)
	return nil
}

// contentRange reads the header, START-END. Without one both values are negative.
func (c *call) contentRange() (at, length int64, err error) {
	text := c.r.Header.Get("Content-Range")
	if text == "" {
		return -1, -1, nil
	}
	text, _, _ = strings.Cut(strings.TrimPrefix(text, "bytes "), "/")
	first, last, _ := strings.Cut(text, "-")
	start, startErr := strconv.ParseUint(first, 10, 62)
	end, endErr := strconv.ParseUint(last, 10, 62)
	if startErr != nil || endErr != nil || end < start {
		return 0, 0, refuse(http.StatusBadRequest, blobUploadInvalid, "Content-Range %q is not START-END", c.r.Header.Get("Content-Range"))
	}
	at, length = int64(start), int64(end-start+1)
	if c.r.ContentLength >= 0 && c.r.ContentLength != length {
		return 0, 0, refuse(http.StatusBadRequest, sizeInvalid, "Content-Range is of %d bytes and Content-Length is %d", length, c.r.ContentLength)
	}
	return at, length, nil
}

// receive adds the body, which is length bytes long unless that is negative, to the upload.
func (c *call) receive(at, length int64, limits depot.Limits) (size int64, err error) {
	body := newPacedBody(c.w, c.r, c.config.Pace)
	defer body.done()
	var content io.Reader = body
	if length >= 0 {
		content = io.LimitReader(body, length)
	}
	size, err = c.depot.Append(c.r.Context(), c.repository, c.reference, at, content, limits, body.stop)
	var offset *depot.OffsetError
	switch {
	case errors.As(err, &offset):
		c.sayProgress(size)
		return size, err
	case errors.Is(err, io.ErrUnexpectedEOF):
		return size, refuse(http.StatusBadRequest, blobUploadInvalid, "the request ended before its content did; %d bytes have come", size)
	case err != nil:
		return size, err
	case length >= 0 && size-at != length:
		return size, refuse(http.StatusBadRequest, sizeInvalid, "Content-Range is of %d bytes and %d have come", length, size-at)
	}
	if length >= 0 {
		if n, err := body.Read(make([]byte, 1)); n > 0 || !errors.Is(err, io.EOF) {
			return size, refuse(http.StatusBadRequest, sizeInvalid, "Content-Range is of %d bytes and more have come", length)
		}
	}
	return size, nil
}

// finishUpload adds the last chunk, if the request has one, and makes the upload a blob.
func (c *call) finishUpload() error {
	digest, err := parseDigest(c.r.URL.Query().Get("digest"))
	if err != nil {
		return err
	}
	limits, err := c.limits(c.r.Context(), c.repository)
	if err != nil {
		return err
	}
	at, _, err := c.contentRange()
	if err != nil {
		return err
	}
	if err := c.promised(limits); err != nil {
		return err
	}
	return c.finish(digest, at, limits)
}

func (c *call) finish(digest depot.Digest, at int64, limits depot.Limits) error {
	if c.r.ContentLength != 0 {
		if _, err := c.receive(at, -1, limits); err != nil {
			return err
		}
	}
	if _, err := c.depot.Finish(c.lasting(), c.repository, c.reference, digest, limits.Quota); err != nil {
		return err
	}
	c.created("blobs", digest)
	return nil
}

func (c *call) cancelUpload() error {
	if err := c.depot.Cancel(c.r.Context(), c.repository, c.reference); err != nil {
		return err
	}
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}
