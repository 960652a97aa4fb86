package cgroup

import (
	"bufio"
	"errors"
	"fmt"
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

// subfolders returns the names of the groups in a group, sorted.
func subfolders(folder string) ([]string, error) {
	entries, err := os.ReadDir(folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// killBeneath kills the processes of a group and of those within, none of which needs to exist.
func killBeneath(folder string) error {
	return filepath.WalkDir(folder, func(dir string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || !d.IsDir() {
			return err
		}
		data, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENODEV) {
			return err
		}
		for _, field := range strings.Fields(string(data)) {
			pid, err := strconv.Atoi(field)
			if err != nil || pid <= 1 || pid == os.Getpid() { // which is here while one of its threads starts a process
				continue
			}
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("process %d: %w", pid, err)
			}
		}
		return nil
	})
}

// removeFolder removes a group and the groups in it. A process that has just ended still holds its group for a moment, so
// it is tried for up to a second.
func removeFolder(folder string) error {
	groups, err := subfolders(folder)
	if err != nil {
		return err
	}
	for _, name := range groups {
		if err := removeFolder(filepath.Join(folder, name)); err != nil {
			return err
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
