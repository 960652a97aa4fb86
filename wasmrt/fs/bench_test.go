//go:build linux

package fs

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// BenchmarkOperations compares operations of a tree with the host's own, on paths of one and of four names.
func BenchmarkOperations(b *testing.B) {
	dir := b.TempDir()
	deep := filepath.Join(dir, "a/b/c")
	if err := os.MkdirAll(deep, 0o755); err != nil {
		b.Fatal(err)
	}
	for _, p := range []string{filepath.Join(dir, "file"), filepath.Join(deep, "file")} {
		if err := os.WriteFile(p, make([]byte, 4096), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	many := filepath.Join(dir, "many")
	if err := os.Mkdir(many, 0o755); err != nil {
		b.Fatal(err)
	}
	for i := range 10000 {
		if err := os.WriteFile(filepath.Join(many, strconv.Itoa(i)), nil, 0o644); err != nil {
			b.Fatal(err)
		}
	}
	tree, err := New(Config{Root: dir})
	if err != nil {
		b.Fatal(err)
	}
	defer tree.Close()
	d := tree.OpenRoot()
	defer d.Close()
	for _, path := range []string{"file", "a/b/c/file"} {
		b.Run("open "+path, func(b *testing.B) {
			for b.Loop() {
				f, _, err := d.Open(path, OpenFlags{Read: true})
				if err != nil {
					b.Fatal(err)
				}
				f.Close()
			}
		})
		b.Run("open "+path+" native", func(b *testing.B) {
			full := filepath.Join(dir, path)
			for b.Loop() {
				fd, err := unix.Open(full, unix.O_RDONLY|unix.O_CLOEXEC, 0)
				if err != nil {
					b.Fatal(err)
				}
				unix.Close(fd)
			}
		})
		b.Run("stat "+path, func(b *testing.B) {
			for b.Loop() {
				if _, err := d.StatPath(path, true); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("stat "+path+" native", func(b *testing.B) {
			full := filepath.Join(dir, path)
			var st unix.Stat_t
			for b.Loop() {
				if err := unix.Stat(full, &st); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("list 10000", func(b *testing.B) {
		for b.Loop() {
			_, sub, err := d.Open("many", OpenFlags{Read: true, Directory: true})
			if err != nil {
				b.Fatal(err)
			}
			n := 0
			if err := sub.ReadDir(0, func(Entry) bool { n++; return true }); err != nil || n != 10002 {
				b.Fatal(n, err)
			}
			sub.Close()
		}
	})
	b.Run("list 10000 native", func(b *testing.B) {
		buf := make([]byte, 32<<10)
		for b.Loop() {
			fd, err := unix.Open(many, unix.O_RDONLY|unix.O_DIRECTORY, 0)
			if err != nil {
				b.Fatal(err)
			}
			for {
				if n, err := unix.Getdents(fd, buf); n <= 0 || err != nil {
					break
				}
			}
			unix.Close(fd)
		}
	})
}
