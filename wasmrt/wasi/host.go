//go:build linux

package wasi

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"edgepod/wasmrt/fs"
	"edgepod/wasmrt/net"
)

// Config is what a guest sees of the world.
type Config struct {
	// Args are the guest's arguments, Args[0] being its name; Env holds NAME=value.
	Args []string
	Env  []string
	// Stdin is read by the guest; nil is an input that has ended. The Host closes neither it nor Stdout and Stderr.
	Stdin *os.File
	// Stdout and Stderr take the guest's output; nil discards it. An *os.File is written to and waited for through its
	// descriptor, so that a reader that stalls cannot hold up a stop request; any other writer should not block for long.
	Stdout, Stderr io.Writer
	// StdinOpen ends standard input when Stop is called, and not before where there is no Stdin: it has nothing to read
	// then. A guest that reads or polls such an input sees stop requests.
	StdinOpen bool
	// TTY tells the guest that the three are a terminal.
	TTY bool
	// FS is the guest's file tree; nil is none. The Host closes it.
	FS *fs.Tree
	// Preopens are the folders of FS that the guest starts with, as descriptors from 3 on; nil is "/" alone, which is
	// enough for C, Rust and Go, or none where FS is empty.
	Preopens []Preopen
	// StopDescriptor gives the guest a descriptor, after the preopens, on which it can wait for stop requests: it has
	// nothing to read until then, and is at its end (with hang-up) from then on. StopVariable tells its number.
	StopDescriptor bool
	// Net is what sockets are made from; nil is no network. The Host does not close it, and must be closed before it.
	Net net.Network
	// Listeners are the ports that the guest starts with, as descriptors after the preopens and before the stop
	// descriptor, in this order: for a guest that TakesListeners. ListenVariable tells the number of the first,
	// ListenCountVariable and ListenNamesVariable their count and names.
	Listeners []Listener
	// NonblockListeners makes accepting and receiving on Listeners answer that there is nothing yet, instead of waiting, and
	// so for the stop descriptor and an input that is open until then. A guest in Go has one thread and needs this; one in C
	// or Rust expects to wait.
	NonblockListeners bool
	// MaxFiles bounds the guest's descriptors; 0 is 1024.
	MaxFiles int
}

// Preopen is a folder that a guest starts with.
type Preopen struct {
	// Name is what the guest matches paths with, Path the folder in FS.
	Name string
	Path string
}

func (c *Config) validate() error {
	for _, a := range c.Args {
		if strings.ContainsRune(a, 0) {
			return fmt.Errorf("argument %q contains a zero byte", a)
		}
	}
	for _, e := range c.Env {
		if name, _, ok := strings.Cut(e, "="); !ok || name == "" || strings.ContainsRune(e, 0) {
			return fmt.Errorf("environment entry %q is not NAME=value", e)
		}
	}
	for _, l := range c.Listeners {
		if err := l.validate(); err != nil {
			return err
		}
	}
	if len(c.Listeners) > 0 && c.Net == nil {
		return errors.New("listeners without a network")
	}
	if c.MaxFiles < 0 {
		return fmt.Errorf("negative limit of descriptors: %d", c.MaxFiles)
	}
	return nil
}

// Host is the state behind one guest's system calls.
type Host struct {
	cfg   Config
	clock clock
	fds   table
	stop  stopping
	// bufs is where the buffers of a call are listed, kept for the next.
	bufs   [][]byte
	poller poller
}

// New makes a Host. It starts nothing; Close releases it, and releases FS also where New returns an error.
func New(cfg Config) (*Host, error) {
	h := &Host{cfg: cfg, stop: stopping{fd: -1}, poller: poller{set: pollSet{fd: -1}, setFrom: setFrom}}
	if err := h.open(); err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return h, nil
}

func (h *Host) open() error {
	if err := h.cfg.validate(); err != nil {
		return err
	}
	h.fds.max = h.cfg.MaxFiles
	if h.fds.max == 0 {
		h.fds.max = 1024
	}
	var err error
	if h.clock, err = newClock(); err != nil {
		return fmt.Errorf("read clock: %w", err)
	}
	if h.stop.fd, err = newEvent(); err != nil {
		return err
	}
	if err := h.openStdio(); err != nil {
		return err
	}
	if err := h.openPreopens(); err != nil {
		return err
	}
	if err := h.openListeners(); err != nil {
		return err
	}
	if h.cfg.StopDescriptor {
		return h.openStop()
	}
	return nil
}

func (h *Host) openPreopens() error {
	preopens := h.cfg.Preopens
	switch {
	case h.cfg.FS == nil:
		return nil
	case preopens == nil && !h.cfg.FS.Empty():
		preopens = []Preopen{{Name: "/", Path: "/"}}
	}
	for _, p := range preopens {
		if err := h.preopen(p); err != nil {
			return fmt.Errorf("preopen %s: %w", p.Path, err)
		}
	}
	return nil
}

// openStdio makes descriptors 0, 1 and 2.
func (h *Host) openStdio() error {
	in, err := h.newStdin()
	if err != nil {
		return fmt.Errorf("standard input: %w", err)
	}
	d := &descriptor{object: in, base: inputRights}
	if h.cfg.StdinOpen {
		d.flags = h.patience()
	}
	if _, err := h.add(d); err != nil {
		return fmt.Errorf("standard input: %w", err)
	}
	for _, w := range []io.Writer{h.cfg.Stdout, h.cfg.Stderr} {
		out, err := newOutput(w, h.cfg.TTY)
		if err != nil {
			return fmt.Errorf("output: %w", err)
		}
		if _, err := h.add(&descriptor{object: out, base: outputRights}); err != nil {
			return fmt.Errorf("output: %w", err)
		}
	}
	return nil
}

// newStdin makes the object of descriptor 0.
func (h *Host) newStdin() (object, error) {
	in, err := newInput(h.cfg.Stdin, h.cfg.TTY)
	if err != nil || !h.cfg.StdinOpen {
		return in, err
	}
	n, err := h.newNotice()
	if err != nil {
		return nil, err
	}
	return newOpenInput(in, n)
}

// preopen opens a folder that the guest starts with.
func (h *Host) preopen(p Preopen) error {
	dir := h.cfg.FS.OpenRoot()
	if path := strings.Trim(p.Path, "/"); path != "" {
		root := dir
		_, sub, err := root.Open(path, fs.OpenFlags{Directory: true, Follow: true, Read: true})
		_ = root.Close()
		if err != nil {
			return err
		}
		dir = sub
	}
	_, err := h.add(&descriptor{
		object: dirObject{dir}, base: dirRights, inheriting: dirInheriting, preopen: p.Name, isPreopen: true,
	})
	return err
}

// patience are the flags of what a guest starts with and may have to wait for.
func (h *Host) patience() fdflags {
	if h.cfg.NonblockListeners {
		return flagNonblock
	}
	return 0
}

// add stores d under the lowest free number, or closes it.
func (h *Host) add(d *descriptor) (uint32, error) {
	fd, err := h.fds.reserve()
	if err != nil {
		_ = d.object.close()
		return 0, err
	}
	h.fds.put(fd, d)
	return uint32(fd), nil
}

// Close closes the guest's descriptors and its file tree. The guest must have ended.
func (h *Host) Close() error {
	err := errors.Join(h.fds.closeAll(), h.poller.set.close())
	if h.stop.fd >= 0 {
		err = errors.Join(err, unix.Close(h.stop.fd))
		h.stop.fd = -1
	}
	for _, n := range h.stop.notices {
		err = errors.Join(err, unix.Close(n.fd))
	}
	h.stop.notices = nil
	if h.cfg.FS != nil {
		err = errors.Join(err, h.cfg.FS.Close())
	}
	return err
}
