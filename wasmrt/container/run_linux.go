package container

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"edgepod/wasmrt/compile"
	"edgepod/wasmrt/engine"
	"edgepod/wasmrt/engine/wazero"
	"edgepod/wasmrt/fs"
	"edgepod/wasmrt/harden"
	"edgepod/wasmrt/net"
	"edgepod/wasmrt/sandbox"
	"edgepod/wasmrt/wasi"
)

// maxFiles bounds the process's descriptors, guestFiles those of its guest: a look-up holds some more for a moment, and the
// process opens files of its own.
const (
	maxFiles   = 2048
	guestFiles = 960
)

// run is JobRun.
func run(req Request, out *os.File) error {
	err := join(req.Join)
	if err == nil {
		err = start(req, out)
	}
	if err != nil {
		answer(out, Answer{Failure: err.Error()})
	}
	return err
}

func start(req Request, out *os.File) error {
	end, err := newEnding(req)
	if err != nil {
		return err
	}
	return end.load(req, out)
}

// load prepares everything, gives up the process's rights and runs the guest. It returns only if the guest cannot be run.
func (e *ending) load(req Request, out *os.File) error {
	ctx := context.Background()
	var err error
	if e.code, err = compile.Hold(req.Code); err != nil {
		return err
	}
	tree, err := openTree(req)
	if err != nil {
		return err
	}
	module, err := load(ctx, req)
	if err != nil {
		return err
	}
	keep := hardening(req)
	makeRoomForDatagrams(req)
	layers := harden.Confine(keep)
	host, err := newHost(req, e.log, tree, module.Imports())
	if err != nil {
		return err
	}
	guest, err := host.Link(ctx, module)
	if err != nil {
		return err
	}
	e.stopOnRequest(host)
	layers = append(layers, harden.Seal(keep))
	quiet()
	e.startedAt = time.Now()
	if err := e.writeJSON(StartFile, Started{StartedAt: e.startedAt}); err != nil {
		return fmt.Errorf("write start record: %w", err)
	}
	answer(out, Answer{StartedAt: e.startedAt, Layers: layers})
	e.finish(e.exitOf(call(ctx, guest)))
	return nil
}

// stopOnRequest passes stop requests on, until the process ends. A guest that does not look for them ends at once,
// whatever it is doing, like a Unix process without a handler.
func (e *ending) stopOnRequest(host *wasi.Host) {
	requests := make(chan os.Signal, 1)
	signal.Notify(requests, syscall.SIGTERM)
	go func() {
		for range requests {
			if !host.Stop() {
				e.finish(stopped())
			}
		}
	}()
}

// makeRoomForDatagrams lets a socket of the pod hold more datagrams than the kernel's ten before more are dropped. Without
// a network namespace of its own that would be the machine's setting, and stays.
func makeRoomForDatagrams(req Request) {
	if req.OwnNetwork {
		_ = os.WriteFile("/proc/sys/net/unix/max_dgram_qlen", []byte("512"), 0) // else the kernel's own number stands
	}
}

// openTree opens the guest's files.
func openTree(req Request) (*fs.Tree, error) {
	spec := req.Container
	cfg := fs.Config{Root: req.Root, RootReadOnly: spec.ReadOnlyRoot}
	for _, m := range spec.Mounts {
		cfg.Mounts = append(cfg.Mounts, fs.Mount{Source: m.Source, Target: m.Target, ReadOnly: m.ReadOnly})
	}
	if target := spec.TerminationMessagePath; target != "" && !mounted(spec.Mounts, target) {
		cfg.Mounts = append(cfg.Mounts, fs.Mount{Source: filepath.Join(req.Out, MessageFile), Target: target})
	}
	for _, device := range devices(spec.Mounts) {
		cfg.Mounts = append(cfg.Mounts, fs.Mount{Source: device, Target: device})
	}
	tree, err := fs.New(cfg)
	if err != nil {
		return nil, fmt.Errorf("prepare the guest's files: %w", err)
	}
	return tree, nil
}

// devices are those that programs expect to find, where the machine has them and the pod has mounted nothing in their place.
func devices(mounts []sandbox.Mount) (out []string) {
	if mounted(mounts, "/dev") {
		return nil
	}
	for _, name := range []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"} {
		info, err := os.Stat(name)
		if err == nil && info.Mode().Type() == os.ModeDevice|os.ModeCharDevice && !mounted(mounts, name) {
			out = append(out, name)
		}
	}
	return out
}

// newHost opens the pod's network and makes the guest's world. Sockets are made as the user that the process has become,
// in its working directory, which is the network's folder.
func newHost(req Request, log *Log, tree *fs.Tree, imports []wasi.Import) (*wasi.Host, error) {
	spec := req.Container
	env := spec.Env
	if spec.WorkingDir != "" {
		env = append(env[:len(env):len(env)], "PWD="+spec.WorkingDir)
	}
	network, err := net.Open(net.Config{Dir: ".", Hostname: req.Hostname})
	if err != nil {
		return nil, err
	}
	cfg := wasi.Config{
		Args: spec.Args, Env: env, FS: tree, MaxFiles: guestFiles,
		Stdout: log.Stream("stdout"), Stderr: log.Stream("stderr"), StdinOpen: spec.Stdin, StopDescriptor: true,
		Net: network, NonblockListeners: req.Language == "go",
	}
	if wasi.TakesListeners(imports) {
		cfg.Listeners = listeners(spec.Ports)
	}
	host, err := wasi.New(cfg)
	if err != nil {
		return nil, fmt.Errorf("prepare the guest: %w", err)
	}
	return host, nil
}

// listeners are the declared ports, on every address of the pod. One that is declared twice is one.
func listeners(ports []sandbox.Port) (out []wasi.Listener) {
	type key struct {
		protocol string
		number   uint16
	}
	declared := map[key]bool{}
	for _, p := range ports {
		k := key{p.Protocol, p.Number}
		if declared[k] {
			continue
		}
		declared[k] = true
		out = append(out, wasi.Listener{
			Name: p.Name, Protocol: net.Protocol(p.Protocol), Addr: netip.AddrPortFrom(netip.IPv4Unspecified(), p.Number),
		})
	}
	return out
}

func mounted(mounts []sandbox.Mount, target string) bool {
	for _, m := range mounts {
		if filepath.Clean(m.Target) == filepath.Clean(target) {
			return true
		}
	}
	return false
}

// load takes up the module's code.
func load(ctx context.Context, req Request) (engine.Module, error) {
	_, module, err := wazero.Load(ctx, engine.Config{Pages: req.Pages, Memory: allocator{}}, req.Code)
	if refused := (*engine.RefusedError)(nil); errors.As(err, &refused) {
		return nil, fmt.Errorf("the module cannot be run with this memory limit, which leaves it %d MiB: %w", req.Pages/16, refused.Err)
	}
	return module, err
}

// call runs the guest to its end.
func call(ctx context.Context, guest engine.Guest) error {
	if err := guest.Start(ctx); err != nil {
		return err
	}
	_, err := guest.Call(ctx, "_start")
	return err
}

// hardening is what a container's process keeps.
func hardening(req Request) harden.Options {
	o := harden.Options{
		UID: req.UID, GID: req.GID, UserNamespace: req.UserNamespace,
		Writable: []string{req.Out}, Jail: req.Net, Sockets: true, Files: maxFiles, Data: req.Data, OOMScore: 500,
	}
	if req.Container.Log.Path != "" {
		o.Writable = append(o.Writable, filepath.Dir(req.Container.Log.Path))
	}
	switch {
	case req.Root == "":
	case req.Container.ReadOnlyRoot:
		o.ReadOnly = append(o.ReadOnly, req.Root)
	default:
		o.Writable = append(o.Writable, req.Root)
	}
	o.Writable = append(o.Writable, devices(req.Container.Mounts)...)
	for _, m := range req.Container.Mounts {
		// A file is opened by its name beneath its folder, and may be replaced there by renaming.
		source := m.Source
		if info, err := os.Stat(source); err == nil && !info.IsDir() && m.ReadOnly {
			source = filepath.Dir(source)
		}
		if m.ReadOnly {
			o.ReadOnly = append(o.ReadOnly, source)
			continue
		}
		o.Writable = append(o.Writable, source)
	}
	return o
}
