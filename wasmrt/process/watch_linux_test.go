package process_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// awaitOutput returns when the log holds this output.
func awaitOutput(t testing.TB, path, want string) {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	events := os.NewFile(uintptr(fd), "inotify")
	defer func() { _ = events.Close() }()
	if _, err := unix.InotifyAddWatch(fd, filepath.Dir(path), unix.IN_MODIFY|unix.IN_CREATE); err != nil {
		t.Fatal(err)
	}
	if err := events.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	for buf := make([]byte, 4096); logged(t, path) != want; {
		if _, err := events.Read(buf); err != nil {
			t.Fatalf("log %q, want %q: %v", logged(t, path), want, err)
		}
	}
}
