package process

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestCopyOfAnImagesFiles(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	old := time.Unix(1_000_000_000, 0)
	secret := filepath.Join(t.TempDir(), "secret")
	err := errors.Join(
		os.MkdirAll(filepath.Join(from, "lib", "deep"), 0o755),
		os.WriteFile(filepath.Join(from, "lib", "deep", "module.py"), []byte("code"), 0o644),
		os.WriteFile(filepath.Join(from, "program"), []byte("run"), 0o555),
		os.WriteFile(filepath.Join(from, "empty"), nil, 0o444),
		os.Chtimes(filepath.Join(from, "lib", "deep", "module.py"), old, old),
		os.Symlink("lib/deep", filepath.Join(from, "link")),
		os.WriteFile(secret, []byte("secret"), 0o600),
		os.Symlink(secret, filepath.Join(from, "out")),
		unix.Mkfifo(filepath.Join(from, "fifo"), 0o644),
	)
	if err != nil {
		t.Fatal(err)
	}
	user := identity{uid: firstUID + 7, gid: firstUID + 7}
	if err := copyRoot(t.Context(), from, to, user); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]fs.FileMode{
		"lib": fs.ModeDir | 0o755, "lib/deep/module.py": 0o644, "program": 0o755, "empty": 0o644,
		"link": fs.ModeSymlink | 0o777, "out": fs.ModeSymlink | 0o777,
	} {
		info, err := os.Lstat(filepath.Join(to, name))
		if err != nil || info.Mode() != want {
			t.Errorf("%s: mode %v, %v; want %v", name, info.Mode(), err, want)
			continue
		}
		if os.Geteuid() == 0 && !ownedBy(t, filepath.Join(to, name), user) {
			t.Errorf("%s does not belong to the pod's user", name)
		}
	}
	if data, err := os.ReadFile(filepath.Join(to, "link", "module.py")); string(data) != "code" || err != nil {
		t.Errorf("file through a link: %q, %v", data, err)
	}
	if info, err := os.Stat(filepath.Join(to, "lib/deep/module.py")); err != nil || !info.ModTime().Equal(old) {
		t.Errorf("time of a file: %v, %v; want %v", info.ModTime(), err, old)
	}
	if _, err := os.Lstat(filepath.Join(to, "fifo")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("special file: %v, want none", err)
	}
	if os.Geteuid() == 0 && ownedBy(t, secret, user) {
		t.Error("the target of a link was given away")
	}
}

func ownedBy(t *testing.T, path string, user identity) bool {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		t.Fatal(err)
	}
	return int(st.Uid) == user.uid && int(st.Gid) == user.gid
}

func TestCopyEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := copyRoot(ctx, t.TempDir(), t.TempDir(), identity{}); !errors.Is(err, context.Canceled) {
		t.Errorf("copy with a cancelled context: %v", err)
	}
}
