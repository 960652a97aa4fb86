package main

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
)

// FuzzRequest reads requests of arbitrary bytes. Where the library takes one too, both agree on where it ends.
func FuzzRequest(f *testing.F) {
	for _, seed := range []string{
		"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET /a%20b?c HTTP/1.0\r\nRange: bytes=1-\r\n\r\n",
		"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabcGET / HTTP/1.1\r\n\r\n",
		"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n0\r\nT: x\r\n\r\nrest",
		"GET http://host/path HTTP/1.1\r\nHost: x\r\n\r\n",
		"\r\nGET /\x00 HTTP/1.1\nA:b\n\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		in := bufio.NewReaderSize(strings.NewReader(text), mostLine)
		r, err := readRequest(in)
		if err != nil {
			return
		}
		if r.path != "*" && !strings.HasPrefix(r.path, "/") || strings.ContainsRune(r.path, 0) {
			t.Errorf("path %q", r.path)
		}
		if size := int64(len(text)) + 1; strings.TrimSpace(r.get("Range")) != "" {
			if first, length, status := wantedRange(r, "", size); first < 0 || length < 0 || first+length > size || status == 206 && length == 0 {
				t.Errorf("range %d+%d of %d, %d", first, length, size, status)
			}
		}
		body, err := io.ReadAll(r.body)
		if err != nil {
			if !errors.Is(err, io.ErrUnexpectedEOF) && !errors.As(err, new(problem)) {
				t.Errorf("body: %v", err)
			}
			return
		}
		rest, _ := io.ReadAll(in)
		other := bufio.NewReader(strings.NewReader(text))
		theirs, err := http.ReadRequest(other)
		if err != nil {
			return
		}
		theirBody, err := io.ReadAll(theirs.Body)
		if err != nil {
			return
		}
		theirRest, _ := io.ReadAll(other)
		if string(body) != string(theirBody) || string(rest) != string(theirRest) || r.method != theirs.Method {
			t.Errorf("%s: body %q, then %q; the library has %s: %q, then %q", r.method, body, rest, theirs.Method, theirBody, theirRest)
		}
	})
}
