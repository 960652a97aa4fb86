package process_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"edgepod/wasmrt/process"
	"edgepod/wasmrt/sandbox"
)

// serve starts a container that serves one connection on port 8080.
func serve(t *testing.T, r sandbox.Runtime, s sandbox.Sandbox, id string) sandbox.ContainerSpec {
	t.Helper()
	c := spec(t, r, id, "serve.wasm")
	c.Ports = []sandbox.Port{
		{Name: "http", Protocol: "TCP", Number: 8080}, {Protocol: "UDP", Number: 53}, {Name: "again", Protocol: "TCP", Number: 8080},
	}
	start(t, s, c)
	return c
}

// call runs a container that says something to a server, and returns what it printed.
func call(t *testing.T, r sandbox.Runtime, s sandbox.Sandbox, id, what string) string {
	t.Helper()
	c := spec(t, r, id, "call.wasm")
	c.Args = []string{"call", "8080", what}
	start(t, s, c)
	await(t, s, id)
	return logged(t, c.Log.Path)
}

func TestContainersOfAPodShareItsLocalhost(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir)
	s, other := create(t, r, "pod1"), create(t, r, "pod2")
	info, err := os.Stat(filepath.Join(dir, "sandboxes", "pod1", "net"))
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Fatalf("folder of the network: %v, %v; want mode 0700", info, err)
	}
	// Each server finds the port free that the one before has held.
	for _, id := range []string{"first", "second"} {
		server := serve(t, r, s, id)
		awaitOutput(t, server.Log.Path, "2 http:unknown\n")
		const refused = "error 14\n"
		if got := call(t, r, other, id+"-elsewhere", "hello"); got != refused {
			t.Errorf("call from another pod: %q, want %q", got, refused)
		}
		// Until the server accepts, calls are refused.
		got := call(t, r, s, id+"-call", "hello")
		for try := 0; got == refused && try < 100; try++ {
			got = call(t, r, s, id+"-call-"+itoa(try), "hello")
		}
		if got != "you said hello\n" {
			t.Errorf("call: %q", got)
		}
		if exit := await(t, s, id); exit.Code != 0 {
			t.Errorf("server: %+v", exit)
		}
	}
}

func TestPortIsHeldByOneContainerAtATime(t *testing.T) {
	r := open(t, t.TempDir())
	s := create(t, r, "pod1")
	serve(t, r, s, "first")
	c := spec(t, r, "second", "serve.wasm")
	c.Ports = []sandbox.Port{{Protocol: "TCP", Number: 8080}}
	if _, err := s.Start(t.Context(), c); err == nil {
		t.Error("two containers hold one port")
	}
	if err := s.Stop(t.Context(), "first", time.Minute); err != nil {
		t.Fatal(err)
	}
	if exit := await(t, s, "first"); exit.Code != 143 {
		t.Errorf("server that waits for a connection, after stop: %+v", exit)
	}
	start(t, s, c)
}

// TestContainersMakeTheirOwnSockets lets a container listen, and another call it, over TCP and UDP, each in its jail. The
// port of one that is killed can be had at once.
func TestContainersMakeTheirOwnSockets(t *testing.T) {
	r := open(t, t.TempDir())
	s := create(t, r, "pod1")
	killed := spec(t, r, "killed", "extension.wasm", "serve")
	status := start(t, s, killed)
	awaitOutput(t, killed.Log.Path, "ready\n")
	if err := syscall.Kill(status.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	await(t, s, "killed")
	server, client := spec(t, r, "server", "extension.wasm", "serve"), spec(t, r, "client", "extension.wasm", "call")
	start(t, s, server)
	awaitOutput(t, server.Log.Path, "ready\n")
	start(t, s, client)
	exit := await(t, s, "client")
	if got, want := logged(t, client.Log.Path), "HELLO\nHELLO\nEND\nEND\n"; exit.Code != 0 || got != want {
		t.Errorf("client: %+v\n%s", exit, got)
	}
	if exit := await(t, s, "server"); exit.Code != 0 {
		t.Errorf("server: %+v\n%s", exit, logged(t, server.Log.Path))
	}
}

// TestNetworkWithoutAJail runs containers in this very program, which may be built so that it can't be jailed.
func TestNetworkWithoutAJail(t *testing.T) {
	r := open(t, t.TempDir(), func(c *process.Config) { c.ChildPath = "/proc/self/exe" })
	s := create(t, r, "pod1")
	server := serve(t, r, s, "server")
	awaitOutput(t, server.Log.Path, "2 http:unknown\n")
	got := ""
	for try := 0; got != "you said hello\n" && try < 100; try++ {
		got = call(t, r, s, "call-"+itoa(try), "hello")
	}
	if got != "you said hello\n" {
		t.Errorf("call: %q", got)
	}
}
