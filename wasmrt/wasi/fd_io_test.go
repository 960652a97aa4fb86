//go:build linux

package wasi

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"edgepod/wasmrt/fs"
)

// TestTransfersInPieces moves more than one piece with one call, in buffers that a piece ends between and within.
func TestTransfersInPieces(t *testing.T) {
	dir := folder(t)
	g := newGuest(t, Config{}, dir)
	g.mem = make(memory, 3*pieceSize)
	for i := 0; i < len(g.mem)-4096; i += 61 {
		g.mem[i] = byte(i>>12) + 1
	}
	g.next = uint32(len(g.mem)) - 4096
	fd := g.open("file", oflagCreat, 0, allRights)
	list, out := g.alloc(8*4), g.alloc(4)
	sizes := []uint32{100, 2*pieceSize + 5, 0, pieceSize - 10}
	total, at := uint32(0), uint64(0)
	var want []byte
	for i, n := range sizes {
		g.put32(list+uint64(8*i), uint32(at))
		g.put32(list+uint64(8*i)+4, n)
		want = append(want, g.mem[at:at+uint64(n)]...)
		total += n
		at += 1000
	}
	for name, args := range map[string][]uint64{"fd_write": {fd, list, 4, out}, "fd_pwrite": {fd, list, 4, uint64(total), out}} {
		if g.ok(name, args...); g.u32(out) != total {
			t.Errorf("%s wrote %d bytes, want %d", name, g.u32(out), total)
		}
	}
	got, err := os.ReadFile(filepath.Join(dir, "file"))
	if err != nil || !bytes.Equal(got, append(want, want...)) {
		t.Errorf("%d bytes were written, want %d of another content, %v", len(got), 2*total, err)
	}
	const n = 2*pieceSize + 5
	g.put32(list, 0)
	g.put32(list+4, n)
	clear(g.mem[:n])
	if g.ok("fd_pread", fd, list, 1, 7, out); g.u32(out) != n || !bytes.Equal(g.mem[:n], got[7:7+n]) {
		t.Errorf("read %d bytes, want %d, or others", g.u32(out), n)
	}
	// Near the end less is there than asked for.
	g.ok("fd_seek", fd, uint64(2*total-10), whenceSet, g.alloc(8))
	if g.ok("fd_read", fd, list, 1, out); g.u32(out) != 10 {
		t.Errorf("read %d bytes at the end, want 10", g.u32(out))
	}
}

// TestGiantOutputIsCounted writes far more than a count can hold to an output that takes everything: no more is taken at
// once than on the host. A giant read of an input brings what there is.
func TestGiantOutputIsCounted(t *testing.T) {
	g := newGuest(t, Config{Stdin: input(t, "text")}, "")
	g.mem = reserved(t, math.MaxUint32)
	const lists = 100
	list, out := g.alloc(8*lists), g.alloc(4)
	for i := range uint64(lists) {
		g.put32(list+8*i+4, math.MaxUint32)
	}
	if g.ok("fd_write", 1, list, lists, out); g.u32(out) < maxMoved || g.u32(out) > maxMoved+pieceSize {
		t.Errorf("wrote %d bytes, want about %d", g.u32(out), maxMoved)
	}
	if g.ok("fd_read", 0, list, lists, out); g.u32(out) != 4 {
		t.Errorf("read %d bytes, want 4", g.u32(out))
	}
}

// reserved maps n bytes of memory that take room only where they are touched.
func reserved(t *testing.T, n int) memory {
	t.Helper()
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Munmap(b); err != nil {
			t.Error(err)
		}
	})
	return b
}

// TestGiantCallsAreStopped asks for 4 GiB, of random bytes and of a file's, and for a stop meanwhile.
func TestGiantCallsAreStopped(t *testing.T) {
	dir := folder(t)
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(dir, "file"), 1<<33); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"random_get", "fd_read"} {
		t.Run(name, func(t *testing.T) {
			g := newGuest(t, Config{}, dir)
			fd := g.open("file", 0, 0, rightFDRead)
			g.mem = reserved(t, math.MaxUint32)
			list, out := g.alloc(16), g.alloc(4)
			g.put32(list+4, math.MaxUint32-1)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			var wg sync.WaitGroup
			wg.Go(g.h.Terminate)
			exit := ends(t, func() {
				for {
					switch name {
					case "random_get":
						g.call(name, 0, math.MaxUint32)
					case "fd_read":
						g.call("fd_seek", fd, 0, whenceSet, out)
						g.call(name, fd, list, 1, out)
					}
				}
			})
			wg.Wait()
			runtime.ReadMemStats(&after)
			if bytes.ContainsFunc(g.mem[len(g.mem)-4096:], func(r rune) bool { return r != 0 }) {
				t.Error("the call came to its end")
			}
			if exit == nil || !exit.Stopped || after.TotalAlloc-before.TotalAlloc > 16<<20 {
				t.Errorf("ended with %+v, after %d bytes were allocated", exit, after.TotalAlloc-before.TotalAlloc)
			}
		})
	}
}

// TestFrequentCallsAllocateNothing counts what the calls leave behind that a program makes all the time.
func TestFrequentCallsAllocateNothing(t *testing.T) {
	g := newGuest(t, Config{}, folder(t, "file"))
	fd := g.open("file", 0, 0, allRights)
	list, _ := g.iovs(2, 2)
	out := g.alloc(64)
	p, n := g.str("file")
	mem := guestMemory(g.mem)
	for _, c := range []struct {
		name string
		args []uint64
		most float64
	}{
		{"fd_read", []uint64{fd, list, 2, out}, 0},
		{"fd_read", []uint64{fd, list, 1, out}, 0},
		{"fd_write", []uint64{fd, list, 1, out}, 0},
		{"fd_pread", []uint64{fd, list, 1, 0, out}, 0},
		{"fd_pwrite", []uint64{fd, list, 1, 0, out}, 0},
		{"fd_seek", []uint64{fd, 0, whenceSet, out}, 0},
		{"fd_tell", []uint64{fd, out}, 0},
		{"fd_fdstat_get", []uint64{fd, out}, 0},
		{"fd_filestat_get", []uint64{fd, out}, 0},
		{"clock_time_get", []uint64{clockMonotonic, 0, out}, 0},
		{"random_get", []uint64{out, 32}, 0},
		// The path is copied out of the guest's memory, and once more for the kernel.
		{"path_filestat_get", []uint64{3, 1, p, n, out}, 2},
	} {
		f := functionNamed(t, c.name)
		stack := make([]uint64, len(c.args))
		got := testing.AllocsPerRun(200, func() {
			copy(stack, c.args)
			g.h.call(f, mem, stack)
			if fs.Errno(stack[0]) != fs.Success {
				t.Fatalf("%s: errno %d", c.name, stack[0])
			}
		})
		if got > c.most {
			t.Errorf("%s allocates %v times, want %v", c.name, got, c.most)
		}
	}
}

func functionNamed(t *testing.T, name string) function {
	t.Helper()
	for _, f := range preview1() {
		if f.name == name {
			return f
		}
	}
	t.Fatalf("no function %s", name)
	return function{}
}
