package guest_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"edgepod/wasmrt/guest"
	"edgepod/wasmrt/guest/guesttest"
)

// module returns one that ships in the binary.
func module(t *testing.T, name string) []byte {
	t.Helper()
	data, err := fs.ReadFile(guest.Modules(), name+".wasm")
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestHello(t *testing.T) {
	g := guesttest.NewPod(t, "hello-1").Start(module(t, "hello"), guesttest.Container{Args: []string{"hello", "a", "b c"}})
	code, text := g.Wait()
	want := "Hello from edgepod!\nThis is a WebAssembly module in the pod hello-1.\nArgument 1 is a.\nArgument 2 is b c.\n"
	if code != 0 || text != want {
		t.Errorf("code %d, got\n%s", code, text)
	}
}

// TestPause asks once the guest waits: a request that comes before ends it too, with another code.
func TestPause(t *testing.T) {
	g := guesttest.NewPod(t, "p").Start(module(t, "pause"), guesttest.Container{Args: []string{"pause"}})
	g.AwaitStop()
	if code, text := g.Wait(); code != 0 || text != "" {
		t.Errorf("code %d\n%s", code, text)
	}
}

// TestWebServer builds the server as it ships, and asks it from another container of its pod.
func TestWebServer(t *testing.T) {
	wasm := guesttest.GoWithSockets(t, "./web", "-tags=nethttpomithttp2")
	root := t.TempDir()
	for name, text := range map[string]string{"srv/index.html": "<p>index\n", "srv/a.txt": "a file\n", "secret.txt": "secret\n"} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../secret.txt", filepath.Join(root, "srv", "out.txt")); err != nil {
		t.Fatal(err)
	}
	pod := guesttest.NewPod(t, "web")
	server := pod.Start(wasm, guesttest.Container{Args: []string{"web"}, Root: root})
	server.Await("web is up on [::]:80\n")
	for path, want := range map[string]string{
		"/": "<p>index\n", "/a.txt": "a file\n", "/healthz": "ok\n", "/out.txt": "wget: server returned error: HTTP/1.0 404 Not Found\n",
	} {
		client := pod.Start(module(t, "toolbox"), guesttest.Container{Args: []string{"wget", "-qO-", "http://localhost" + path}})
		if _, text := client.Wait(); text != want {
			t.Errorf("%s: got %q, want %q", path, text, want)
		}
	}
	server.AwaitStop()
	code, text := server.Wait()
	if code != 0 || !strings.HasSuffix(text, "web has stopped\n") || !strings.Contains(text, `"GET /a.txt HTTP/1.0" 200 7`) {
		t.Errorf("code %d\n%s", code, text)
	}
}

// TestHeader builds a program with the header, in C and in C++.
func TestHeader(t *testing.T) {
	for _, language := range []string{"c", "c++"} {
		wasm := guesttest.C(t, "testdata/sockets.c", "-x", language, "-Wextra", "-Iinclude", "-fno-exceptions")
		pod := guesttest.NewPod(t, "c")
		server := pod.Start(wasm, guesttest.Container{Args: []string{"sockets", "serve"}})
		server.Await("listening\n")
		code, text := pod.Start(wasm, guesttest.Container{Args: []string{"sockets", "call"}}).Wait()
		if code != 0 || text != "HELLO\nDATAGRAM\n" {
			t.Errorf("%s: client: code %d\n%s", language, code, text)
		}
		server.AwaitStop()
		if code, text := server.Wait(); code != 0 || !strings.HasSuffix(text, "goodbye\n") {
			t.Errorf("%s: server: code %d\n%s", language, code, text)
		}
	}
}

// TestRustFile builds a program with the file for Rust.
func TestRustFile(t *testing.T) {
	wasm := guesttest.Rust(t, "testdata/sockets.rs", "--edition", "2021", "-Dwarnings")
	pod := guesttest.NewPod(t, "rust")
	server := pod.Start(wasm, guesttest.Container{Args: []string{"sockets", "serve"}})
	server.Await("listening\n")
	code, text := pod.Start(wasm, guesttest.Container{Args: []string{"sockets", "call"}}).Wait()
	if code != 0 || text != "HELLO\n" {
		t.Errorf("client: code %d\n%s", code, text)
	}
	server.AwaitStop()
	if code, text := server.Wait(); code != 0 || text != "listening\ngoodbye\n" {
		t.Errorf("server: code %d\n%s", code, text)
	}
}

// TestToolbox talks over a connection in both directions.
func TestToolbox(t *testing.T) {
	pod := guesttest.NewPod(t, "tools")
	tool := func(args ...string) *guesttest.Guest {
		return pod.Start(module(t, "toolbox"), guesttest.Container{Args: args})
	}
	server := tool("nc", "-l", "7")
	code, text := tool("wget", "-qO-", "-t", "300", "http://[::1]:7/page?q").Wait()
	if code != 1 || text != "wget: the server did not answer with HTTP\n" {
		t.Errorf("client: code %d\n%s", code, text)
	}
	want := "GET /page?q HTTP/1.0\r\nHost: [::1]:7\r\nUser-Agent: wget\r\nConnection: close\r\n\r\n"
	if code, text := server.Wait(); code != 0 || text != want {
		t.Errorf("server: code %d, got %q", code, text)
	}
	for args, want := range map[string]string{
		"wget http://localhost:1/":    "wget: can't connect to localhost port 1: Connection refused\n",
		"wget https://localhost/":     "usage: wget [-q] [-O FILE|-] [-t TRIES] http://HOST[:PORT][/PATH]\n",
		"wget http://:80/":            "usage: wget [-q] [-O FILE|-] [-t TRIES] http://HOST[:PORT][/PATH]\n",
		"nc localhost 1":              "nc: localhost: Connection refused\n",
		"nc localhost":                "usage: nc HOST PORT | nc -l PORT\n",
		"wget http://nobody.example/": "wget: can't connect to nobody.example port 80: ",
	} {
		code, text := tool(strings.Fields(args)...).Wait()
		if code == 0 || !strings.HasPrefix(text, want) {
			t.Errorf("%s: code %d, got %q, want %q", args, code, text, want)
		}
	}
}
