package overlay_test

import (
	"errors"
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
	return guesttest.GoWithSockets(t, "./testdata/"+name)
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
	server.AwaitStop()
	code, text = server.Wait()
	if want := "listening on [::]:8080\nstopping: terminated signal received\ngoodbye\n"; code != 0 || text != want {
		t.Errorf("server: code %d, got\n%s, want\n%s", code, text, want)
	}
}

// TestHandedOverPorts has a program answer on the ports that it was started with.
func TestHandedOverPorts(t *testing.T) {
	pod := guesttest.NewPod(t, "web-0")
	server := pod.Start(build(t, "handed"), guesttest.Container{Args: []string{"handed"}, Ports: []guesttest.Port{
		{Name: "http", Protocol: "TCP", Number: 80}, {Name: "dns", Protocol: "UDP", Number: 53},
	}})
	server.Await("ready\n")
	code, text := pod.Start(build(t, "client"), guesttest.Container{Args: []string{"client"}}).Wait()
	if code != 0 || text != "HELLO\nHELLO\n" {
		t.Errorf("client: code %d\n%s", code, text)
	}
	server.AwaitStop()
	code, text = server.Wait()
	if want := "tcp at 0.0.0.0:80\nudp at 0.0.0.0:53\nready\ngoodbye\n"; code != 0 || text != want {
		t.Errorf("server: code %d\n%s", code, text)
	}
}

// TestOlderGo builds and runs the same programs with the release before, which the go command fetches.
func TestOlderGo(t *testing.T) {
	pod := guesttest.NewPod(t, "web-0") // is built with the Go of this repository
	t.Setenv("GOTOOLCHAIN", "go1.25.5")
	code, text := pod.Start(buildElsewhere(t, "sockets"), guesttest.Container{Args: []string{"sockets"}}).Wait()
	if code != 0 || strings.Count(text, ": ok\n") != strings.Count(text, "\n") {
		t.Errorf("code %d\n%s", code, text)
	}
	server := pod.Start(buildElsewhere(t, "server"), guesttest.Container{Args: []string{"server"}})
	server.Await("listening on [::]:8080\n")
	server.AwaitStop()
	if code, text := server.Wait(); code != 0 || !strings.HasSuffix(text, "\ngoodbye\n") {
		t.Errorf("code %d\n%s", code, text)
	}
}

// buildElsewhere compiles a program of testdata in a module of its own, which asks for no newer Go.
func buildElsewhere(t *testing.T, name string) []byte {
	t.Helper()
	dir := t.TempDir()
	err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", name)))
	err = errors.Join(err, os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module "+name+"\n\ngo 1.25\n"), 0o644))
	if err != nil {
		t.Fatal(err)
	}
	if err := (overlay.Build{Dir: dir, Stdout: os.Stderr, Stderr: os.Stderr}).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	wasm, err := os.ReadFile(filepath.Join(dir, name+".wasm"))
	if err != nil {
		t.Fatal(err)
	}
	return wasm
}
