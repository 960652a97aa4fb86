//go:build linux

// Package guesttest runs modules in a test, with the system calls that pods have: each in a process of its own, which has none of
// the walls around a container. Where a test has a module's source alone, it is compiled here too.
package guesttest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// Broken is the exit code of the process where the guest could not be run.
const Broken = 250

// Pod is what the containers of one pod share.
type Pod struct {
	t        testing.TB
	hostname string
	network  string
	program  string
}

// NewPod makes a pod whose folders are gone with the test.
func NewPod(t testing.TB, hostname string) *Pod {
	t.Helper()
	// It is built without the race detector, with which the compiler of modules takes ten times as long.
	program := filepath.Join(t.TempDir(), "run")
	build := exec.Command("go", "build", "-tags", "grpcnotrace", "-o", program, "edgepod/wasmrt/guest/guesttest/run")
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return &Pod{t: t, hostname: hostname, network: Dir(t), program: program}
}

// Dir makes a folder for a pod's network, with a path that is short enough for sockets. It is gone with the test.
func Dir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "pod")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// Container is what one container's guest is started with.
type Container struct {
	// Args are the arguments, its own name first.
	Args []string
	Env  []string
	// Root is the folder it sees as "/"; "" is one with nothing but etc/hostname.
	Root string
	// Ports are the listeners that it is handed where it makes none of its own.
	Ports []Port
	// Nonblock makes these such that do not wait, as for guests in Go.
	Nonblock bool
}

// Port is a port of a container; Protocol is TCP or UDP.
type Port struct {
	Name     string
	Protocol string
	Number   uint16
}

// Description is what the process is told of its guest.
type Description struct {
	Container
	Module, Network, Hostname string
}

// Guest is a module that runs.
type Guest struct {
	t      testing.TB
	orders io.WriteCloser
	seen   *os.File
	output *output
	ended  chan struct{}
	code   int
}

// Start runs a module. It is ended with the test, at the latest.
func (p *Pod) Start(wasm []byte, c Container) *Guest {
	p.t.Helper()
	d := Description{Container: c, Module: filepath.Join(p.t.TempDir(), "module.wasm"), Network: p.network, Hostname: p.hostname}
	if err := os.WriteFile(d.Module, wasm, 0o644); err != nil {
		p.t.Fatal(err)
	}
	if d.Root == "" {
		d.Root = p.root()
	}
	text, err := json.Marshal(d)
	if err != nil {
		p.t.Fatal(err)
	}
	seen, report, err := os.Pipe()
	if err != nil {
		p.t.Fatal(err)
	}
	cmd := exec.Command(p.program, string(text))
	g := &Guest{t: p.t, seen: seen, output: newOutput(), ended: make(chan struct{})}
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = g.output, g.output, []*os.File{report}
	if g.orders, err = cmd.StdinPipe(); err != nil {
		p.t.Fatal(err)
	}
	err = cmd.Start()
	if err = errors.Join(err, report.Close()); err != nil {
		p.t.Fatal(err)
	}
	go func() {
		defer close(g.ended)
		_ = cmd.Wait() // its code tells
		g.code = cmd.ProcessState.ExitCode()
		g.output.end()
	}()
	p.t.Cleanup(func() {
		_ = g.orders.Close() // the process may be gone
		<-g.ended
		_ = seen.Close()
	})
	return g
}

// root makes a folder for a guest that needs none.
func (p *Pod) root() string {
	dir := p.t.TempDir()
	err := os.Mkdir(filepath.Join(dir, "etc"), 0o755)
	err = errors.Join(err, os.WriteFile(filepath.Join(dir, "etc", "hostname"), []byte(p.hostname+"\n"), 0o644))
	if err != nil {
		p.t.Fatal(err)
	}
	return dir
}

// AwaitSeesStop waits until the guest would see a request to stop.
func (g *Guest) AwaitSeesStop() {
	g.t.Helper()
	_, err := io.WriteString(g.orders, "await\n")
	if err == nil {
		_, err = io.ReadFull(g.seen, make([]byte, 1))
	}
	if err != nil {
		<-g.ended
		g.t.Fatalf("the guest ended by itself, with code %d\n%s", g.code, g.output)
	}
}

// AwaitStop waits until the guest would see a request to stop, and asks it.
func (g *Guest) AwaitStop() {
	g.t.Helper()
	g.AwaitSeesStop()
	g.Stop()
}

// Stop asks the guest to stop, as the deletion of its pod does: one that would not see that is ended.
func (g *Guest) Stop() {
	_, _ = io.WriteString(g.orders, "stop\n") // a guest that has ended by itself is asked too late
}

// Wait waits for the guest's end and returns its exit code and all that it wrote.
func (g *Guest) Wait() (code int, text string) {
	g.t.Helper()
	<-g.ended
	if g.code == Broken {
		g.t.Errorf("the guest could not be run: %s", g.output)
	}
	return g.code, g.output.String()
}

// Await waits until the guest has written text.
func (g *Guest) Await(text string) {
	g.t.Helper()
	if !g.output.await(text) {
		g.t.Fatalf("the guest ended without writing %q:\n%s", text, g.output)
	}
}

// output collects what a guest writes.
type output struct {
	mu    sync.Mutex
	more  *sync.Cond
	text  bytes.Buffer
	ended bool
}

func newOutput() *output {
	o := &output{}
	o.more = sync.NewCond(&o.mu)
	return o
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.more.Broadcast()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

func (o *output) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = true
	o.more.Broadcast()
}

func (o *output) await(text string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for !strings.Contains(o.text.String(), text) {
		if o.ended {
			return false
		}
		o.more.Wait()
	}
	return true
}
