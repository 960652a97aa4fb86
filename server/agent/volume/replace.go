package volume

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const current = "..data"

// replace makes files the content of dir in one step: a reader sees the old content or the new, whole. Content that is
// there already stays.
func (f Folder) replace(dir string, files map[string]file) error {
	old, err := os.Readlink(filepath.Join(dir, current))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if old != "" && f.same(filepath.Join(dir, filepath.Base(old)), files) {
		return link(dir, files)
	}
	fresh, err := os.MkdirTemp(dir, "..content-")
	if err != nil {
		return err
	}
	if err := f.fill(fresh, files); err != nil {
		return errors.Join(err, os.RemoveAll(fresh))
	}
	next := filepath.Join(dir, "..data_next")
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Symlink(filepath.Base(fresh), next); err != nil {
		return err
	}
	if err := os.Rename(next, filepath.Join(dir, current)); err != nil {
		return err
	}
	if err := link(dir, files); err != nil {
		return err
	}
	return sweep(dir, filepath.Base(fresh))
}

// fill makes the files, each its owner's; the folders stay this process's own, so that nobody else adds to them.
func (f Folder) fill(dir string, files map[string]file) error {
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := makeFolders(dir, filepath.Dir(name)); err != nil {
			return err
		}
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, files[name].data, 0o600); err != nil {
			return err
		}
		if err := errors.Join(f.own(path), os.Chmod(path, files[name].mode)); err != nil {
			return err
		}
	}
	return nil
}

// makeFolders makes the folders of a path beneath dir, for all to see whatever the umask.
func makeFolders(dir, path string) error {
	if path == "." {
		return nil
	}
	if err := makeFolders(dir, filepath.Dir(path)); err != nil {
		return err
	}
	return makeDir(filepath.Join(dir, path), 0o755)
}

// same tells whether dir holds exactly files, and as their owner's.
func (f Folder) same(dir string, files map[string]file) bool {
	seen := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		want, ok := files[name]
		info, statErr := d.Info()
		data, readErr := os.ReadFile(path)
		if !ok || statErr != nil || readErr != nil || info.Mode() != want.mode || !f.owns(info) || !bytes.Equal(data, want.data) {
			return fs.ErrInvalid
		}
		seen++
		return nil
	})
	return err == nil && seen == len(files)
}

// link makes the links to the files' first path elements, and removes those that lead nowhere now.
func link(dir string, files map[string]file) error {
	want := map[string]bool{}
	for name := range files {
		first, _, _ := strings.Cut(name, string(filepath.Separator))
		want[first] = true
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		switch {
		case strings.HasPrefix(e.Name(), ".."):
		case want[e.Name()]:
			delete(want, e.Name())
		default:
			if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	for name := range want {
		if err := os.Symlink(filepath.Join(current, name), filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// sweep removes the content of earlier times.
func sweep(dir, keep string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "..content-") && e.Name() != keep {
			if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}
