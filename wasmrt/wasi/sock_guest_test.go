//go:build linux

package wasi

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	gonet "net"
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"edgepod/wasmrt/fs"
	"edgepod/wasmrt/net"
)

// server is a guest that serves HTTP on port 8080 of a pod, while a test goes on.
type server struct {
	h      *Host
	dir    string
	out    bytes.Buffer
	client *http.Client
	wg     sync.WaitGroup
	code   uint32
	err    error
}

// serve starts a guest with a listener.
func serve(t *testing.T, wasm []byte, cfg Config) *server {
	t.Helper()
	s := &server{dir: pod(t)}
	cfg.Net, cfg.StopDescriptor, cfg.Stdout, cfg.Stderr = network(t, s.dir), true, &s.out, &s.out
	cfg.Listeners = append([]Listener{
		{Name: "http", Protocol: net.TCP, Addr: netip.MustParseAddrPort("0.0.0.0:8080")},
	}, cfg.Listeners...)
	s.h = newHost(t, cfg, fs.Config{})
	run := start(t, wasm, s.h)
	s.wg.Go(func() { s.code, _, s.err = ExitCode(run()) })
	s.client = unixClient(filepath.Join(s.dir, "tcp-8080"))
	t.Cleanup(func() {
		s.h.Terminate()
		s.wg.Wait()
		s.client.CloseIdleConnections()
	})
	return s
}

// unixClient is a client that reaches one socket.
func unixClient(socket string) *http.Client {
	return &http.Client{Transport: &http.Transport{
		MaxIdleConnsPerHost: 1000,
		DialContext: func(ctx context.Context, _, _ string) (gonet.Conn, error) {
			var d gonet.Dialer
			for {
				conn, err := d.DialContext(ctx, "unix", socket)
				// The guest has not come to its listener yet.
				if !errors.Is(err, unix.ECONNREFUSED) && !errors.Is(err, unix.EAGAIN) {
					return conn, err
				}
			}
		},
	}}
}

// get asks the server, and returns the body of its answer.
func (s *server) get(path string) (string, error) {
	resp, err := s.client.Get("http://pod" + path)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}

// load asks from several clients at once.
func (s *server) load(t *testing.T, clients, each int) {
	t.Helper()
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			for range each {
				if body, err := s.get("/"); body != "hello\n" || err != nil {
					t.Errorf("got %q, %v", body, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func TestProgramInCServes(t *testing.T) {
	wasm := buildC(t, "serve")
	for _, how := range []string{"read", "recv"} {
		s := serve(t, wasm, Config{Args: []string{"serve", how}})
		s.load(t, 20, 20)
		if !s.h.Stop() {
			t.Errorf("%s: the request was not seen", how)
		}
		s.wg.Wait()
		if s.code != 5 || s.err != nil || !strings.HasPrefix(s.out.String(), "stopped with some") {
			t.Errorf("%s: code %d, %v\n%s", how, s.code, s.err, &s.out)
		}
	}
	s := serve(t, wasm, Config{Args: []string{"serve", "block"}})
	s.load(t, 1, 20)
	if s.h.Stop() {
		t.Error("a guest that does not look has seen the request")
	}
	s.wg.Wait()
	if s.code != CodeStopped || s.err != nil {
		t.Errorf("code %d, %v", s.code, s.err)
	}
}

func TestProgramInRustServes(t *testing.T) {
	second := Listener{Protocol: net.UDP, Addr: netip.MustParseAddrPort("127.0.0.1:53")}
	s := serve(t, buildRust(t, "serve"), Config{Listeners: []Listener{second}})
	s.load(t, 1, 20)
	if body, err := s.get("/end"); body != "hello\n" || err != nil {
		t.Errorf("got %q, %v", body, err)
	}
	s.wg.Wait()
	if s.code != 0 || s.err != nil || s.out.String() != "end\n" {
		t.Errorf("code %d, %v\n%s", s.code, s.err, &s.out)
	}
}

func TestProgramInGoServes(t *testing.T) {
	s := serve(t, buildGo(t, "serve"), Config{NonblockListeners: true})
	s.load(t, 20, 20)
	if !s.h.Stop() {
		t.Error("the request was not seen")
	}
	s.wg.Wait()
	if s.code != 5 || s.err != nil || s.out.String() != "stopped\n" {
		t.Errorf("code %d, %v\n%s", s.code, s.err, &s.out)
	}
}

// TestListenersRefuseUntilTheGuestLooks holds that what waits for a port waits for the guest.
func TestListenersRefuseUntilTheGuestLooks(t *testing.T) {
	dir := pod(t)
	g := newGuest(t, Config{
		Net: network(t, dir), Env: []string{"LISTEN_FDS=9", "A=1"},
		Listeners: []Listener{
			{Name: "one", Protocol: net.TCP, Addr: netip.MustParseAddrPort("0.0.0.0:80")},
			{Protocol: net.TCP, Addr: netip.MustParseAddrPort("127.0.0.1:81")},
		},
	}, "")
	if got, want := fmt.Sprint(g.h.cfg.Env), "[A=1 EDGEPOD_LISTEN_FD=3 LISTEN_FDS=2 LISTEN_FDNAMES=one:unknown]"; got != want {
		t.Errorf("environment is %s, want %s", got, want)
	}
	client := g.beside(dir)
	dial := func(to string) fs.Errno { return client.connect(client.socket(familyINET4, typeStream), to) }
	for _, to := range []string{"127.0.0.1:80", "127.0.0.1:81"} {
		if got := dial(to); got != fs.ConnRefused {
			t.Errorf("%s: got %v before the guest looks", to, got)
		}
	}
	g.poll(sub{typ: eventRead, fd: 3}, sub{clock: clockMonotonic})
	g.nonblock(4)
	if _, errno := g.accept(4); errno != fs.Again {
		t.Errorf("accept: %v", errno)
	}
	for _, to := range []string{"127.0.0.1:80", "127.0.0.1:81"} {
		if got := dial(to); got != 0 {
			t.Errorf("%s: got %v", to, got)
		}
	}
	if typ, _, base, _ := g.fdstat(3); typ != fs.TypeSocketStream || base&rightSockAccept == 0 {
		t.Errorf("listener has type %d, rights %x", typ, base)
	}
	if got := g.poll(sub{typ: eventRead, fd: 3}, sub{typ: eventRead, fd: 4}); len(got) != 2 {
		t.Errorf("got %v", got)
	}
	_, err := New(Config{Net: network(t, dir), Listeners: []Listener{{Protocol: net.TCP, Addr: netip.MustParseAddrPort("127.0.0.1:80")}}})
	if want := "listen on TCP port 80: another container of the pod holds it"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	g.ok("fd_close", 3)
	if got := dial("127.0.0.1:80"); got != fs.ConnRefused {
		t.Errorf("got %v after the end", got)
	}
}

// TestProgramsOfBothExtensionVersions lets programs of each version talk to each other in a pod.
func TestProgramsOfBothExtensionVersions(t *testing.T) {
	programs := [][]byte{buildC(t, "extension1"), buildC(t, "extension2")}
	for i, serving := range programs {
		for j, calling := range programs {
			dir := pod(t)
			said, out := pipe(t)
			var heard, told bytes.Buffer
			server := newHost(t, Config{Args: []string{"server", "serve"}, Net: network(t, dir), Stdout: out}, fs.Config{})
			client := newHost(t, Config{Args: []string{"client", "call"}, Net: network(t, dir), Stdout: &told}, fs.Config{})
			run, call := start(t, serving, server), start(t, calling, client)
			var wg sync.WaitGroup
			wg.Go(func() {
				if code, _, err := ExitCode(run()); code != 0 || err != nil {
					t.Errorf("version %d serves: code %d, %v", i+1, code, err)
					client.Terminate()
				}
				out.Close()
			})
			if _, err := io.CopyN(&heard, said, int64(len("ready\n"))); err != nil {
				t.Fatalf("version %d says %q, %v", i+1, &heard, err)
			}
			code, _, err := ExitCode(call())
			if want := "HELLO\nHELLO\nEND\nEND\n"; code != 0 || err != nil || told.String() != want {
				t.Errorf("version %d calls %d: code %d, %v\n%s", j+1, i+1, code, err, &told)
				server.Terminate()
			}
			wg.Wait()
			if _, err := io.Copy(&heard, said); err != nil || heard.String() != "ready\nend\n" {
				t.Errorf("version %d says %q, %v", i+1, &heard, err)
			}
		}
	}
}

// TestProgramInGoReadsAnInputThatIsOpen holds that a goroutine that waits for input leaves the others alone, and sees the
// stop request.
func TestProgramInGoReadsAnInputThatIsOpen(t *testing.T) {
	in, w := pipe(t)
	said, out := pipe(t)
	h := newHost(t, Config{
		Args: []string{"stdin"}, Stdin: in, Stdout: out, Stderr: out, StdinOpen: true, NonblockListeners: true,
	}, fs.Config{})
	run := start(t, buildGo(t, "stdin"), h)
	var wg sync.WaitGroup
	wg.Go(func() {
		if code, _, err := ExitCode(run()); code != 0 || err != nil {
			t.Errorf("code %d, %v", code, err)
		}
		out.Close()
	})
	lines := bufio.NewReader(said)
	expect := func(want string) {
		t.Helper()
		if got, err := lines.ReadString('\n'); got != want+"\n" || err != nil {
			h.Terminate()
			t.Fatalf("got %q, %v, want %s", got, err, want)
		}
	}
	expect("going on")
	for _, line := range []string{"one", "two"} {
		fmt.Fprintln(w, line)
		expect("read " + line)
	}
	if !h.Stop() {
		t.Error("the request was not seen")
	}
	expect("end <nil>")
	wg.Wait()
}
