//go:build linux

// Package guesttest runs modules in a test, with the system calls that pods have, and no process of their own.
package guesttest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"edgepod/wasmrt/engine"
	"edgepod/wasmrt/engine/wazero"
	"edgepod/wasmrt/fs"
	"edgepod/wasmrt/net"
	"edgepod/wasmrt/wasi"
)

// Pod is what the containers of one pod share.
type Pod struct {
	t        testing.TB
	hostname string
	// Folder is the pod's network.
	Folder string
}

// NewPod makes a pod whose folders are gone with the test.
func NewPod(t testing.TB, hostname string) *Pod {
	t.Helper()
	dir, err := os.MkdirTemp("", "pod") // a short path, as those of sockets must be
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return &Pod{t: t, hostname: hostname, Folder: dir}
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

// Port is a port of a container.
type Port struct {
	Name     string
	Protocol net.Protocol
	Number   uint16
}

// Guest is a module that runs.
type Guest struct {
	t      testing.TB
	host   *wasi.Host
	output *output
	ended  chan struct{}
	code   uint32
	err    error
}

// Start runs a module. It is ended with the test, at the latest.
func (p *Pod) Start(wasm []byte, c Container) *Guest {
	p.t.Helper()
	ctx := context.Background()
	e := wazero.New(ctx, engine.Config{})
	module, err := e.Compile(ctx, wasm)
	if err != nil {
		p.t.Fatal(err)
	}
	network, err := net.Open(net.Config{Dir: p.Folder, Hostname: p.hostname})
	if err != nil {
		p.t.Fatal(err)
	}
	g := &Guest{t: p.t, output: newOutput(), ended: make(chan struct{})}
	g.host = p.host(c, module.Imports(), network, g.output)
	functions, err := g.host.Functions(module.Imports())
	if err != nil {
		p.t.Fatal(err)
	}
	guest, err := module.Link(ctx, functions)
	if err != nil {
		p.t.Fatal(err)
	}
	if err := guest.Start(ctx); err != nil {
		p.t.Fatal(err)
	}
	go func() {
		defer close(g.ended)
		_, err := guest.Call(ctx, "_start")
		g.code, _, g.err = wasi.ExitCode(err)
		if err := errors.Join(g.host.Close(), network.Close()); err != nil {
			p.t.Error(err)
		}
		g.output.end()
	}()
	p.t.Cleanup(func() {
		g.host.Terminate()
		<-g.ended
		if err := e.Close(ctx); err != nil {
			p.t.Error(err)
		}
	})
	return g
}

func (p *Pod) host(c Container, imports []wasi.Import, network *net.Local, out io.Writer) *wasi.Host {
	p.t.Helper()
	if c.Root == "" {
		c.Root = p.t.TempDir()
		if err := os.Mkdir(filepath.Join(c.Root, "etc"), 0o755); err != nil {
			p.t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(c.Root, "etc", "hostname"), []byte(p.hostname+"\n"), 0o644); err != nil {
			p.t.Fatal(err)
		}
	}
	tree, err := fs.New(fs.Config{Root: c.Root})
	if err != nil {
		p.t.Fatal(err)
	}
	cfg := wasi.Config{
		Args: c.Args, Env: c.Env, Stdout: out, Stderr: out, FS: tree, StopDescriptor: true,
		Net: network, NonblockListeners: c.Nonblock,
	}
	if wasi.TakesListeners(imports) {
		for _, port := range c.Ports {
			cfg.Listeners = append(cfg.Listeners, wasi.Listener{
				Name: port.Name, Protocol: port.Protocol, Addr: netip.AddrPortFrom(netip.IPv4Unspecified(), port.Number),
			})
		}
	}
	h, err := wasi.New(cfg)
	if err != nil {
		p.t.Fatal(err)
	}
	return h
}

// Stop asks the guest to stop, as the deletion of its pod does, and tells whether it saw that.
func (g *Guest) Stop() bool {
	select {
	case <-g.ended:
		return false
	default:
		return g.host.Stop()
	}
}

// AwaitSeesStop waits until the guest would see a request to stop.
func (g *Guest) AwaitSeesStop() {
	g.t.Helper()
	for !g.host.SeesStop() {
		select {
		case <-g.ended:
			g.t.Fatalf("the guest ended by itself, with code %d\n%s", g.code, g.output)
		default:
			runtime.Gosched()
		}
	}
}

// AwaitStop waits until the guest would see a request to stop, and asks it.
func (g *Guest) AwaitStop() {
	g.t.Helper()
	g.AwaitSeesStop()
	g.host.Stop()
}

// Wait waits for the guest's end and returns its exit code and all that it wrote.
func (g *Guest) Wait() (code uint32, text string) {
	g.t.Helper()
	<-g.ended
	if g.err != nil {
		g.t.Errorf("the guest ended with %v", g.err)
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

// Output is what the guest has written so far.
func (g *Guest) Output() string { return g.output.String() }

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
