package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// accessLog writes a line for each request, in the common log format.
type accessLog struct{ out io.Writer }

// wrap has a handler's requests written down when they have been answered.
func (l *accessLog) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		counted := &counter{ResponseWriter: w}
		defer func() { l.write(r, counted.status, counted.size) }()
		next.ServeHTTP(counted, r)
	})
}

func (l *accessLog) write(r *http.Request, status int, size int64) {
	peer, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		peer = "-"
	}
	fmt.Fprintf(l.out, "%s - - [%s] \"%s %s %s\" %d %d\n", peer, time.Now().UTC().Format("02/Jan/2006:15:04:05 -0700"),
		r.Method, printable(r.RequestURI), r.Proto, status, size)
}

// printable makes text that others chose safe for a log: one line, with no quote that could end it early.
func printable(text string) string {
	quoted := strconv.QuoteToASCII(strings.ToValidUTF8(text, "\ufffd"))
	return quoted[1 : len(quoted)-1]
}

// counter notes what was answered.
type counter struct {
	http.ResponseWriter
	status int
	size   int64
}

// WriteHeader implements http.ResponseWriter.
func (c *counter) WriteHeader(status int) {
	c.status = status
	c.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (c *counter) Write(p []byte) (int, error) {
	if c.status == 0 {
		c.status = http.StatusOK
	}
	n, err := c.ResponseWriter.Write(p)
	c.size += int64(n)
	return n, err
}

// Unwrap is for http.ResponseController.
func (c *counter) Unwrap() http.ResponseWriter { return c.ResponseWriter }
