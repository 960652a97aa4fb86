//go:build linux

package wasi

import (
	"math"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"edgepod/wasmrt/fs"
)

// pointerCall is a call that succeeds, and which of its parameters are pointers.
type pointerCall struct {
	name     string
	args     []uint64
	pointers []int
}

// pointerCalls lists a good call for every function that takes pointers, those of sockets aside. Calls that change
// something come last of their kind, so that a call succeeds just once.
func pointerCalls(g *guest) []pointerCall {
	file := g.open("file", 0, 0, allRights)
	dir := g.open("dir", oflagDirectory, 0, dirRights)
	out, buf := g.alloc(64), g.alloc(4096)
	list, _ := g.iovs(2, 2)
	path := func(s string) (uint64, uint64) { return g.str(s) }
	f, fn := path("file")
	l, ln := path("link")
	n, nn := path("new")
	m, mn := path("moved")
	sub := g.alloc(48)
	g.put32(sub+16, clockMonotonic)
	return []pointerCall{
		{"args_sizes_get", []uint64{out, out + 4}, []int{0, 1}},
		{"args_get", []uint64{buf, buf + 64}, []int{0, 1}},
		{"environ_sizes_get", []uint64{out, out + 4}, []int{0, 1}},
		{"environ_get", []uint64{buf, buf + 64}, []int{0, 1}},
		{"clock_res_get", []uint64{clockMonotonic, out}, []int{1}},
		{"clock_time_get", []uint64{clockRealtime, 0, out}, []int{2}},
		{"fd_fdstat_get", []uint64{file, out}, []int{1}},
		{"fd_filestat_get", []uint64{file, out}, []int{1}},
		{"fd_prestat_get", []uint64{3, out}, []int{1}},
		{"fd_prestat_dir_name", []uint64{3, buf, 64}, []int{1}},
		{"fd_seek", []uint64{file, 1, whenceSet, out}, []int{3}},
		{"fd_tell", []uint64{file, out}, []int{1}},
		{"fd_read", []uint64{file, list, 2, out}, []int{1, 3}},
		{"fd_pread", []uint64{file, list, 2, 0, out}, []int{1, 4}},
		{"fd_write", []uint64{file, list, 2, out}, []int{1, 3}},
		{"fd_pwrite", []uint64{file, list, 2, 0, out}, []int{1, 4}},
		{"fd_readdir", []uint64{dir, buf, 4096, 0, out}, []int{1, 4}},
		{"path_filestat_get", []uint64{3, 0, f, fn, out}, []int{2, 4}},
		{"path_filestat_set_times", []uint64{3, 0, f, fn, 1, 2, fstAtim | fstMtim}, []int{2}},
		{"path_open", []uint64{3, 0, f, fn, 0, 0, 0, 0, out}, []int{2, 8}},
		{"path_readlink", []uint64{3, l, ln, buf, 64, out}, []int{1, 3, 5}},
		{"path_link", []uint64{3, 0, f, fn, 3, n, nn}, []int{2, 5}},
		{"path_rename", []uint64{3, n, nn, 3, m, mn}, []int{1, 4}},
		{"path_unlink_file", []uint64{3, m, mn}, []int{1}},
		{"path_symlink", []uint64{f, fn, 3, m, mn}, []int{0, 3}},
		{"path_create_directory", []uint64{3, n, nn}, []int{1}},
		{"path_remove_directory", []uint64{3, n, nn}, []int{1}},
		{"poll_oneoff", []uint64{sub, buf, 1, out}, []int{0, 1, 3}},
		{"random_get", []uint64{buf, 64}, []int{0}},
	}
}

// withoutPointers are the functions that take no pointer, and those of sockets.
var withoutPointers = []string{
	"fd_advise", "fd_allocate", "fd_close", "fd_datasync", "fd_fdstat_set_flags", "fd_fdstat_set_rights", "fd_filestat_set_size",
	"fd_filestat_set_times", "fd_renumber", "fd_sync", "proc_exit", "proc_raise", "sched_yield", "sock_accept", "sock_recv",
	"sock_send", "sock_shutdown",
}

// TestEveryPointerIsChecked gives each pointer of each function values that lead out of memory or around its end. The
// answer is Fault, and nothing has happened: no byte moved, no file made, no descriptor opened.
func TestEveryPointerIsChecked(t *testing.T) {
	dir := folder(t, "file", "dir/inner")
	if err := os.Symlink("file", dir+"/link"); err != nil {
		t.Fatal(err)
	}
	g := newGuest(t, Config{Args: []string{"a", "b"}, Env: []string{"A=1"}}, dir)
	calls := pointerCalls(g)
	names := slices.Clone(withoutPointers)
	for _, c := range calls {
		names = append(names, c.name)
		for _, i := range c.pointers {
			for _, bad := range []uint64{memorySize, memorySize + 1, 1 << 31, math.MaxUint32 - 64, math.MaxUint32 - 3, math.MaxUint32} {
				args := slices.Clone(c.args)
				args[i] = bad
				before, memory := sight(t, g, dir), slices.Clone(g.mem)
				if got := g.call(c.name, args...); got != fs.Fault {
					t.Errorf("%s with parameter %d = %#x: got errno %d, want %d", c.name, i, bad, got, fs.Fault)
				}
				if diff := cmp.Diff(before, sight(t, g, dir)); diff != "" {
					t.Errorf("%s with parameter %d = %#x changed something: %s", c.name, i, bad, diff)
				}
				copy(g.mem, memory)
			}
		}
		g.ok(c.name, c.args...)
	}
	for _, f := range preview1() {
		if !slices.Contains(names, f.name) && len(f.params) > 0 && f.name[:5] != "sock_" {
			t.Errorf("%s is not called", f.name)
		}
	}
}

// seen is what a call can change.
type seen struct {
	Files       map[string]string
	Position    uint64
	Descriptors int
}

func sight(t *testing.T, g *guest, dir string) seen {
	t.Helper()
	s := seen{Files: map[string]string{}}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		text, _ := os.ReadFile(dir + "/" + e.Name())
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		s.Files[e.Name()] = string(text) + info.Mode().Type().String() + info.ModTime().String()
	}
	for _, d := range g.h.fds.entries {
		if d != nil {
			s.Descriptors++
		}
	}
	s.Position = g.tell(4)
	return s
}

// TestBuffersOutOfRange gives lists whose buffers lead out of memory: nothing is read or written, not even into the good ones.
func TestBuffersOutOfRange(t *testing.T) {
	dir := folder(t, "file")
	g := newGuest(t, Config{}, dir)
	fd := g.open("file", 0, 0, allRights)
	list, _ := g.iovs(1, 1, 1)
	out := g.alloc(4)
	for _, bad := range [][2]uint32{
		{memorySize, 1}, {memorySize - 1, 2}, {1, memorySize}, {math.MaxUint32, 1}, {8, math.MaxUint32}, {math.MaxUint32, math.MaxUint32},
	} {
		g.put32(list+8, bad[0])
		g.put32(list+12, bad[1])
		for _, name := range []string{"fd_read", "fd_write"} {
			g.want(fs.Fault, name, fd, list, 3, out)
		}
		for _, name := range []string{"fd_pread", "fd_pwrite"} {
			g.want(fs.Fault, name, fd, list, 3, 0, out)
		}
	}
	if b, err := os.ReadFile(dir + "/file"); string(b) != "file" || g.tell(fd) != 0 {
		t.Errorf("file is %q, %v, position %d", b, err, g.tell(fd))
	}
}
