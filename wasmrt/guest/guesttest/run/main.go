//go:build linux

// Command run runs one module for package guesttest, with the system calls that pods have. Its argument is the guest's description
// as JSON, its output what the guest writes, and its exit code the guest's. It is told what to do by its input, line by line:
//
//	await   writes a byte to descriptor 3 as soon as the guest would see a request to stop
//	stop    asks the guest to stop
//
// The end of the input ends the guest.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"

	"edgepod/wasmrt/engine"
	"edgepod/wasmrt/engine/wazero"
	"edgepod/wasmrt/fs"
	"edgepod/wasmrt/guest/guesttest"
	"edgepod/wasmrt/net"
	"edgepod/wasmrt/wasi"
)

func main() {
	var d guesttest.Description
	if err := json.Unmarshal([]byte(os.Args[1]), &d); err != nil {
		fail(err)
	}
	code, err := run(d)
	if err != nil {
		fail(err)
	}
	os.Exit(int(code))
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "run:", err)
	os.Exit(guesttest.Broken)
}

func run(d guesttest.Description) (code uint32, err error) {
	ctx := context.Background()
	wasm, err := os.ReadFile(d.Module)
	if err != nil {
		return 0, err
	}
	e := wazero.New(ctx, engine.Config{})
	module, err := e.Compile(ctx, wasm)
	if err != nil {
		return 0, err
	}
	network, err := net.Open(net.Config{Dir: d.Network, Hostname: d.Hostname})
	if err != nil {
		return 0, err
	}
	host, err := newHost(d, module.Imports(), network)
	if err != nil {
		return 0, err
	}
	guest, err := host.Link(ctx, module)
	if err != nil {
		return 0, err
	}
	if err := guest.Start(ctx); err != nil {
		return 0, err
	}
	go obey(host)
	_, err = guest.Call(ctx, "_start")
	code, _, err = wasi.ExitCode(err)
	// The host stays open: what obeys may be using it, and the process ends.
	return code, err
}

func newHost(d guesttest.Description, imports []wasi.Import, network *net.Local) (*wasi.Host, error) {
	tree, err := fs.New(fs.Config{Root: d.Root})
	if err != nil {
		return nil, err
	}
	cfg := wasi.Config{
		Args: d.Args, Env: d.Env, Stdout: os.Stdout, Stderr: os.Stdout, FS: tree, StopDescriptor: true,
		Net: network, NonblockListeners: d.Nonblock,
	}
	if wasi.TakesListeners(imports) {
		for _, port := range d.Ports {
			cfg.Listeners = append(cfg.Listeners, wasi.Listener{
				Name: port.Name, Protocol: net.Protocol(port.Protocol), Addr: netip.AddrPortFrom(netip.IPv4Unspecified(), port.Number),
			})
		}
	}
	return wasi.New(cfg)
}

// obey does what the input says.
func obey(host *wasi.Host) {
	seen := os.NewFile(3, "seen")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		switch in.Text() {
		case "await":
			for !host.SeesStop() {
				runtime.Gosched()
			}
			if _, err := seen.Write([]byte{1}); err != nil {
				fail(err)
			}
		case "stop":
			host.Stop()
		default:
			fail(errors.New("unknown order " + in.Text()))
		}
	}
	host.Terminate()
}
