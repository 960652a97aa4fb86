package api

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

func dial(t *testing.T, c *cluster) net.Conn {
	t.Helper()
	s := c.serve()
	conn, err := tls.Dial("tcp", s.Listener.Addr().String(), &tls.Config{RootCAs: s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs, ServerName: "example.com"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func TestABodyThatDoesNotComeIsNotWaitedFor(t *testing.T) {
	c := newCluster(t, func(config *Config) { config.Limits.Upload = time.Millisecond })
	conn := dial(t, c)
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: example.com\r\nAuthorization: Bearer %s\r\nContent-Length: 100\r\n\r\n{", configMapsPath, adminToken)
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(answer.Body)
	if answer.StatusCode != http.StatusRequestTimeout || !strings.Contains(string(body), `"kind":"Status"`) || err != nil {
		t.Errorf("got %s %s, %v", answer.Status, body, err)
	}
	// The same over HTTP/2, where the connection serves others on.
	s := c.serve()
	r, w := io.Pipe()
	defer w.Close()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+configMapsPath, r)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+adminToken)
	answer, err = s.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusRequestTimeout || answer.ProtoMajor != 2 {
		t.Errorf("got %s over %s", answer.Status, answer.Proto)
	}
}

func TestHeadersAreBounded(t *testing.T) {
	c := newCluster(t, nil)
	conn := dial(t, c)
	fmt.Fprintf(conn, "GET /version HTTP/1.1\r\nHost: example.com\r\nX: %s\r\n\r\n", strings.Repeat("x", 40<<10))
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || answer.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("got %v, %v", answer, err)
	}
}

func TestSilentConnectionsAreClosed(t *testing.T) {
	c := newCluster(t, nil)
	s := c.serveWith(func(server *http.Server) {
		if server.ReadHeaderTimeout == 0 || server.IdleTimeout == 0 {
			t.Errorf("got %+v", server)
		}
		server.ReadHeaderTimeout = time.Millisecond
	})
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if n, err := conn.Read(make([]byte, 1)); err == nil {
		t.Errorf("got %d bytes", n)
	}
}

func TestALargeBodyIsAnswered(t *testing.T) {
	c := newCluster(t, nil)
	s := c.serve()
	for range 5 {
		q := call{method: http.MethodPost, path: configMapsPath, body: strings.Repeat("x", 5<<20)}
		r := q.request()
		r.RequestURI, r.URL.Scheme, r.URL.Host = "", "https", s.Listener.Addr().String()
		answer, err := s.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if answer.StatusCode != http.StatusRequestEntityTooLarge || !strings.Contains(string(body), "limit is 3145728") || err != nil {
			t.Errorf("got %s %s, %v", answer.Status, body, err)
		}
	}
}
