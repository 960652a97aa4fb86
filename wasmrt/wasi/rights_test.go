//go:build linux

package wasi

import (
	"os"
	"path/filepath"
	"testing"

	"edgepod/wasmrt/fs"
)

// neededRights are the rights that each function needs of its descriptor.
var neededRights = map[string]rights{
	"fd_advise": rightFDAdvise, "fd_allocate": rightFDAllocate, "fd_datasync": rightFDDatasync, "fd_sync": rightFDSync,
	"fd_fdstat_set_flags": rightFDFdstatSetFlags, "fd_filestat_get": rightFDFilestatGet,
	"fd_filestat_set_size": rightFDFilestatSetSize, "fd_filestat_set_times": rightFDFilestatSetTimes, "fd_read": rightFDRead,
	"fd_write": rightFDWrite, "fd_pread": rightFDRead | rightFDSeek, "fd_pwrite": rightFDWrite | rightFDSeek,
	"fd_seek": rightFDSeek, "fd_readdir": rightFDReaddir,
	"path_create_directory": rightPathCreateDirectory, "path_filestat_get": rightPathFilestatGet,
	"path_filestat_set_times": rightPathFilestatSetTimes, "path_link": rightPathLinkSource | rightPathLinkTarget,
	"path_open": rightPathOpen, "path_readlink": rightPathReadlink, "path_remove_directory": rightPathRemoveDirectory,
	"path_rename": rightPathRenameSource | rightPathRenameTarget, "path_symlink": rightPathSymlink,
	"path_unlink_file": rightPathUnlinkFile,
	// A descriptor alone will do for these.
	"fd_close": 0, "fd_fdstat_get": 0, "fd_fdstat_set_rights": 0, "fd_renumber": 0,
}

// TestEachRightIsNeeded calls every function with just the rights that it needs, and with all rights but one of these.
func TestEachRightIsNeeded(t *testing.T) {
	for name, needed := range neededRights {
		call := withRights(t, name, needed)
		if got := call(); got != fs.Success {
			t.Errorf("%s with just its rights: got errno %d", name, got)
		}
		for r := rights(1); r <= needed; r <<= 1 {
			if needed&r == 0 {
				continue
			}
			want := fs.NotCapable
			if r&(rightFDRead|rightFDWrite) != 0 {
				want = fs.BadF
			}
			if got := withRights(t, name, (fileRights|dirRights)&^r)(); got != want {
				t.Errorf("%s without right %b: got errno %d, want %d", name, r, got, want)
			}
		}
	}
}

// withRights returns what calls a function with a descriptor of the kind that it takes, cut down to the rights r.
func withRights(t *testing.T, name string, r rights) func() fs.Errno {
	t.Helper()
	dir := folder(t, "file", "empty/")
	if err := os.Symlink("file", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	g := newGuest(t, Config{}, dir)
	kind, all := "file", fileRights
	if neededRights[name]&^fileRights != 0 {
		kind, all = "folder", dirRights
	}
	fd := g.openKind(kind)
	_, _, _, inheriting := g.fdstat(fd)
	g.ok("fd_fdstat_set_rights", fd, uint64(r&all), uint64(inheriting))
	return func() fs.Errno { return g.call(name, g.goodArguments(fd)[name]...) }
}

// TestRightsThatOpeningNeeds opens with each flag in a folder that lacks the right for it.
func TestRightsThatOpeningNeeds(t *testing.T) {
	for _, c := range []struct {
		what                       string
		path                       string
		oflags                     uint64
		base, inheriting           rights
		lacking, lackingInheriting rights
		want                       fs.Errno
		wantBase, wantInheriting   rights
	}{
		{what: "nothing asked for", path: "file"},
		{what: "read", path: "file", base: rightFDRead, wantBase: rightFDRead},
		{what: "read, not inherited", path: "file", base: rightFDRead, lackingInheriting: rightFDRead, want: fs.NotCapable},
		{what: "write, not inherited", path: "file", base: rightFDWrite, lackingInheriting: rightFDWrite, want: fs.NotCapable},
		{what: "inherit, not inherited", path: "dir", inheriting: rightFDRead, lackingInheriting: rightFDRead, want: fs.NotCapable},
		{
			what: "inherit", path: "dir", base: dirRights, inheriting: rightFDRead,
			wantBase: dirRights, wantInheriting: rightFDRead,
		},
		{what: "create", path: "new", oflags: oflagCreat, lacking: rightPathCreateFile, want: fs.NotCapable},
		{what: "create what exists", path: "file", oflags: oflagCreat, lacking: rightPathCreateFile, want: fs.NotCapable},
		{what: "truncate", path: "file", oflags: oflagTrunc, lackingInheriting: rightFDFilestatSetSize},
		{what: "truncate as if afterwards", path: "file", oflags: oflagTrunc, lacking: rightPathFilestatSetSize},
		{
			what: "truncate without a right", path: "file", oflags: oflagTrunc,
			lacking: rightPathFilestatSetSize, lackingInheriting: rightFDFilestatSetSize, want: fs.Perm,
		},
		{what: "no right to open", path: "file", lacking: rightPathOpen, want: fs.NotCapable},
		{
			what: "allocating without writing", path: "file", base: rightFDRead | rightFDAllocate | rightFDFilestatSetSize,
			wantBase: rightFDRead,
		},
		{what: "rights of sockets and unknown ones", path: "file", base: 1<<40 | rightSockAccept | rightFDTell, wantBase: rightFDTell},
	} {
		g := newGuest(t, Config{}, folder(t, "file", "dir/"))
		g.ok("fd_fdstat_set_rights", 3, uint64(dirRights&^c.lacking), uint64(dirInheriting&^c.lackingInheriting))
		fd, errno := g.tryOpen(3, c.path, 0, c.oflags, uint64(c.base), uint64(c.inheriting), 0)
		if errno != c.want {
			t.Errorf("%s: got errno %d, want %d", c.what, errno, c.want)
		}
		if errno != fs.Success || c.want != fs.Success {
			continue
		}
		if _, _, base, inheriting := g.fdstat(fd); base != c.wantBase || inheriting != c.wantInheriting {
			t.Errorf("%s: rights %b, inheriting %b; want %b, %b", c.what, base, inheriting, c.wantBase, c.wantInheriting)
		}
	}
}
