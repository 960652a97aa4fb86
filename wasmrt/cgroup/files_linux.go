package cgroup

import (
	"bufio"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// readKey returns the number of a "key number" line. A missing file or key is ErrNoGroup.
func readKey(file, key string) (uint64, error) {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, ErrNoGroup
	}
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), key+" "); ok {
			return strconv.ParseUint(value, 10, 64)
		}
	}
	if err := lines.Err(); err != nil {
		return 0, err
	}
	return 0, ErrNoGroup
}

// removeFolder removes a group and the groups in it. A process that has just ended still holds its group for a moment, so
// it is tried for up to a second.
func removeFolder(folder string) error {
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := removeFolder(filepath.Join(folder, e.Name())); err != nil {
				return err
			}
		}
	}
	const patience, pause = time.Second, 2 * time.Millisecond
	for began := time.Now(); ; time.Sleep(pause) {
		err := syscall.Rmdir(folder)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if !errors.Is(err, syscall.EBUSY) || time.Since(began) > patience {
			return &fs.PathError{Op: "remove cgroup", Path: folder, Err: err}
		}
	}
}
