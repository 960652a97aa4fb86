package main

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"slices"
	"time"
)

// newServer makes a server that writes what it is asked to the log.
func newServer(f files, out io.Writer) *http.Server {
	logger := &accessLog{out: out}
	return &http.Server{
		Handler:           logger.wrap(route(f)),
		ReadHeaderTimeout: 20 * time.Second,
		IdleTimeout:       75 * time.Second,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          log.New(out, "web: ", 0),
	}
}

// route leaves all but two paths to the files as they are: http.ServeMux would send those that it finds unclean elsewhere.
func route(f files) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/healthz":
			_, _ = io.WriteString(w, "ok\n") // a client that is gone needs no answer
		case "/echo":
			echo(w, r)
		default:
			f.ServeHTTP(w, r)
		}
	})
}

// echo answers with the request itself.
func echo(w http.ResponseWriter, r *http.Request) {
	// Without it, the body could not be read any more once the answer has begun; where there is no such thing, it can.
	_ = http.NewResponseController(w).EnableFullDuplex()
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprintf(w, "%s %s %s\nHost: %s\n", r.Method, r.RequestURI, r.Proto, r.Host)
	names := make([]string, 0, len(r.Header))
	for name := range r.Header {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		for _, value := range r.Header[name] {
			fmt.Fprintf(w, "%s: %s\n", name, value)
		}
	}
	fmt.Fprintln(w)
	if _, err := io.Copy(w, r.Body); err != nil {
		panic(http.ErrAbortHandler) // the client must not take what it got for all
	}
}
