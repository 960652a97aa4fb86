package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// dataDirVariable names the data folder for every command, so that what runs under `up --ephemeral` finds its cluster.
const dataDirVariable = "EDGEPOD_DATA_DIR"

// defaultDataDir is edgepod's place below the user's data home.
func defaultDataDir(getenv func(string) string) string {
	if dir := getenv(dataDirVariable); dir != "" {
		return dir
	}
	if home := getenv("XDG_DATA_HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, "edgepod")
	}
	if home := getenv("HOME"); home != "" {
		return filepath.Join(home, ".local", "share", "edgepod")
	}
	return filepath.Join(os.TempDir(), fmt.Sprintf("edgepod-%d", os.Getuid()))
}

// kubeconfigPath is where the administrator's kubeconfig of a data folder lies.
func kubeconfigPath(dataDir string) string { return filepath.Join(dataDir, "kubeconfig") }

// modulesPath is the folder for modules that `run` was given; a node allows images from it always.
func modulesPath(dataDir string) string { return filepath.Join(dataDir, "modules") }

// lock is the claim of one running edgepod on a data folder. The kernel drops it with the process, however that ends.
type lock struct{ file *os.File }

// errInUse says that another edgepod holds the data folder.
type errInUse struct {
	dir string
	pid int
}

func (e errInUse) Error() string {
	if e.pid == 0 {
		return fmt.Sprintf("data folder %s is in use by another edgepod; stop that one with `edgepod down`, or choose another folder with --data-dir", e.dir)
	}
	return fmt.Sprintf("data folder %s is in use by another edgepod (pid %d); stop that one with `edgepod down`, or choose another folder with --data-dir", e.dir, e.pid)
}

// lockDataDir makes the folder where it is missing and claims it. The error is errInUse where somebody else has it, also
// after the patience.
func lockDataDir(dir string, patience time.Duration) (*lock, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("data folder %s cannot be made: %w; choose another with --data-dir", dir, err)
	}
	if err := checkOwner(dir); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(lockPath(dir), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("data folder %s is not writable: %w; choose another with --data-dir", dir, err)
	}
	if err := flock(file, patience); err != nil {
		file.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, errInUse{dir, lockHolder(dir)}
		}
		return nil, fmt.Errorf("lock data folder %s: %w", dir, err)
	}
	if err := writePID(file); err != nil {
		file.Close()
		return nil, fmt.Errorf("data folder %s is not writable: %w; choose another with --data-dir", dir, err)
	}
	return &lock{file}, nil
}

// checkOwner refuses the data folder of another user's edgepod, where root would leave files that its owner cannot read.
func checkOwner(dir string) error {
	info, err := os.Stat(lockPath(dir))
	if err != nil {
		return nil // nobody's yet, or not to be read: whoever opens the folder tells
	}
	owner := int(info.Sys().(*syscall.Stat_t).Uid)
	if owner == os.Geteuid() {
		return nil
	}
	name := strconv.Itoa(owner)
	if u, err := user.LookupId(name); err == nil {
		name = u.Username
	}
	return fmt.Errorf("data folder %s is that of user %s: run edgepod as that user (sudo -u %s), or choose another folder with --data-dir", dir, name, name)
}

// lockPatience is how long to wait for a process that was killed to let go of its lock: it may take a moment to die.
const lockPatience = time.Second

func flock(file *os.File, patience time.Duration) error {
	for {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if patience <= 0 || !errors.Is(err, unix.EWOULDBLOCK) {
			return err
		}
		const pause = 20 * time.Millisecond
		time.Sleep(pause)
		patience -= pause
	}
}

// release gives the folder up.
func (l *lock) release() {
	_ = l.file.Truncate(0) // a pid that stays is only read while the lock is held
	l.file.Close()
}

func writePID(file *os.File) error {
	if err := file.Truncate(0); err != nil {
		return err
	}
	_, err := file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

// lockHolder is the pid of who holds the folder, or 0 where that is not known.
func lockHolder(dir string) int {
	data, err := os.ReadFile(lockPath(dir))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		return 0
	}
	return pid
}

func lockPath(dir string) string { return filepath.Join(dir, "lock") }

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
