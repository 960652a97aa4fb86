//go:build linux

package wasi

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"edgepod/wasmrt/fs"
)

func TestPreviewHasFortySixFunctions(t *testing.T) {
	names := map[string]bool{}
	for _, f := range preview1() {
		names[f.name] = true
	}
	if len(names) != 46 || len(unstable()) != 45 {
		t.Errorf("got %d and %d functions, want 46 and 45", len(names), len(unstable()))
	}
}

func TestArgumentsAndEnvironment(t *testing.T) {
	g := newGuest(t, Config{Args: []string{"app", "", "-x=ü"}, Env: []string{"A=1", "B="}}, "")
	for name, want := range map[string][]string{"args": {"app", "", "-x=ü"}, "environ": {"A=1", "B="}} {
		count, size := g.alloc(4), g.alloc(4)
		g.ok(name+"_sizes_get", count, size)
		pointers, text := g.alloc(int(4*g.u32(count))), g.alloc(int(g.u32(size)))
		g.ok(name+"_get", pointers, text)
		var got []string
		for i := range uint64(g.u32(count)) {
			s := g.mem[g.u32(pointers+4*i):]
			got = append(got, string(s[:slices.Index(s, 0)]))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		g.want(fs.Fault, name+"_get", pointers, memorySize-3)
		g.want(fs.Fault, name+"_get", memorySize-3, text)
		g.want(fs.Fault, name+"_sizes_get", memorySize, size)
	}
	for _, cfg := range []Config{
		{Args: []string{"a\x00b"}},
		{Env: []string{"A"}},
		{Env: []string{"=x"}},
		{Env: []string{"A=\x00"}},
		{MaxFiles: -1},
		{MaxFiles: 2},
	} {
		if h, err := New(cfg); err == nil {
			t.Errorf("%+v: no error", cfg)
			h.Close()
		}
	}
}

func TestRightsOfDescriptors(t *testing.T) {
	g := newGuest(t, Config{}, folder(t, "file", "dir/"))
	readonly, writeonly := g.open("file", 0, 0, rightFDRead|rightFDTell), g.open("file", 0, 0, rightFDWrite)
	nothing, dir := g.open("file", 0, 0, 0), g.open("dir", oflagDirectory, 0, allRights&^rightFDWrite)
	list, _ := g.iovs(1)
	out := g.alloc(8)
	g.want(fs.BadF, "fd_write", readonly, list, 1, out)
	g.want(fs.BadF, "fd_read", writeonly, list, 1, out)
	g.want(fs.BadF, "fd_read", nothing, list, 1, out)
	g.want(fs.NotCapable, "fd_seek", readonly, 1, whenceSet, out)
	g.want(fs.Success, "fd_seek", readonly, 0, whenceCur, out)
	g.want(fs.NotCapable, "fd_tell", nothing, out)
	g.want(fs.NotCapable, "fd_filestat_get", nothing, g.alloc(64))
	for _, name := range []string{"fd_read", "fd_write"} {
		g.want(fs.IsDir, name, dir, list, 1, out)
	}
	g.want(fs.IsDir, "fd_pread", dir, list, 1, 0, out)
	g.want(fs.BadF, "fd_seek", dir, 0, whenceSet, out)
	g.want(fs.BadF, "fd_tell", dir, out)
	g.want(fs.BadF, "fd_allocate", dir, 0, 0)
	g.want(fs.BadF, "fd_filestat_set_size", dir, 0)
	g.want(fs.SPipe, "fd_seek", 0, 0, whenceCur, out)
	g.want(fs.SPipe, "fd_pread", 0, list, 1, 0, out)
	g.want(fs.BadF, "fd_pread", 1, list, 1, 0, out)
	g.want(fs.NotDir, "fd_readdir", readonly, 0, 0, 0, out)
	if _, errno := g.tryOpen(readonly, "x", 0, 0, 0, 0, 0); errno != fs.NotDir {
		t.Errorf("open beneath a file: got %d, want %d", errno, fs.NotDir)
	}
	for _, name := range []string{"path_create_directory", "path_remove_directory", "path_unlink_file"} {
		if errno := g.path(name, readonly, "x"); errno != fs.NotDir {
			t.Errorf("%s beneath a file: got %d, want %d", name, errno, fs.NotDir)
		}
	}
	typ, _, base, inheriting := g.fdstat(dir)
	if typ != fs.TypeDirectory || base&fileRights&^dirRights != 0 || base&dirRights != dirRights || inheriting != dirInheriting {
		t.Errorf("folder: type %d, rights %x, inheriting %x", typ, base, inheriting)
	}
	if _, _, base, _ = g.fdstat(readonly); base != rightFDRead|rightFDTell {
		t.Errorf("file: rights %x", base)
	}
	if _, errno := g.tryOpen(3, "dir", 0, oflagDirectory, uint64(rightFDRead|rightFDWrite), 0, 0); errno != fs.IsDir {
		t.Errorf("open a folder for writing: got %d, want %d", errno, fs.IsDir)
	}
}

func TestRightsCanOnlyBeTakenAway(t *testing.T) {
	g := newGuest(t, Config{}, folder(t, "dir/file"))
	file, dir := g.open("dir/file", 0, 0, rightFDRead|rightFDWrite|rightFDSeek), g.open("dir", oflagDirectory, 0, dirRights)
	g.ok("fd_fdstat_set_rights", file, uint64(rightFDSeek), 0)
	g.want(fs.NotCapable, "fd_fdstat_set_rights", file, uint64(rightFDSeek|rightFDRead), 0)
	g.want(fs.NotCapable, "fd_fdstat_set_rights", file, uint64(rightFDSeek), uint64(rightFDRead))
	list, _ := g.iovs(1)
	g.want(fs.BadF, "fd_read", file, list, 1, g.alloc(4))

	_, _, base, inheriting := g.fdstat(dir)
	g.ok("fd_fdstat_set_rights", dir, uint64(base), uint64(inheriting&^(rightFDWrite|rightFDFilestatSetSize)))
	if _, errno := g.tryOpen(dir, "file", 0, 0, uint64(rightFDWrite), 0, 0); errno != fs.NotCapable {
		t.Errorf("open for writing without the right: got %d", errno)
	}
	if _, errno := g.tryOpen(dir, "file", 0, oflagTrunc, 0, 0, 0); errno != fs.Success {
		t.Errorf("truncate with the folder's right: got %d", errno)
	}
	g.ok("fd_fdstat_set_rights", dir, uint64(base&^(rightPathFilestatSetSize|rightPathCreateFile|rightPathUnlinkFile)), 0)
	if _, errno := g.tryOpen(dir, "file", 0, oflagTrunc, 0, 0, 0); errno != fs.Perm {
		t.Errorf("truncate without the right: got %d", errno)
	}
	if _, errno := g.tryOpen(dir, "new", 0, oflagCreat, 0, 0, 0); errno != fs.NotCapable {
		t.Errorf("create without the right: got %d", errno)
	}
	if errno := g.path("path_unlink_file", dir, "file"); errno != fs.NotCapable {
		t.Errorf("unlink without the right: got %d", errno)
	}
}

func TestReadWriteSeek(t *testing.T) {
	dir := folder(t)
	g := newGuest(t, Config{}, dir)
	fd := g.open("file", oflagCreat, 0, allRights)
	g.write(fd, "0123456789")
	out := g.alloc(8)
	for _, c := range []struct {
		offset int64
		whence uint64
		want   uint64
		errno  fs.Errno
	}{
		{3, whenceSet, 3, 0},
		{2, whenceCur, 5, 0},
		{-1, whenceEnd, 9, 0},
		{90, whenceEnd, 100, 0},
		{-200, whenceCur, 0, fs.Inval},
		{-1, whenceSet, 0, fs.Inval},
		{0, 3, 0, fs.Inval},
		{4, whenceSet, 4, 0},
	} {
		g.want(c.errno, "fd_seek", fd, uint64(c.offset), c.whence, out)
		if c.errno == 0 && g.u64(out) != c.want {
			t.Errorf("seek %d from %d: at %d, want %d", c.offset, c.whence, g.u64(out), c.want)
		}
	}
	if got, errno := g.read(fd, 5); got != "45678" || errno != 0 || g.tell(fd) != 9 {
		t.Errorf("read %q, %d, then at %d", got, errno, g.tell(fd))
	}
	list, buf := g.iovs(2, 0, 2)
	g.ok("fd_pread", fd, list, 3, 1, out)
	if got := string(g.mem[buf : buf+4]); got != "1234" || g.u32(out) != 4 || g.tell(fd) != 9 {
		t.Errorf("pread %q, %d, then at %d", got, g.u32(out), g.tell(fd))
	}
	g.want(fs.Inval, "fd_pread", fd, list, 3, math.MaxUint64, out)
	copy(g.mem[buf:], "abcd")
	g.ok("fd_pwrite", fd, list, 3, 8, out)
	if b, err := os.ReadFile(filepath.Join(dir, "file")); string(b) != "01234567abcd" {
		t.Errorf("file is %q, %v", b, err)
	}
	g.ok("fd_filestat_set_size", fd, 3)
	g.want(fs.FBig, "fd_filestat_set_size", fd, 1<<63)
	g.want(fs.Inval, "fd_allocate", fd, 0, 0)
	g.want(fs.FBig, "fd_allocate", fd, 1<<63, 1)
	g.ok("fd_allocate", fd, 2, 5)
	g.ok("fd_advise", fd, 0, 0, 3)
	g.want(fs.Inval, "fd_advise", fd, 0, 0, 6)
	g.ok("fd_sync", fd)
	g.ok("fd_datasync", fd)
	g.ok("fd_sync", 3)
	if st, err := os.Stat(filepath.Join(dir, "file")); err != nil || st.Size() != 7 {
		t.Errorf("size is %d, %v, want 7", st.Size(), err)
	}
}

func TestAppendingKeepsOffsetsOfPwrite(t *testing.T) {
	dir := folder(t, "file")
	g := newGuest(t, Config{}, dir)
	fd := g.open("file", 0, uint64(flagAppend), allRights)
	g.write(fd, "++")
	list, buf := g.iovs(1)
	g.mem[buf] = 'F'
	g.ok("fd_pwrite", fd, list, 1, 0, g.alloc(4))
	g.ok("fd_seek", fd, 0, whenceSet, g.alloc(8))
	g.write(fd, "--")
	g.ok("fd_fdstat_set_flags", fd, 0)
	g.ok("fd_seek", fd, 1, whenceSet, g.alloc(8))
	g.write(fd, "I")
	if b, err := os.ReadFile(filepath.Join(dir, "file")); string(b) != "FIle++--" {
		t.Errorf("file is %q, %v", b, err)
	}
	g.want(fs.NotSup, "fd_fdstat_set_flags", fd, uint64(flagSync))
	g.want(fs.Inval, "fd_fdstat_set_flags", fd, 1<<5)
	g.ok("fd_fdstat_set_flags", fd, uint64(flagAppend|flagNonblock))
	if _, flags, _, _ := g.fdstat(fd); flags != flagAppend|flagNonblock {
		t.Errorf("flags are %b", flags)
	}
}

func TestRenumber(t *testing.T) {
	g := newGuest(t, Config{}, folder(t, "one", "two"))
	one, two := g.open("one", 0, 0, allRights), g.open("two", 0, 0, allRights)
	g.ok("fd_renumber", one, one)
	g.want(fs.BadF, "fd_renumber", one, 99)
	g.want(fs.BadF, "fd_renumber", 99, one)
	g.want(fs.BadF, "fd_renumber", math.MaxUint32, one)
	g.want(fs.BadF, "fd_renumber", one, math.MaxUint32)
	g.ok("fd_renumber", one, two)
	g.want(fs.BadF, "fd_close", one)
	g.want(fs.BadF, "fd_renumber", two, one)
	if got, errno := g.read(two, 10); got != "one" || errno != 0 {
		t.Errorf("read %q, %d", got, errno)
	}
	if again := g.open("two", 0, 0, allRights); again != one {
		t.Errorf("opened as %d, want the lowest number %d", again, one)
	}
	g.ok("fd_renumber", two, 3)
	g.want(fs.BadF, "fd_prestat_get", 3, g.alloc(8))
	g.ok("fd_close", 3)
	g.ok("fd_renumber", 1, 2)
	g.want(fs.BadF, "fd_close", 1)
}

func TestRenumberLeavesNoDescriptorBehind(t *testing.T) {
	g := newGuest(t, Config{}, folder(t, "file"))
	count := func() int { return hostDescriptors(t) }
	p, n := g.str("file")
	out := g.alloc(4)
	before := count()
	for range 5000 {
		g.ok("path_open", 3, 1, p, n, 0, everything, 0, 0, out)
		a := uint64(g.u32(out))
		g.ok("path_open", 3, 1, p, n, 0, everything, 0, 0, out)
		g.ok("fd_renumber", a, uint64(g.u32(out)))
		g.ok("fd_close", uint64(g.u32(out)))
	}
	// A folder that is open already costs the host nothing, so a million of these are quick.
	dot, one := g.str(".")
	a := g.open(".", 0, 0, 0)
	open, renumber, stack := functionNamed(t, "path_open"), functionNamed(t, "fd_renumber"), make([]uint64, 9)
	for range 1_000_000 {
		copy(stack, []uint64{3, 0, dot, one, 0, 0, 0, 0, out})
		g.h.call(open, g.mem, stack)
		stack[0], stack[1] = uint64(g.u32(out)), a
		if g.h.call(renumber, g.mem, stack); stack[0] != 0 {
			t.Fatalf("renumber: errno %d", stack[0])
		}
	}
	g.ok("fd_close", a)
	if after := count(); after > before+2 {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
	if n := len(g.h.fds.entries); n > 6 {
		t.Errorf("the table has grown to %d entries", n)
	}
}

// hostDescriptors counts the descriptors of the process.
func hostDescriptors(t *testing.T) int {
	t.Helper()
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(open)
}

// TestDescriptorsOfGuestsCostOneOfTheHost opens, lists, reads and looks up: a guest's limit is one of the host's, too.
func TestDescriptorsOfGuestsCostOneOfTheHost(t *testing.T) {
	g := newGuest(t, Config{}, folder(t, "a/b/c/file"))
	before := hostDescriptors(t)
	buf, out := g.alloc(256), g.alloc(4)
	for i := range 200 {
		fd := g.open([]string{"a/b", "a/b/../b/c", "a", "a/b/c/file", "."}[i%5], 0, 0, allRights&^rightFDWrite)
		if i%5 != 3 {
			g.ok("fd_readdir", fd, buf, 256, 0, out)
			g.ok("fd_sync", fd)
		}
	}
	if used := hostDescriptors(t) - before; used > 200+2 {
		t.Errorf("200 descriptors of a guest took %d of the host", used)
	}
}

// TestPreopensOutliveMistakes makes mistakes with numbers: a preopen goes only where it is closed or written over itself.
func TestPreopensOutliveMistakes(t *testing.T) {
	g := newGuest(t, Config{Preopens: []Preopen{{"/", "/"}, {"work", "/sub"}}}, folder(t, "sub/file"))
	for _, c := range [][2]uint64{{99, 3}, {5, 4}, {3, 99}, {4, 5}, {3, 3}, {math.MaxUint32, 3}} {
		g.call("fd_renumber", c[0], c[1])
	}
	g.want(fs.BadF, "fd_close", 5)
	prestat := g.alloc(8)
	for fd := range uint64(2) {
		g.ok("fd_prestat_get", fd+3, prestat)
	}
	// Moved to another number, it stays a preopen; what is put in its place is none.
	file := g.open("sub/file", 0, 0, allRights)
	g.ok("fd_renumber", 4, file)
	g.ok("fd_prestat_get", file, prestat)
	g.want(fs.BadF, "fd_prestat_get", 4, prestat)
	if got := g.open("sub/file", 0, 0, 0); got != 4 {
		t.Errorf("opened as %d, want 4", got)
	}
	g.want(fs.BadF, "fd_prestat_get", 4, prestat)
	g.ok("fd_close", 3)
	g.want(fs.BadF, "fd_prestat_get", 3, prestat)
	if _, errno := g.tryOpen(file, "file", 0, 0, 0, 0, 0); errno != fs.Success {
		t.Errorf("open beneath the preopen that is left: %d", errno)
	}
}

func TestTableOfDescriptorsIsBounded(t *testing.T) {
	dir := folder(t, "file")
	g := newGuest(t, Config{MaxFiles: 8}, dir)
	for range 4 {
		g.open("file", 0, 0, rightFDRead)
	}
	if _, errno := g.tryOpen(3, "new", 0, oflagCreat, 0, 0, 0); errno != fs.MFile {
		t.Errorf("got %d, want %d", errno, fs.MFile)
	}
	if _, errno := g.tryOpen(3, "file", 0, oflagTrunc, uint64(rightFDWrite), 0, 0); errno != fs.MFile {
		t.Errorf("got %d, want %d", errno, fs.MFile)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "file")); string(b) != "file" {
		t.Errorf("a full table changed the file: %q, %v", b, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "new")); err == nil {
		t.Error("a full table made a file")
	}
	g.ok("fd_close", 5)
	if fd := g.open("file", 0, 0, rightFDRead); fd != 5 {
		t.Errorf("opened as %d, want 5", fd)
	}
}

func TestPreopens(t *testing.T) {
	dir := folder(t, "sub/file")
	g := newGuest(t, Config{Preopens: []Preopen{{"/", "/"}, {"work", "/sub"}}}, dir)
	for fd, want := range map[uint64]string{3: "/", 4: "work"} {
		p := g.alloc(8)
		g.ok("fd_prestat_get", fd, p)
		n := uint64(g.u32(p + 4))
		buf := g.alloc(int(n) + 1)
		g.ok("fd_prestat_dir_name", fd, buf, n+1)
		if got := string(g.mem[buf : buf+n]); got != want || g.mem[p] != 0 {
			t.Errorf("preopen %d is %q, want %q", fd, got, want)
		}
		g.want(fs.NameTooLong, "fd_prestat_dir_name", fd, buf, n-1)
		g.want(fs.Fault, "fd_prestat_dir_name", fd, memorySize, n)
	}
	for _, fd := range []uint64{0, 5} {
		g.want(fs.BadF, "fd_prestat_get", fd, 0)
		g.want(fs.BadF, "fd_prestat_dir_name", fd, 0, 100)
	}
	if _, errno := g.tryOpen(4, "file", 0, 0, 0, 0, 0); errno != fs.Success {
		t.Errorf("open beneath the second preopen: %d", errno)
	}
	if _, errno := g.tryOpen(4, "../sub/file", 0, 0, 0, 0, 0); errno != fs.Perm {
		t.Errorf("open above the second preopen: %d", errno)
	}
	empty, err := fs.New(fs.Config{})
	if err != nil {
		t.Fatal(err)
	}
	newGuest(t, Config{FS: empty}, "").want(fs.BadF, "fd_prestat_get", 3, 0)
}

func TestListing(t *testing.T) {
	g := newGuest(t, Config{}, folder(t, "a", "bb", "ccc/"))
	for _, size := range []uint64{27, 40, 64, 4096} {
		got := map[string]fs.FileType{}
		cookie, buf, out := uint64(0), g.alloc(int(size)), g.alloc(4)
		for range 10 {
			g.ok("fd_readdir", 3, buf, size, cookie, out)
			used := uint64(g.u32(out))
			for at := buf; at+direntSize <= buf+used; {
				n := uint64(g.u32(at + 16))
				if at+direntSize+n > buf+used {
					break
				}
				got[string(g.mem[at+direntSize:at+direntSize+n])] = fs.FileType(g.mem[at+20])
				cookie = g.u64(at)
				at += direntSize + n
			}
			if used < size {
				break
			}
		}
		want := map[string]fs.FileType{
			".": fs.TypeDirectory, "..": fs.TypeDirectory, "a": fs.TypeRegular, "bb": fs.TypeRegular, "ccc": fs.TypeDirectory,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("with a buffer of %d: %s", size, diff)
		}
	}
	g.want(fs.Inval, "fd_readdir", 3, 0, 100, 1<<63|1000, g.alloc(4))
	g.want(fs.Fault, "fd_readdir", 3, memorySize-10, 100, 0, g.alloc(4))
}

// TestFolderIsEmptiedWhileItIsListed removes what a listing names as it goes on from the last cookie, as rm -r does.
func TestFolderIsEmptiedWhileItIsListed(t *testing.T) {
	dir := folder(t, "sub/")
	for i := range 700 {
		if err := os.WriteFile(filepath.Join(dir, "sub", fmt.Sprintf("file-%d", i)), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	g := newGuest(t, Config{}, dir)
	sub := g.open("sub", oflagDirectory, 0, dirRights)
	buf, out, start := g.alloc(256), g.alloc(4), g.next
	for cookie, used := uint64(0), uint64(256); used == 256; {
		g.next = start
		g.ok("fd_readdir", sub, buf, 256, cookie, out)
		used = uint64(g.u32(out))
		for at := buf; at+direntSize <= buf+used; {
			n := uint64(g.u32(at + 16))
			if at+direntSize+n > buf+used {
				break
			}
			if name := string(g.mem[at+direntSize : at+direntSize+n]); name != "." && name != ".." {
				if errno := g.path("path_unlink_file", sub, name); errno != fs.Success {
					t.Fatalf("remove %s: %v", name, errno)
				}
			}
			cookie = g.u64(at)
			at += direntSize + n
		}
	}
	if errno := g.path("path_remove_directory", 3, "sub"); errno != fs.Success {
		t.Errorf("remove the folder: %v", errno)
	}
}

func TestSocketCallsOnWhatIsNoSocket(t *testing.T) {
	g := newGuest(t, Config{}, "")
	for _, c := range []struct {
		name string
		args []uint64
	}{
		{"sock_accept", []uint64{0, 0, 0}},
		{"sock_recv", []uint64{0, 0, 0, 0, 0, 0}},
		{"sock_send", []uint64{0, 0, 0, 0, 0}},
		{"sock_shutdown", []uint64{0, 0}},
	} {
		g.want(fs.NotSock, c.name, c.args...)
		c.args[0] = 77
		g.want(fs.BadF, c.name, c.args...)
	}
}
