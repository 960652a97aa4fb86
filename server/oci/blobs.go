package oci

import (
	"context"
	"errors"
	"hash"
	"io"
	"net/http"
	"os"
	"strconv"
	"time"

	"edgepod/server/oci/depot"
)

// getBlob sends a blob, or a part of it.
func (c *call) getBlob() error {
	digest, _ := c.digest()
	file, size, err := c.depot.Blob(c.repository, digest)
	if err != nil {
		return err
	}
	defer file.Close()
	header := c.w.Header()
	header.Set("Docker-Content-Digest", string(digest))
	header.Set("Content-Type", "application/octet-stream")
	header.Set("ETag", `"`+string(digest)+`"`)
	counted := &countingWriter{ResponseWriter: c.w}
	defer func() { c.bytesOut.Add(counted.n) }()
	if c.partial() {
		http.ServeContent(counted, c.r, "", time.Time{}, file)
		return nil
	}
	header.Set("Accept-Ranges", "bytes")
	header.Set("Content-Length", strconv.FormatInt(size, 10))
	if c.r.Method == http.MethodHead {
		c.w.WriteHeader(http.StatusOK)
		return nil
	}
	c.sendWhole(counted, file, size, digest)
	return nil
}

// partial tells whether the request has conditions, or asks for a part alone.
func (c *call) partial() bool {
	for _, name := range []string{"Range", "If-None-Match", "If-Match"} {
		if c.r.Header.Get(name) != "" {
			return true
		}
	}
	return false
}

// tail is what sendWhole holds back until it knows that the content is whole.
const tail = 4 << 10

// sendWhole sends a content and checks it on its way: of a damaged one the end is missing, so that no client takes it for
// good, and it is forgotten.
func (c *call) sendWhole(w io.Writer, file *os.File, size int64, digest depot.Digest) {
	h := digest.NewHash()
	early := max(size-tail, 0)
	if _, err := io.CopyN(w, io.TeeReader(file, h), early); err != nil && !errors.Is(err, io.EOF) {
		c.config.Log.Debug("a blob was not sent whole", "digest", digest, "err", err)
		panic(http.ErrAbortHandler)
	}
	last, err := readLast(io.TeeReader(file, h), size-early)
	if err != nil || !digest.Matches(h) {
		c.forget(digest, h, err)
		panic(http.ErrAbortHandler)
	}
	if _, err := w.Write(last); err != nil {
		c.config.Log.Debug("a blob was not sent whole", "digest", digest, "err", err)
	}
}

// readLast reads what is left, which must be n bytes.
func readLast(r io.Reader, n int64) ([]byte, error) {
	last := make([]byte, n+1)
	got, err := io.ReadFull(r, last)
	if int64(got) == n && (errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF)) {
		return last[:n], nil
	}
	return nil, errors.Join(errors.New("the file does not have its size"), err)
}

func (c *call) forget(digest depot.Digest, h hash.Hash, err error) {
	if err := errors.Join(err, c.depot.Damaged(context.WithoutCancel(c.r.Context()), digest)); err != nil {
		c.config.Log.Error("a damaged content", "digest", digest, "err", err)
	}
}

// countingWriter counts what is sent.
type countingWriter struct {
	http.ResponseWriter
	n int64
}

// Write implements io.Writer.
func (w *countingWriter) Write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p)
	w.n += int64(n)
	return n, err
}

// Unwrap lets http.ResponseController reach the connection.
func (w *countingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (c *call) deleteBlob() error {
	digest, _ := c.digest()
	return c.deleted(c.depot.DeleteBlob(c.lasting(), c.repository, digest))
}

// lasting is a context for changes that are not to be left half done because the client has gone.
func (c *call) lasting() context.Context { return context.WithoutCancel(c.r.Context()) }
