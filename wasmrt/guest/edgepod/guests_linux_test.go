package edgepod

import (
	"io/fs"
	"testing"

	"edgepod/wasmrt/guest"
	"edgepod/wasmrt/guest/guesttest"
)

// builds compiles a program of testdata in both ways: the package does the same where package net has sockets too.
func builds(t *testing.T, name string) map[string][]byte {
	t.Helper()
	program := "./testdata/" + name
	return map[string][]byte{"plain": guesttest.Go(t, program), "with sockets": guesttest.GoWithSockets(t, program)}
}

func TestOwnSockets(t *testing.T) {
	for how, wasm := range builds(t, "own") {
		g := guesttest.NewPod(t, "own").Start(wasm, guesttest.Container{Args: []string{"own"}})
		g.Await("all well\n")
		g.AwaitStop()
		if code, text := g.Wait(); code != 0 || text != "all well\nthe pod is asked to stop\n" {
			t.Errorf("%s: code %d\n%s", how, code, text)
		}
	}
}

func TestHandedOverListeners(t *testing.T) {
	for how, wasm := range builds(t, "handed") {
		t.Run(how, func(t *testing.T) { testHandedOverListeners(t, wasm) })
	}
}

func testHandedOverListeners(t *testing.T, wasm []byte) {
	pod := guesttest.NewPod(t, "handed")
	server := pod.Start(wasm, guesttest.Container{
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
		_, text := pod.Start(toolbox, guesttest.Container{Args: []string{"nc", "localhost", port}}).Wait()
		if text != "hello from "+name+"\n" {
			t.Errorf("port %s: got %q", port, text)
		}
	}
	server.Stop()
	if code, text := server.Wait(); code != 0 || text != "no port is called \"other\", but [\"http\" \"admin\"]\ngoodbye\n" {
		t.Errorf("code %d\n%s", code, text)
	}
}
