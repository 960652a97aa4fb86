//go:build faults && linux

package store_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"edgepod/server/store"
	"edgepod/server/store/storetest"
)

// These tests need root, loop devices and mkfs.ext4: go test -tags faults. They cut a file system off from its disk, as a
// power cut would: what was not synced is gone when it is mounted again.
const (
	powerCuts    = 10
	ioctlCut     = 0x8004587d // EXT4_IOC_SHUTDOWN
	cutLosingLog = 2          // EXT4_GOING_FLAGS_NOLOGFLUSH
)

func run(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
}

// powerDisk makes a file system whose power can be cut. In the writing process there is nothing to make.
func powerDisk(t *testing.T) storetest.Disk {
	t.Helper()
	if storetest.IsWriter() {
		return storetest.Disk{}
	}
	dir := t.TempDir()
	image, mount := filepath.Join(dir, "image"), filepath.Join(dir, "mount")
	if err := os.Mkdir(mount, 0o700); err != nil {
		t.Fatal(err)
	}
	run(t, "truncate", "-s", "256M", image)
	run(t, "mkfs.ext4", "-q", image)
	run(t, "mount", "-o", "loop", image, mount)
	t.Cleanup(func() { run(t, "umount", mount) })
	return storetest.Disk{
		Dir: filepath.Join(mount, "store"),
		Cut: func(t *testing.T) {
			root, err := os.Open(mount)
			if err != nil {
				t.Fatal(err)
			}
			defer root.Close()
			if err := unix.IoctlSetPointerInt(int(root.Fd()), ioctlCut, cutLosingLog); err != nil {
				t.Fatalf("cut %s: %v", mount, err)
			}
		},
		Mend: func(t *testing.T) {
			run(t, "umount", mount)
			run(t, "mount", "-o", "loop", image, mount)
		},
	}
}

func TestPowerCutLosesNothing(t *testing.T) {
	for _, loss := range storetest.Crash(t, open, powerDisk(t), powerCuts) {
		t.Error(loss)
	}
}

func TestPowerCutSeesTheLossesWithoutSync(t *testing.T) {
	losses := storetest.Crash(t, func(t *testing.T, dir string) store.Store {
		cfg := store.Config{Path: filepath.Join(dir, "state.db")}
		b, err := store.Open(cfg)
		if errors.Is(err, store.ErrDamaged) {
			// A file that is torn to pieces is as good as an empty one here.
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
			b, err = store.Open(cfg)
		}
		if err != nil {
			t.Fatalf("open: %v", err)
		}
		b.NoSync()
		return b
	}, powerDisk(t), powerCuts)
	if len(losses) == 0 {
		t.Error("a store that does not sync lost nothing")
	}
}
