//go:build linux

package wasi

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"edgepod/wasmrt/fs"
)

// answersByKind are the error numbers that each function gives for each kind of descriptor: 0 success, 8 bad descriptor,
// 28 invalid, 31 is a folder, 54 is no folder, 57 is no socket, 70 has no positions, 76 not permitted by its rights.
const answersByKind = `
                             none    input   output     file   reader   writer norights     pipe   folder     bare
fd_advise                       8       70       70        0        0        0       76       70        8       76
fd_allocate                     8       70       70        0        8        0        8       70        8        8
fd_close                        8        0        0        0        0        0        0        0        0        0
fd_datasync                     8       28       28        0        0        0       76        0        0       76
fd_fdstat_get                   8        0        0        0        0        0        0        0        0        0
fd_fdstat_set_flags             8        0        0        0        0        0       76        0        0       76
fd_fdstat_set_rights            8        0        0        0        0        0        0        0        0        0
fd_filestat_get                 8        0        0        0        0        0       76        0        0       76
fd_filestat_set_size            8       28       28        0        8        0        8       28        8        8
fd_filestat_set_times           8       76       76        0        0        0       76        0        0       76
fd_pread                        8       70        8        0        0        8        8       70       31       31
fd_prestat_get                  8        8        8        8        8        8        8        8        8        8
fd_prestat_dir_name             8        8        8        8        8        8        8        8        8        8
fd_pwrite                       8        8       70        0        8        0        8       70       31       31
fd_read                         8        0        8        0        0        8        8        6       31       31
fd_readdir                      8       54       54       54       54       54       54       54        0       76
fd_renumber                     8        0        0        0        0        0        0        0        0        0
fd_seek                         8       70       70        0        0        0       76       70        8        8
fd_sync                         8       28       28        0        0        0       76        0        0       76
fd_tell                         8       70       70        0        0        0       76       70        8        8
fd_write                        8        8        0        0        8        0        8        0       31       31
path_create_directory           8       54       54       54       54       54       54       54        0       76
path_filestat_get               8       54       54       54       54       54       54       54        0       76
path_filestat_set_times         8       54       54       54       54       54       54       54        0       76
path_link                       8       54       54       54       54       54       54       54        0       76
path_open                       8       54       54       54       54       54       54       54        0       76
path_readlink                   8       54       54       54       54       54       54       54        0       76
path_remove_directory           8       54       54       54       54       54       54       54        0       76
path_rename                     8       54       54       54       54       54       54       54        0       76
path_symlink                    8       54       54       54       54       54       54       54        0       76
path_unlink_file                8       54       54       54       54       54       54       54        0       76
sock_accept                     8       57       57       57       57       57       57       57       57       57
sock_recv                       8       57       57       57       57       57       57       57       57       57
sock_send                       8       57       57       57       57       57       57       57       57       57
sock_shutdown                   8       57       57       57       57       57       57       57       57       57
`

// TestAnswersByKindOfDescriptor calls every function that takes a descriptor with one of each kind.
func TestAnswersByKindOfDescriptor(t *testing.T) {
	kinds := []string{"none", "input", "output", "file", "reader", "writer", "norights", "pipe", "folder", "bare"}
	var b strings.Builder
	b.WriteString("\n" + strings.Repeat(" ", 24))
	for _, k := range kinds {
		fmt.Fprintf(&b, " %8s", k)
	}
	for _, f := range preview1() {
		if !strings.HasPrefix(f.name, "fd_") && !strings.HasPrefix(f.name, "path_") && !strings.HasPrefix(f.name, "sock_") {
			continue
		}
		fmt.Fprintf(&b, "\n%-24s", f.name)
		for _, k := range kinds {
			fmt.Fprintf(&b, " %8d", answerFor(t, f, k))
		}
	}
	b.WriteString("\n")
	if diff := cmp.Diff(answersByKind, b.String()); diff != "" {
		t.Errorf("%s\n%s", diff, &b)
	}
}

// answerFor calls f with a descriptor of that kind, and with other parameters that are good.
func answerFor(t *testing.T, f function, kind string) fs.Errno {
	t.Helper()
	dir := folder(t, "file", "dir/inner", "empty/")
	if err := unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("file", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	g := newGuest(t, Config{Stdin: input(t, "text")}, dir)
	args, ok := g.goodArguments(g.openKind(kind))[f.name]
	if !ok {
		t.Fatalf("no parameters for %s", f.name)
	}
	return g.call(f.name, args...)
}

// openKind returns a descriptor of a kind.
func (g *guest) openKind(kind string) uint64 {
	g.t.Helper()
	switch kind {
	case "input":
		return 0
	case "output":
		return 1
	case "file":
		return g.open("file", 0, 0, allRights)
	case "reader":
		return g.open("file", 0, 0, allRights&^rightFDWrite)
	case "writer":
		return g.open("file", 0, 0, allRights&^rightFDRead)
	case "norights":
		return g.open("file", 0, 0, 0)
	case "pipe":
		return g.open("pipe", 0, uint64(flagNonblock), allRights)
	case "folder":
		return g.open(".", oflagDirectory, 0, dirRights)
	case "bare":
		return g.open(".", oflagDirectory, 0, 0)
	}
	return 99
}

// goodArguments returns parameters for each function that takes a descriptor, fd, that are good for one that it suits.
func (g *guest) goodArguments(fd uint64) map[string][]uint64 {
	out := g.alloc(64)
	list, _ := g.iovs(1)
	p, n := g.str("file")
	q, m := g.str("new")
	e, k := g.str("empty")
	l, j := g.str("link")
	return map[string][]uint64{
		"fd_advise": {fd, 0, 0, 0}, "fd_allocate": {fd, 0, 1}, "fd_fdstat_get": {fd, out}, "fd_fdstat_set_flags": {fd, 0},
		"fd_fdstat_set_rights": {fd, 0, 0}, "fd_filestat_get": {fd, out}, "fd_filestat_set_size": {fd, 1},
		"fd_filestat_set_times": {fd, 1, 1, fstAtim}, "fd_pread": {fd, list, 1, 0, out}, "fd_prestat_get": {fd, out},
		"fd_prestat_dir_name": {fd, out, 64}, "fd_pwrite": {fd, list, 1, 0, out}, "fd_read": {fd, list, 1, out},
		"fd_readdir": {fd, out, 64, 0, out}, "fd_renumber": {fd, 2}, "fd_seek": {fd, 0, whenceSet, out}, "fd_tell": {fd, out},
		"fd_write": {fd, list, 1, out}, "path_create_directory": {fd, q, m}, "path_filestat_get": {fd, 0, p, n, out},
		"path_filestat_set_times": {fd, 0, p, n, 1, 1, fstAtim}, "path_link": {fd, 0, p, n, fd, q, m},
		"path_open": {fd, 0, p, n, 0, 0, 0, 0, out}, "path_readlink": {fd, l, j, out, 8, out + 8},
		"path_remove_directory": {fd, e, k}, "path_rename": {fd, p, n, fd, q, m}, "path_symlink": {p, n, fd, q, m},
		"path_unlink_file": {fd, p, n}, "sock_accept": {fd, 0, out}, "sock_recv": {fd, list, 1, 0, out, out + 8},
		"sock_send": {fd, list, 1, 0, out}, "sock_shutdown": {fd, 1},
		"fd_close": {fd}, "fd_datasync": {fd}, "fd_sync": {fd},
	}
}
