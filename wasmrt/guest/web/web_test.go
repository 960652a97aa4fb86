package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// lines is an output that may be written by many.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// site makes a folder with files of which each holds its name, a link that leads out and one that does not.
func site(t *testing.T) string {
	t.Helper()
	outside := t.TempDir()
	dir := filepath.Join(outside, "site")
	for _, name := range []string{"index.html", "a.txt", "sub/index.html", "bare/x.css", "with space.json", "../secret.txt"} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(filepath.Base(name)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for from, to := range map[string]string{
		"out.txt": "../secret.txt", "absolute.txt": filepath.Join(outside, "secret.txt"), "in.txt": "a.txt",
	} {
		if err := os.Symlink(to, filepath.Join(dir, from)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// running starts a server of a folder, or of none.
func running(t *testing.T, dir string) (s *http.Server, address string, log *lines) {
	t.Helper()
	log = &lines{}
	f := files{}
	if dir != "" {
		root, err := os.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { root.Close() })
		f.root = root
	}
	s = newServer(f, log)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	t.Cleanup(func() {
		if err := s.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		if err := <-ended; err != http.ErrServerClosed {
			t.Error(err)
		}
	})
	return s, l.Addr().String(), log
}

// exchange sends text as it is and returns all that comes until the server closes.
func exchange(t *testing.T, address, text string) string {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	return string(answer)
}

func TestFiles(t *testing.T) {
	_, address, _ := running(t, site(t))
	for _, c := range []struct {
		path   string
		status int
		kind   string
		body   string
	}{
		{"/", 200, "text/html; charset=utf-8", "index.html"},
		{"/a.txt", 200, "text/plain; charset=utf-8", "a.txt"},
		{"/a.txt?x=1", 200, "text/plain; charset=utf-8", "a.txt"},
		{"/a.txt/", 404, "", ""},
		{"/with%20space.json", 200, "application/json", "with space.json"},
		{"/sub/", 200, "text/html; charset=utf-8", "index.html"},
		{"/sub/./../a.txt", 200, "", "a.txt"},
		{"/bare/", 403, "", ""},
		{"/bare/x.css", 200, "text/css; charset=utf-8", "x.css"},
		{"/in.txt", 200, "", "a.txt"},
		{"/out.txt", 404, "", ""},
		{"/absolute.txt", 404, "", ""},
		{"/../secret.txt", 404, "", ""},
		{"/%2e%2e/secret.txt", 404, "", ""},
		{"/..%2fsecret.txt", 404, "", ""},
		{"/sub/..%2f..%2fsecret.txt", 404, "", ""},
		{"/a.txt%00", 404, "", ""},
		{"/%zz", 400, "", ""},
		{"/none", 404, "", "404 Not Found\n"},
		{"/healthz", 200, "", "ok\n"},
	} {
		text := exchange(t, address, "GET "+c.path+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		answer, err := http.ReadResponse(bufio.NewReader(strings.NewReader(text)), nil)
		if err != nil {
			t.Errorf("%s: %v\n%s", c.path, err, text)
			continue
		}
		body, _ := io.ReadAll(answer.Body)
		kind := answer.Header.Get("Content-Type")
		if answer.StatusCode != c.status || c.body != "" && string(body) != c.body || c.kind != "" && kind != c.kind {
			t.Errorf("%s: got %s\n%s", c.path, answer.Status, text)
		}
	}
}

func TestFoldersLackASlash(t *testing.T) {
	_, address, _ := running(t, site(t))
	for target, want := range map[string]string{"/sub": "/sub/", "/sub?a=b": "/sub/?a=b", "//sub": "/sub/", "/sub/../sub": "/sub/"} {
		text := exchange(t, address, "GET "+target+" HTTP/1.0\r\n\r\n")
		if !strings.HasPrefix(text, "HTTP/1.0 301 ") || !strings.Contains(text, "\r\nLocation: "+want+"\r\n") {
			t.Errorf("%s: got\n%s, want location %s", target, text, want)
		}
	}
}

func TestRanges(t *testing.T) {
	_, address, _ := running(t, site(t))
	for asked, want := range map[string]string{
		"bytes=0-1": "206 a. bytes 0-1/5", "bytes=2-": "206 txt bytes 2-4/5", "bytes=-2": "206 xt bytes 3-4/5",
		"bytes=1-99": "206 .txt bytes 1-4/5", "bytes=5-": "416 bytes */5",
	} {
		req, _ := http.NewRequest("GET", "http://"+address+"/a.txt", nil)
		req.Header.Set("Range", asked)
		answer, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		got := fmt.Sprint(answer.StatusCode, " ", string(body), " ", answer.Header.Get("Content-Range"))
		if answer.StatusCode == 416 {
			got = fmt.Sprint(answer.StatusCode, " ", answer.Header.Get("Content-Range"))
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", asked, got, want)
		}
	}
}

func TestWhatTheClientHasIsNotSentAgain(t *testing.T) {
	_, address, _ := running(t, site(t))
	first, err := http.Get("http://" + address + "/a.txt")
	if err != nil {
		t.Fatal(err)
	}
	first.Body.Close()
	for name, value := range map[string]string{
		"If-None-Match": first.Header.Get("ETag"), "If-Modified-Since": first.Header.Get("Last-Modified"),
	} {
		req, _ := http.NewRequest("GET", "http://"+address+"/a.txt", nil)
		req.Header.Set(name, value)
		answer, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != 304 {
			t.Errorf("%s: got %s", name, answer.Status)
		}
	}
}

func TestMethods(t *testing.T) {
	_, address, _ := running(t, site(t))
	head := exchange(t, address, "HEAD /a.txt HTTP/1.0\r\n\r\n")
	if !strings.HasPrefix(head, "HTTP/1.0 200 OK\r\n") || !strings.Contains(head, "Content-Length: 5\r\n") ||
		!strings.HasSuffix(head, "\r\n\r\n") {
		t.Errorf("HEAD: got\n%s", head)
	}
	post := exchange(t, address, "POST /a.txt HTTP/1.0\r\nContent-Length: 0\r\n\r\n")
	if !strings.HasPrefix(post, "HTTP/1.0 405 ") || !strings.Contains(post, "Allow: GET, HEAD") {
		t.Errorf("POST: got\n%s", post)
	}
}

func TestWithoutFiles(t *testing.T) {
	for _, dir := range []string{"", t.TempDir()} {
		_, address, _ := running(t, dir)
		if text := exchange(t, address, "GET / HTTP/1.0\r\n\r\n"); !strings.Contains(text, "It works.") {
			t.Errorf("folder %q: got\n%s", dir, text)
		}
		if text := exchange(t, address, "GET /x HTTP/1.0\r\n\r\n"); !strings.HasPrefix(text, "HTTP/1.0 404 ") {
			t.Errorf("folder %q: got\n%s", dir, text)
		}
	}
}

func TestEcho(t *testing.T) {
	_, address, _ := running(t, "")
	big := strings.Repeat("0123456789", 30000)
	for name, body := range map[string]io.Reader{
		"known length": strings.NewReader(big), "pieces": io.MultiReader(strings.NewReader(big[:7]), strings.NewReader(big[7:])),
	} {
		req, _ := http.NewRequest("PUT", "http://"+address+"/echo?q", body)
		req.Header.Set("X-Mine", "yes")
		answer, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		head, echoed, _ := strings.Cut(string(got), "\n\n")
		if err != nil || echoed != big || !strings.HasPrefix(head, "PUT /echo?q HTTP/1.1\n") || !strings.Contains(head, "\nX-Mine: yes") {
			t.Errorf("%s: %v, %d bytes after\n%s", name, err, len(echoed), head)
		}
	}
}

func TestLog(t *testing.T) {
	s, address, log := running(t, site(t))
	exchange(t, address, "GET /a.txt HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	if err := s.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	line := log.String()
	stamp := line[strings.IndexByte(line, '[')+1 : strings.IndexByte(line, ']')]
	if _, err := time.Parse("02/Jan/2006:15:04:05 -0700", stamp); err != nil {
		t.Error(err)
	}
	if got := strings.Replace(line, stamp, "TIME", 1); got != "127.0.0.1 - - [TIME] \"GET /a.txt HTTP/1.1\" 200 5\n" {
		t.Errorf("got %q", line)
	}
	if got := printable("a\"b\\c\n\x80"); got != `a\"b\\c\n\ufffd` {
		t.Errorf("printable: %s", got)
	}
}

func TestCommandLine(t *testing.T) {
	for _, c := range []struct {
		args []string
		port string
		want options
		bad  bool
	}{
		{want: options{listen: ":80"}},
		{port: "8080", want: options{listen: ":8080"}},
		{args: []string{"--listen", "localhost:1", "/data"}, port: "8080", want: options{"localhost:1", "/data"}},
		{args: []string{"--listen=81"}, want: options{listen: ":81"}},
		{args: []string{"-g", "daemon off;"}, want: options{listen: ":80"}},
		{args: []string{"--listen"}, bad: true},
		{args: []string{"--other"}, bad: true},
		{args: []string{"/a", "/b"}, bad: true},
	} {
		got, err := parse(c.args, func(string) string { return c.port })
		if (err != nil) != c.bad || !c.bad && got != c.want {
			t.Errorf("%q: got %v, %v", c.args, got, err)
		}
	}
}
