package edgepod

import (
	"io/fs"
	"testing"

	"edgepod/wasmrt/guest"
	"edgepod/wasmrt/guest/guesttest"
)

// build compiles a program of testdata.
func build(t *testing.T, name string) []byte {
	t.Helper()
	return guesttest.Go(t, "./testdata/"+name)
}

func TestOwnSockets(t *testing.T) {
	g := guesttest.NewPod(t, "own").Start(build(t, "own"), guesttest.Container{Args: []string{"own"}})
	g.Await("all well\n")
	g.AwaitStop()
	if code, text := g.Wait(); code != 0 || text != "all well\nthe pod is asked to stop\n" {
		t.Errorf("code %d\n%s", code, text)
	}
}

func TestHandedOverListeners(t *testing.T) {
	pod := guesttest.NewPod(t, "handed")
	server := pod.Start(build(t, "handed"), guesttest.Container{
		Args: []string{"handed"}, Nonblock: true,
		Ports: []guesttest.Port{{Name: "http", Protocol: "TCP", Number: 80}, {Name: "admin", Protocol: "TCP", Number: 81}},
	})
	server.Await("no port is called \"other\", but [\"http\" \"admin\"]\n")
	server.AwaitSeesStop()
	toolbox, err := fs.ReadFile(guest.Modules(), "toolbox.wasm")
	if err != nil {
		t.Fatal(err)
	}
	for port, name := range map[string]string{"80": "http", "81": "admin"} {
		if _, text := pod.Start(toolbox, guesttest.Container{Args: []string{"nc", "localhost", port}}).Wait(); text != "hello from "+name+"\n" {
			t.Errorf("port %s: got %q", port, text)
		}
	}
	server.Stop()
	if code, text := server.Wait(); code != 0 || text != "no port is called \"other\", but [\"http\" \"admin\"]\ngoodbye\n" {
		t.Errorf("code %d\n%s", code, text)
	}
}
