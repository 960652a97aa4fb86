package guestfiles_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"edgepod/wasmrt/sandbox/guestfiles"
)

// deepen makes a folder below another, as often as told, and a file in each.
func deepen(t *testing.T, dir string, levels int) {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	for range levels {
		file, err := unix.Openat(fd, "file", unix.O_CREAT|unix.O_WRONLY, 0o600)
		if err := errors.Join(err, unix.Close(file), unix.Mkdirat(fd, "d", 0o700)); err != nil {
			t.Fatal(err)
		}
		next, err := unix.Openat(fd, "d", unix.O_DIRECTORY, 0)
		if err := errors.Join(err, unix.Close(fd)); err != nil {
			t.Fatal(err)
		}
		fd = next
	}
	if err := unix.Close(fd); err != nil {
		t.Fatal(err)
	}
}

func gone(t *testing.T, path string) {
	t.Helper()
	if err := guestfiles.Remove(path); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is still there: %v", path, err)
	}
}

func TestFoldersOfAnyDepthAreRemovedWithFewDescriptors(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pod")
	for _, sub := range []string{"a/b", "~0", "~1/x", "locked/in"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	deepen(t, filepath.Join(dir, "a", "b"), 5000)
	deepen(t, filepath.Join(dir, "~0"), 1000)
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 200, Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
			t.Fatal(err)
		}
	}()
	gone(t, dir)
}

func TestLinksAreRemovedAndNotFollowed(t *testing.T) {
	top := t.TempDir()
	canary, dir := filepath.Join(top, "canary"), filepath.Join(top, "pod")
	err := errors.Join(
		os.MkdirAll(filepath.Join(canary, "sub"), 0o700), os.WriteFile(filepath.Join(canary, "file"), []byte("x"), 0o600),
		os.MkdirAll(filepath.Join(dir, "d"), 0o700), os.Symlink(canary, filepath.Join(dir, "link")),
		os.Symlink(filepath.Join(canary, "file"), filepath.Join(dir, "d", "file")), os.Symlink("..", filepath.Join(dir, "d", "up")),
		unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600), os.Symlink(canary, filepath.Join(top, "link")),
	)
	if err != nil {
		t.Fatal(err)
	}
	gone(t, dir)
	gone(t, filepath.Join(top, "link"))
	gone(t, filepath.Join(top, "nothing"))
	gone(t, filepath.Join(top, "no", "thing"))
	if left, err := os.ReadDir(canary); err != nil || len(left) != 2 {
		t.Errorf("canary: %v, %v", left, err)
	}
}

func TestManyEntriesAndLockedFoldersAreRemoved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pod")
	for i := range 3000 {
		if err := os.MkdirAll(filepath.Join(dir, strconv.Itoa(i%3), strconv.Itoa(i)), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, locked := range []string{"0/0", "0", "1"} {
		if err := os.Chmod(filepath.Join(dir, locked), 0); err != nil {
			t.Fatal(err)
		}
	}
	gone(t, dir)
}
