//go:build linux

package wasi

import (
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"edgepod/wasmrt/fs"
)

// memory is a guest's memory without a guest.
type memory []byte

func (m memory) Read(offset, n uint32) ([]byte, bool) {
	if uint64(offset)+uint64(n) > uint64(len(m)) {
		return nil, false
	}
	return m[offset : offset+n : offset+n], true
}

// guest calls host functions as a guest would.
type guest struct {
	t    *testing.T
	h    *Host
	mem  memory
	next uint32
	old  bool
}

// memorySize is enough for every test, and small enough that a count can point beyond it.
const memorySize = 1 << 20

// newGuest makes a guest with cfg; the folder at dir, if any, is its root.
func newGuest(t *testing.T, cfg Config, dir string) *guest {
	t.Helper()
	if dir != "" {
		tree, err := fs.New(fs.Config{Root: dir})
		if err != nil {
			t.Fatal(err)
		}
		cfg.FS = tree
	}
	h, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return &guest{t: t, h: h, mem: make(memory, memorySize)}
}

// call calls a function of preview 1, or of snapshot 0. The upper halves of narrow parameters hold garbage, as they do in
// the engine.
func (g *guest) call(name string, args ...uint64) fs.Errno {
	g.t.Helper()
	module := "wasi_snapshot_preview1"
	if g.old {
		module = "wasi_unstable"
	}
	for _, f := range functionsOf(module) {
		if f.name != name {
			continue
		}
		if len(args) != len(f.params) {
			g.t.Fatalf("%s takes %d parameters, got %d", name, len(f.params), len(args))
		}
		stack := make([]uint64, max(len(args), 1))
		for i, a := range args {
			if f.params[i] == 'i' {
				a = a&0xffffffff | 0xdeadbeef<<32
			}
			stack[i] = a
		}
		g.h.call(f, g.mem, stack)
		return fs.Errno(stack[0])
	}
	g.t.Fatalf("no function %s", name)
	return 0
}

// want calls a function and compares the error number.
func (g *guest) want(want fs.Errno, name string, args ...uint64) {
	g.t.Helper()
	if got := g.call(name, args...); got != want {
		g.t.Errorf("%s%v: got errno %d, want %d", name, args, got, want)
	}
}

// ok calls a function that must succeed.
func (g *guest) ok(name string, args ...uint64) {
	g.t.Helper()
	if got := g.call(name, args...); got != fs.Success {
		g.t.Fatalf("%s%v: %v", name, args, got)
	}
}

// alloc returns the address of n bytes.
func (g *guest) alloc(n int) uint64 {
	p := g.next
	g.next += (uint32(n) + 15) &^ 7
	if int(g.next) > len(g.mem) {
		g.t.Fatal("guest memory is used up")
	}
	return uint64(p)
}

// str puts a string into memory and returns its address and size.
func (g *guest) str(s string) (p, n uint64) {
	p = g.alloc(len(s))
	copy(g.mem[p:], s)
	return p, uint64(len(s))
}

func (g *guest) u32(p uint64) uint32 { return binary.LittleEndian.Uint32(g.mem[p:]) }
func (g *guest) u64(p uint64) uint64 { return binary.LittleEndian.Uint64(g.mem[p:]) }

func (g *guest) put32(p uint64, v uint32) { binary.LittleEndian.PutUint32(g.mem[p:], v) }
func (g *guest) put64(p uint64, v uint64) { binary.LittleEndian.PutUint64(g.mem[p:], v) }

// everything are the rights that a guest asks for when it does not care.
const everything = math.MaxUint64

// allRights are the same as a value.
const allRights = rights(everything)

// open opens a path beneath fd 3 and returns the descriptor.
func (g *guest) open(path string, oflags, fdflags uint64, r rights) uint64 {
	g.t.Helper()
	fd, errno := g.tryOpen(3, path, 1, oflags, uint64(r), everything, fdflags)
	if errno != fs.Success {
		g.t.Fatalf("open %s: %v", path, errno)
	}
	return fd
}

func (g *guest) tryOpen(dir uint64, path string, follow, oflags, base, inheriting, fdflags uint64) (uint64, fs.Errno) {
	g.t.Helper()
	p, n := g.str(path)
	out := g.alloc(4)
	errno := g.call("path_open", dir, follow, p, n, oflags, base, inheriting, fdflags, out)
	return uint64(g.u32(out)), errno
}

// iovs lists buffers of the sizes given, and returns the address of the list and of the first buffer.
func (g *guest) iovs(sizes ...int) (list, first uint64) {
	list = g.alloc(8 * len(sizes))
	total := 0
	for _, n := range sizes {
		total += n
	}
	first = g.alloc(total)
	at := first
	for i, n := range sizes {
		g.put32(list+uint64(8*i), uint32(at))
		g.put32(list+uint64(8*i)+4, uint32(n))
		at += uint64(n)
	}
	return list, first
}

// write writes a string with one call.
func (g *guest) write(fd uint64, s string) {
	g.t.Helper()
	list, buf := g.iovs(len(s))
	copy(g.mem[buf:], s)
	out := g.alloc(4)
	g.ok("fd_write", fd, list, 1, out)
	if got := g.u32(out); int(got) != len(s) {
		g.t.Errorf("wrote %d bytes of %d", got, len(s))
	}
}

// read reads up to n bytes with one call.
func (g *guest) read(fd uint64, n int) (string, fs.Errno) {
	g.t.Helper()
	list, buf := g.iovs(n/2, n-n/2)
	out := g.alloc(4)
	errno := g.call("fd_read", fd, list, 2, out)
	return string(g.mem[buf : buf+uint64(g.u32(out))]), errno
}

// tell returns the position of a file.
func (g *guest) tell(fd uint64) uint64 {
	g.t.Helper()
	out := g.alloc(8)
	g.ok("fd_tell", fd, out)
	return g.u64(out)
}

// fdstat returns what fd_fdstat_get tells.
func (g *guest) fdstat(fd uint64) (typ fs.FileType, flags fdflags, base, inheriting rights) {
	g.t.Helper()
	p := g.alloc(24)
	g.ok("fd_fdstat_get", fd, p)
	return fs.FileType(g.mem[p]), fdflags(g.mem[p+2]), rights(g.u64(p + 8)), rights(g.u64(p + 16))
}

// path calls a function whose parameters are a descriptor and a path.
func (g *guest) path(name string, fd uint64, path string) fs.Errno {
	g.t.Helper()
	p, n := g.str(path)
	return g.call(name, fd, p, n)
}

// ends runs f, which must end the guest, and returns how.
func ends(t *testing.T, f func()) (exit *ExitError) {
	t.Helper()
	defer func() {
		err, _ := recover().(error)
		if !errors.As(err, &exit) {
			t.Errorf("the guest was not ended but by %v", err)
		}
	}()
	f()
	return nil
}

// folder makes a folder with files, whose content is their name; a name that ends with a slash is a folder.
func folder(t *testing.T, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		p := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(p), 0o755)
		if strings.HasSuffix(name, "/") {
			err = errors.Join(err, os.MkdirAll(p, 0o755))
		} else {
			err = errors.Join(err, os.WriteFile(p, []byte(name), 0o644))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
