//go:build linux

package wasi

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"edgepod/wasmrt/fs"
)

// filestat calls path_filestat_get and returns type, size and modification time.
func (g *guest) filestat(fd uint64, path string, follow uint64) (typ fs.FileType, size, mtim uint64) {
	g.t.Helper()
	p, n := g.str(path)
	out := g.alloc(64)
	g.ok("path_filestat_get", fd, follow, p, n, out)
	return fs.FileType(g.mem[out+16]), g.u64(out + 32), g.u64(out + 48)
}

// two calls a function that takes two paths beneath fd 3.
func (g *guest) two(name, from, to string) fs.Errno {
	g.t.Helper()
	p, n := g.str(from)
	q, m := g.str(to)
	switch name {
	case "path_link":
		return g.call(name, 3, 0, p, n, 3, q, m)
	case "path_symlink":
		return g.call(name, p, n, 3, q, m)
	}
	return g.call(name, 3, p, n, 3, q, m)
}

func TestMakingMovingRemoving(t *testing.T) {
	g := newGuest(t, Config{}, folder(t, "file", "other", "dir/inner", "empty/"))
	for _, c := range []struct {
		name, from, to string
		want           fs.Errno
	}{
		{"path_create_directory", "new", "", 0},
		{"path_create_directory", "new", "", fs.Exist},
		{"path_create_directory", "slash/", "", 0},
		{"path_create_directory", "none/new", "", fs.NoEnt},
		{"path_create_directory", "file/new", "", fs.NotDir},
		{"path_remove_directory", "new/", "", 0},
		{"path_remove_directory", "slash", "", 0},
		{"path_remove_directory", "dir", "", fs.NotEmpty},
		{"path_remove_directory", "file", "", fs.NotDir},
		{"path_remove_directory", "file/", "", fs.NotDir},
		{"path_remove_directory", "none", "", fs.NoEnt},
		{"path_unlink_file", "dir", "", fs.IsDir},
		{"path_unlink_file", "dir/", "", fs.IsDir},
		{"path_unlink_file", "file/", "", fs.NotDir},
		{"path_unlink_file", "none/", "", fs.NoEnt},
		{"path_rename", "none", "x", fs.NoEnt},
		{"path_rename", "file/", "x", fs.NotDir},
		{"path_rename", "file", "x/", fs.NotDir},
		{"path_rename", "file", "empty", fs.IsDir},
		{"path_rename", "empty", "file", fs.NotDir},
		{"path_rename", "empty", "dir", fs.NotEmpty},
		{"path_rename", "dir", "dir/inside", fs.Inval},
		{"path_rename", "empty/", "moved/", 0},
		{"path_rename", "moved", "empty", 0},
		{"path_rename", "other", "file", 0},
		{"path_link", "file", "linked", 0},
		{"path_link", "file", "linked", fs.Exist},
		{"path_link", "file", "file", fs.Exist},
		{"path_link", "file", "dir", fs.Exist},
		{"path_link", "file", "new/", fs.NoEnt},
		{"path_link", "dir", "new", fs.Perm},
		{"path_link", "none", "new", fs.NoEnt},
		{"path_symlink", "target", "dangling", 0},
		{"path_symlink", "target", "dangling", fs.Exist},
		{"path_symlink", "target", "new/", fs.NoEnt},
		{"path_symlink", "target", "dir/", fs.Exist},
		{"path_symlink", "target", "file/", fs.NotDir},
		{"path_symlink", "/", "new", fs.Perm},
		{"path_symlink", "", "new", fs.NoEnt},
		{"path_link", "dangling", "second", 0},
		{"path_link", "file", "dangling", fs.Exist},
		{"path_unlink_file", "second", "", 0},
		{"path_unlink_file", "dangling", "", 0},
		{"path_unlink_file", "linked", "", 0},
	} {
		got := fs.Errno(0)
		if c.to == "" {
			got = g.path(c.name, 3, c.from)
		} else {
			got = g.two(c.name, c.from, c.to)
		}
		if got != c.want {
			t.Errorf("%s %q %q: got errno %d, want %d", c.name, c.from, c.to, got, c.want)
		}
	}
	p, n := g.str("file")
	g.want(fs.Inval, "path_link", 3, 1, p, n, 3, p, n)
}

func TestOpeningLinks(t *testing.T) {
	dir := folder(t, "dir/file")
	g := newGuest(t, Config{}, dir)
	for text, name := range map[string]string{"dir": "todir", "dir/file": "tofile", "none": "dangling", "loop": "loop"} {
		if errno := g.two("path_symlink", text, name); errno != 0 {
			t.Fatalf("link %s: %d", name, errno)
		}
	}
	for _, c := range []struct {
		path           string
		follow, oflags uint64
		want           fs.Errno
	}{
		{"todir", 0, 0, fs.Loop},
		{"todir", 0, oflagDirectory, fs.NotDir},
		{"todir", 1, oflagDirectory, 0},
		{"todir", 1, 0, 0},
		{"todir/file", 0, 0, 0},
		{"todir/", 1, 0, 0},
		{"tofile", 0, 0, fs.Loop},
		{"tofile", 1, 0, 0},
		{"tofile", 1, oflagDirectory, fs.NotDir},
		{"tofile/", 1, 0, fs.NotDir},
		{"dangling", 0, 0, fs.Loop},
		{"dangling", 1, 0, fs.NoEnt},
		{"dangling", 1, oflagCreat | oflagExcl, fs.Exist},
		{"dangling", 1, oflagCreat, 0},
		{"none", 0, oflagCreat | oflagExcl, fs.Exist},
		{"loop", 0, 0, fs.Loop},
		{"loop", 1, 0, fs.Loop},
		{"dir", 0, oflagCreat, fs.IsDir},
		{".", 0, oflagDirectory, 0},
		{".", 0, oflagCreat | oflagExcl, fs.Exist},
		{"new", 0, oflagCreat | oflagDirectory, fs.Inval},
		{"new/", 0, oflagCreat, fs.IsDir},
		{"new", 2, 0, fs.Inval},
		{"new", 0, 16, fs.Inval},
	} {
		if _, errno := g.tryOpen(3, c.path, c.follow, c.oflags, 0, 0, 0); errno != c.want {
			t.Errorf("open %q, follow %d, flags %d: got errno %d, want %d", c.path, c.follow, c.oflags, errno, c.want)
		}
	}
	p, n := g.str("tofile")
	buf, out := g.alloc(16), g.alloc(4)
	g.ok("path_readlink", 3, p, n, buf, 16, out)
	if got := string(g.mem[buf : buf+10]); got != "dir/file\x00\x00" || g.u32(out) != 8 {
		t.Errorf("link is %q, %d bytes", got, g.u32(out))
	}
	g.ok("path_readlink", 3, p, n, buf, 3, out)
	if g.u32(out) != 3 {
		t.Errorf("%d bytes in a buffer of 3", g.u32(out))
	}
	q, m := g.str("dir")
	g.want(fs.Inval, "path_readlink", 3, q, m, buf, 3, out)
}

func TestTimesAndStat(t *testing.T) {
	dir := folder(t, "file", "sub/")
	g := newGuest(t, Config{}, dir)
	if errno := g.two("path_symlink", "file", "link"); errno != 0 {
		t.Fatal(errno)
	}
	set := func(path string, follow, mtim, flags uint64) fs.Errno {
		p, n := g.str(path)
		return g.call("path_filestat_set_times", 3, follow, p, n, 7, mtim, flags)
	}
	for _, c := range []struct {
		path                string
		follow, mtim, flags uint64
		want                fs.Errno
	}{
		{"file", 0, 1e9 + 1, fstMtim, 0},
		{"link", 0, 2e9 + 2, fstMtim, 0},
		{"sub/", 0, 3e9 + 3, fstMtim, 0},
		{"file", 0, 0, fstMtim | fstMtimNow, fs.Inval},
		{"file", 0, 0, fstAtim | fstAtimNow, fs.Inval},
		{"file", 0, 0, 16, fs.Inval},
		{"file/", 0, 0, fstMtim, fs.NotDir},
		{"none", 0, 0, fstMtim, fs.NoEnt},
		{"file", 2, 0, 0, fs.Inval},
	} {
		if got := set(c.path, c.follow, c.mtim, c.flags); got != c.want {
			t.Errorf("times of %q: got errno %d, want %d", c.path, got, c.want)
		}
	}
	for _, c := range []struct {
		path   string
		follow uint64
		typ    fs.FileType
		mtim   uint64
	}{
		{"file", 0, fs.TypeRegular, 1e9 + 1},
		{"link", 0, fs.TypeSymlink, 2e9 + 2},
		{"link", 1, fs.TypeRegular, 1e9 + 1},
		{"sub", 1, fs.TypeDirectory, 3e9 + 3},
	} {
		if typ, _, mtim := g.filestat(3, c.path, c.follow); typ != c.typ || mtim != c.mtim {
			t.Errorf("%q, follow %d: type %d, time %d", c.path, c.follow, typ, mtim)
		}
	}
	fd := g.open("file", 0, 0, rightFDFilestatGet|rightFDFilestatSetTimes)
	g.ok("fd_filestat_set_times", fd, 5, 6, fstAtim|fstMtim)
	out := g.alloc(64)
	g.ok("fd_filestat_get", fd, out)
	if g.u64(out+40) != 5 || g.u64(out+48) != 6 || g.u64(out+24) != 1 || g.u64(out+32) != 4 {
		t.Errorf("atim %d, mtim %d, %d links, size %d", g.u64(out+40), g.u64(out+48), g.u64(out+24), g.u64(out+32))
	}
	g.ok("fd_filestat_set_times", fd, 0, 0, fstMtimNow)
	g.want(fs.Inval, "fd_filestat_set_times", fd, 0, 0, fstMtimNow|fstMtim)
	g.ok("fd_filestat_set_times", 3, 0, 9, fstMtim)
	if st, err := os.Stat(dir); err != nil || st.ModTime().UnixNano() != 9 {
		t.Errorf("folder changed at %v, %v", st.ModTime(), err)
	}
}

func TestPathsThatAreNone(t *testing.T) {
	g := newGuest(t, Config{}, folder(t))
	for path, want := range map[string]fs.Errno{
		"": fs.NoEnt, "/": fs.Perm, "/etc/passwd": fs.Perm, "../x": fs.Perm, "a\x00b": fs.Inval, "\xff": fs.IlSeq,
		strings.Repeat("x", 5000): fs.NameTooLong, strings.Repeat("x", 300): fs.NameTooLong,
	} {
		for _, name := range []string{"path_create_directory", "path_remove_directory", "path_unlink_file"} {
			if got := g.path(name, 3, path); got != want {
				t.Errorf("%s %.20q: got errno %d, want %d", name, path, got, want)
			}
		}
	}
	g.want(fs.Fault, "path_create_directory", 3, memorySize-1, 2)
	g.want(fs.NameTooLong, "path_create_directory", 3, 0, 0xffffffff)
}

func TestMountsOfDifferentRights(t *testing.T) {
	vol := folder(t, "file")
	tree, err := fs.New(fs.Config{Mounts: []fs.Mount{
		{Source: vol, Target: "/ro", ReadOnly: true}, {Source: vol, Target: "/rw"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	g := newGuest(t, Config{FS: tree}, "")
	for _, c := range []struct {
		name, from, to string
		want           fs.Errno
	}{
		{"path_rename", "ro/file", "rw/stolen", fs.XDev},
		{"path_rename", "rw/file", "ro/file", fs.XDev},
		{"path_link", "ro/file", "rw/link", fs.XDev},
		{"path_rename", "ro/file", "ro/x", fs.ROFS},
		{"path_link", "ro/file", "ro/x", fs.ROFS},
		{"path_symlink", "file", "ro/x", fs.ROFS},
		{"path_symlink", "../ro/file", "rw/toro", 0},
	} {
		if got := g.two(c.name, c.from, c.to); got != c.want {
			t.Errorf("%s %s %s: got errno %d, want %d", c.name, c.from, c.to, got, c.want)
		}
	}
	for _, path := range []string{"ro/file", "rw/toro"} {
		for _, o := range []uint64{0, oflagTrunc, oflagCreat, oflagCreat | oflagTrunc} {
			if _, errno := g.tryOpen(3, path, 1, o, uint64(rightFDWrite), 0, 0); errno != fs.ROFS {
				t.Errorf("open %s, flags %d: got errno %d, want %d", path, o, errno, fs.ROFS)
			}
		}
	}
	if b, err := os.ReadFile(filepath.Join(vol, "file")); string(b) != "file" {
		t.Errorf("the file changed: %q, %v", b, err)
	}
}
