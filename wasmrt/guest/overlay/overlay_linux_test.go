package overlay_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"edgepod/wasmrt/guest/guesttest"
	"edgepod/wasmrt/guest/overlay"
)

// build compiles a program of testdata with the overlay.
func build(t *testing.T, name string) []byte {
	t.Helper()
	out := filepath.Join(t.TempDir(), name+".wasm")
	err := overlay.Build{
		Package: "./testdata/" + name, Output: out, Flags: []string{"-ldflags=-s -w"}, Stdout: os.Stderr, Stderr: os.Stderr,
	}.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wasm, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return wasm
}

func TestSockets(t *testing.T) {
	g := guesttest.NewPod(t, "web-0").Start(build(t, "sockets"), guesttest.Container{Args: []string{"sockets"}})
	code, text := g.Wait()
	if code != 0 {
		t.Errorf("exit code %d", code)
	}
	for line := range strings.Lines(text) {
		if !strings.HasSuffix(line, ": ok\n") {
			t.Error(strings.TrimSpace(line))
		}
	}
}

// TestServerAndClient runs the two in containers of one pod; the server ends by itself when it is asked to stop.
func TestServerAndClient(t *testing.T) {
	pod, wasm := guesttest.NewPod(t, "web-0"), build(t, "server")
	server := pod.Start(wasm, guesttest.Container{Args: []string{"server"}})
	server.Await("listening on [::]:8080\n")
	code, text := pod.Start(wasm, guesttest.Container{Args: []string{"server", "http://localhost:8080/?name=world"}}).Wait()
	if code != 0 || text != "called\n" {
		t.Errorf("client: code %d\n%s", code, text)
	}
	if !server.Stop() {
		t.Error("the server does not see requests to stop")
	}
	code, text = server.Wait()
	if want := "listening on [::]:8080\nstopping: terminated signal received\ngoodbye\n"; code != 0 || text != want {
		t.Errorf("server: code %d, got\n%s, want\n%s", code, text, want)
	}
}

// TestOlderGo builds and runs the same program with the release before, which the go command fetches.
func TestOlderGo(t *testing.T) {
	dir := t.TempDir()
	source, err := os.ReadFile("testdata/sockets/main.go")
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"main.go": source, "go.mod": []byte("module sockets\n\ngo 1.25\n")} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("GOTOOLCHAIN", "go1.25.5")
	if err := (overlay.Build{Dir: dir, Stdout: os.Stderr, Stderr: os.Stderr}).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	wasm, err := os.ReadFile(filepath.Join(dir, "sockets.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	code, text := guesttest.NewPod(t, "web-0").Start(wasm, guesttest.Container{Args: []string{"sockets"}}).Wait()
	if code != 0 || strings.Count(text, ": ok\n") != strings.Count(text, "\n") {
		t.Errorf("code %d\n%s", code, text)
	}
}
