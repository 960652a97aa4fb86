//go:build linux

package wasi

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"edgepod/wasmrt/fs"
)

// FuzzPathCalls gives any two paths and any flags to the functions that take paths. Whatever they answer is a number of
// the specification, and the folder around the guest's stays as it was, unread.
func FuzzPathCalls(f *testing.F) {
	for i, p := range []string{"a", "b/c", "../secret", "out/secret", "up/../secret", "/etc/passwd", "b//./c/", "link/../..", "\x00", "\xff"} {
		f.Add(p, "made/"+p, uint64(i), uint64(1)<<i)
	}
	f.Fuzz(func(t *testing.T, from, to string, flags, more uint64) {
		around := t.TempDir()
		dir := filepath.Join(around, "root")
		err := errors.Join(os.CopyFS(dir, os.DirFS(folder(t, "a", "b/c"))), os.WriteFile(filepath.Join(around, "secret"), []byte("canary"), 0o644),
			os.Symlink("..", filepath.Join(dir, "out")), os.Symlink("b/../..", filepath.Join(dir, "up")), os.Symlink("b", filepath.Join(dir, "link")))
		if err != nil {
			t.Fatal(err)
		}
		g := newGuest(t, Config{MaxFiles: 16}, dir)
		p, n := g.str(from[:min(len(from), 5000)])
		q, m := g.str(to[:min(len(to), 5000)])
		out, buf := g.alloc(64), g.alloc(64)
		list, _ := g.iovs(64)
		for _, c := range []struct {
			name string
			args []uint64
		}{
			{"path_create_directory", []uint64{3, p, n}},
			{"path_filestat_get", []uint64{3, flags & 1, p, n, out}},
			{"path_filestat_set_times", []uint64{3, flags & 1, p, n, flags, more, flags % 16}},
			{"path_symlink", []uint64{p, n, 3, q, m}},
			{"path_link", []uint64{3, flags & 1, p, n, 3, q, m}},
			{"path_readlink", []uint64{3, p, n, buf, 64, out}},
			{"path_open", []uint64{3, flags & 1, p, n, more, flags, more, flags >> 8, out}},
			{"path_rename", []uint64{3, p, n, 3, q, m}},
			{"path_open", []uint64{3, 1, q, m, 0, everything, everything, 0, out}},
			{"fd_read", []uint64{4, list, 1, out}},
			{"fd_readdir", []uint64{4, buf, 64, more, out}},
			{"path_unlink_file", []uint64{3, p, n}},
			{"path_remove_directory", []uint64{3, q, m}},
		} {
			if errno := g.call(c.name, c.args...); errno > fs.NotCapable {
				t.Errorf("%s%v: errno %d", c.name, c.args, errno)
			}
		}
		if strings.Contains(string(g.mem[:g.next]), "canary") && !strings.Contains(from+to, "canary") {
			t.Errorf("read the canary by %q and %q", from, to)
		}
		entries, err := os.ReadDir(around)
		if text, e := os.ReadFile(filepath.Join(around, "secret")); string(text) != "canary" || e != nil || err != nil || len(entries) != 2 {
			t.Errorf("%q and %q changed the folder around: %q, %d entries", from, to, text, len(entries))
		}
	})
}
