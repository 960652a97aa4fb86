//go:build linux

package wasi

import (
	"testing"

	"edgepod/wasmrt/fs"
)

func TestSnapshotZeroDiffersInFourFunctions(t *testing.T) {
	g := newGuest(t, Config{}, folder(t, "file"))
	fd := g.open("file", 0, 0, allRights)
	g.old = true
	out := g.alloc(56)
	for whence, want := range []uint64{1, 5, 1} {
		g.ok("fd_seek", fd, 1, uint64(whence), out)
		if got := g.u64(out); got != want {
			t.Errorf("whence %d: at %d, want %d", whence, got, want)
		}
	}
	g.want(fs.Inval, "fd_seek", fd, 1, 3, out)
	p, n := g.str("file")
	g.ok("fd_filestat_get", fd, out)
	if g.mem[out+16] != byte(fs.TypeRegular) || g.u32(out+20) != 1 || g.u64(out+24) != 4 {
		t.Errorf("filestat of a descriptor: %v", g.mem[out:out+56])
	}
	g.ok("path_filestat_get", 3, 0, p, n, out)
	if g.mem[out+16] != byte(fs.TypeRegular) || g.u32(out+20) != 1 || g.u64(out+24) != 4 {
		t.Errorf("filestat of a path: %v", g.mem[out:out+56])
	}
	q, m := g.str("none")
	g.want(fs.NoEnt, "path_filestat_get", 3, 0, q, m, out)
	g.want(fs.BadF, "fd_filestat_get", 99, out)
	g.want(fs.Fault, "fd_filestat_get", fd, memorySize-55)
	g.want(fs.Fault, "path_filestat_get", 3, 0, p, n, memorySize-55)
}

// TestSubscriptionsOfSnapshotZero polls a clock of each kind and a descriptor of each kind, in the layout of snapshot 0:
// a clock has an identifier of its own before its number.
func TestSubscriptionsOfSnapshotZero(t *testing.T) {
	g := newGuest(t, Config{Stdin: input(t, "text")}, folder(t, "file"))
	file := g.open("file", 0, 0, allRights)
	g.old = true
	for _, c := range []struct {
		what string
		typ  uint8
		// clock, timeout and flags of a clock; fd of a descriptor.
		clock, flags uint32
		timeout      uint64
		fd           uint64
		errno        fs.Errno
		nbytes       uint64
	}{
		{what: "relative", typ: eventClock, clock: clockMonotonic, timeout: 1},
		{what: "absolute", typ: eventClock, clock: clockRealtime, timeout: 1, flags: 1},
		{what: "no clock", typ: eventClock, clock: 9, errno: fs.Inval},
		{what: "input", typ: eventRead, fd: 0, nbytes: 4},
		{what: "file", typ: eventRead, fd: file, nbytes: 4},
		{what: "output", typ: eventWrite, fd: 1},
		{what: "closed", typ: eventRead, fd: 99, errno: fs.BadF},
		{what: "no event", typ: 3, errno: fs.Inval},
	} {
		sub, event, out := g.alloc(56), g.alloc(eventSize), g.alloc(4)
		clear(g.mem[sub : sub+56])
		g.put64(sub, 42)
		g.mem[sub+8] = c.typ
		if c.typ == eventClock {
			g.put64(sub+16, 0xdead)
			g.put32(sub+24, c.clock)
			g.put64(sub+32, c.timeout)
			g.put32(sub+48, c.flags)
		} else {
			g.put32(sub+16, uint32(c.fd))
		}
		g.ok("poll_oneoff", sub, event, 1, out)
		errno := fs.Errno(g.u32(event+8) & 0xffff)
		if g.u32(out) != 1 || g.u64(event) != 42 || errno != c.errno || g.mem[event+10] != c.typ || g.u64(event+16) != c.nbytes {
			t.Errorf("%s: %d events, the first %v", c.what, g.u32(out), g.mem[event:event+eventSize])
		}
	}
	g.want(fs.Fault, "poll_oneoff", memorySize-55, 0, 1, 0)
}

// TestSnapshotZeroHasTheRest calls what both versions have under both names.
func TestSnapshotZeroHasTheRest(t *testing.T) {
	for _, old := range []bool{false, true} {
		g := newGuest(t, Config{Args: []string{"a"}}, folder(t, "file", "dir/", "empty/"))
		fd := g.open("file", 0, 0, allRights)
		g.old = old
		for name, args := range g.goodArguments(fd) {
			if name[:2] != "fd" || name == "fd_readdir" || name == "fd_prestat_get" || name == "fd_prestat_dir_name" ||
				name == "fd_close" || name == "fd_renumber" || name == "fd_fdstat_set_rights" {
				continue
			}
			g.ok(name, args...)
		}
	}
}
