package wasi

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"edgepod/wasmrt/fs"
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
	// TTY tells the guest that the three are a terminal.
	TTY bool
	// FS is the guest's file tree; nil is none. The Host closes it.
	FS *fs.Tree
	// Preopens are the folders of FS that the guest starts with, as descriptors from 3 on; nil is "/" alone, which is
	// enough for C, Rust and Go. Name is what the guest matches paths with, Path the folder in FS.
	Preopens []Preopen
	// MaxFiles bounds the guest's descriptors; 0 is 1024.
	MaxFiles int
}

// Preopen is a folder that a guest starts with.
type Preopen struct {
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
	if c.MaxFiles < 0 {
		return fmt.Errorf("negative limit of descriptors: %d", c.MaxFiles)
	}
	return nil
}

// Host is the state behind one guest's system calls.
type Host struct {
	cfg Config
	// stopping is set by Stop; stopFD is an eventfd that is readable from then on.
	stopping atomic.Bool
	stopFD   int
}

// New makes a Host. It starts nothing; Close releases it.
func New(cfg Config) (*Host, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if cfg.MaxFiles == 0 {
		cfg.MaxFiles = 1024
	}
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("make stop event: %w", err)
	}
	return &Host{cfg: cfg, stopFD: fd}, nil
}

// Stop asks the guest to stop: it ends with an *ExitError of code CodeStopped at its next host call, or at once when it is
// blocked in one. It may be called from any goroutine, more than once, until Close.
func (h *Host) Stop() {
	if h.stopping.Swap(true) {
		return
	}
	var one = [8]byte{1}
	// An eventfd of our own with a counter of zero takes the write.
	_, _ = unix.Write(h.stopFD, one[:])
}

// checkStopped ends the guest if it was asked to stop.
func (h *Host) checkStopped() {
	if h.stopping.Load() {
		panic(&ExitError{Code: CodeStopped, Stopped: true})
	}
}

// Close closes the guest's descriptors and its file tree. The guest must have ended.
func (h *Host) Close() error {
	err := unix.Close(h.stopFD)
	if h.cfg.FS != nil {
		if e := h.cfg.FS.Close(); err == nil {
			err = e
		}
	}
	return err
}

// procExit ends the guest with a code of its own.
func (h *Host) procExit(_ guestMemory, p params) error {
	panic(&ExitError{Code: p.u32(0)})
}
