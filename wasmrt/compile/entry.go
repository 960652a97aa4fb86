package compile

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"edgepod/wasmrt/atomicfile"
)

const (
	stagingPrefix = "staging-"
	lockSuffix    = ".lock"
	codeFile      = "code.json"
	maxRecord     = 1 << 16
	// maxFiles bounds how many files an engine may leave.
	maxFiles = 16
)

// record is the content of code.json.
type record struct {
	Files []File `json:"files"`
}

func (r record) size() (n int64) {
	for _, f := range r.Files {
		n += f.Size
	}
	return n
}

func readRecord(dir string) (record, error) {
	var r record
	if err := atomicfile.ReadJSON(filepath.Join(dir, codeFile), &r, maxRecord); err != nil {
		return record{}, err
	}
	if len(r.Files) == 0 {
		return record{}, errors.New("the record of code names no file")
	}
	return r, nil
}

// lookup returns the code of a module, locked, or nil where there is none that is as it should be.
func (c *Cache) lookup(m Module) *Code {
	name := key(m)
	dir := filepath.Join(c.cfg.Dir, name)
	lock, err := lockFolder(dir, false)
	if err != nil {
		return nil
	}
	code := &Code{Dir: dir, lock: lock}
	r, err := readRecord(dir)
	if err == nil {
		err = c.check(name, dir, r)
	}
	if err != nil {
		code.Release()
		return nil
	}
	code.Size = r.size()
	touch(dir)
	return code
}

// check compares the files of an entry with their sums, unless they look as when that was done last.
func (c *Cache) check(name, dir string, r record) error {
	looks, err := appearance(dir, r)
	if err != nil {
		return err
	}
	c.mu.Lock()
	checked := c.checked[name] == looks
	c.mu.Unlock()
	if checked {
		return nil
	}
	for _, f := range r.Files {
		sum, size, err := sumFile(filepath.Join(dir, f.Name))
		if err != nil {
			return err
		}
		if sum != f.Sum || size != f.Size {
			return fmt.Errorf("the code's file %s is damaged", f.Name)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.checked[name] = looks
	return nil
}

// appearance is how the files of an entry look from outside: whatever is done to their content changes it.
func appearance(dir string, r record) (string, error) {
	var b strings.Builder
	for _, f := range r.Files {
		if !filepath.IsLocal(f.Name) {
			return "", fmt.Errorf("the code's file %q is not in its folder", f.Name)
		}
		info, err := os.Lstat(filepath.Join(dir, f.Name))
		if err != nil {
			return "", err
		}
		if !info.Mode().IsRegular() || info.Size() != f.Size {
			return "", fmt.Errorf("the code's file %s is not a regular file of %d bytes", f.Name, f.Size)
		}
		fmt.Fprintf(&b, "%s %s %s\n", f.Name, f.Sum, stamp(info))
	}
	return b.String(), nil
}

// touch notes that an entry is used, in the time of its folder. Once in a while is enough, and spares the disk.
func touch(dir string) {
	const often = 10 * time.Minute
	now := time.Now()
	if info, err := os.Stat(dir); err == nil && now.Sub(info.ModTime()) > often {
		_ = os.Chtimes(dir, now, now) // else it is taken for older than it is
	}
}

// publish takes the folder over from the worker and gives it its name.
func (c *Cache) publish(staging string, m Module) error {
	var r record
	err := filepath.WalkDir(staging, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if c.cfg.UID != 0 {
			if err := os.Lchown(path, os.Getuid(), os.Getgid()); err != nil {
				return err
			}
		}
		if d.IsDir() {
			return os.Chmod(path, 0o700)
		}
		f, err := takeFile(staging, path, d)
		if r.Files = append(r.Files, f); err == nil && len(r.Files) > maxFiles {
			err = fmt.Errorf("the worker left more than %d files", maxFiles)
		}
		return err
	})
	if err == nil && len(r.Files) == 0 {
		err = errors.New("the worker left no code")
	}
	if err == nil {
		err = atomicfile.WriteJSON(filepath.Join(staging, codeFile), r, true)
	}
	if err != nil {
		return fmt.Errorf("compile: %w", err)
	}
	final := filepath.Join(c.cfg.Dir, key(m))
	if err := os.Rename(staging, final); err != nil {
		// What lies there is damaged, or it would have been found: it makes room, whoever uses it.
		if err := c.drop(m); err != nil {
			return err
		}
		if err := os.Rename(staging, final); err != nil {
			return fmt.Errorf("compile: %w", err)
		}
	}
	return atomicfile.SyncDir(c.cfg.Dir)
}

// takeFile makes a file that the worker left one that nobody changes any more, and describes it.
func takeFile(staging, path string, d fs.DirEntry) (File, error) {
	if !d.Type().IsRegular() {
		return File{}, fmt.Errorf("the worker left something that is no file: %s", path)
	}
	name, err := filepath.Rel(staging, path)
	if err != nil {
		return File{}, err
	}
	f := File{Name: name}
	if f.Sum, f.Size, err = sumFile(path); err != nil {
		return File{}, err
	}
	return f, os.Chmod(path, 0o400)
}

// drop removes the code of a module at once, whoever uses it: what has been loaded stays loaded.
func (c *Cache) drop(m Module) error {
	return c.remove(filepath.Join(c.cfg.Dir, key(m)))
}

// remove takes an entry's name away and then removes its files, so that it is there as a whole or not at all.
func (c *Cache) remove(dir string) error {
	aside := filepath.Join(c.cfg.Dir, fmt.Sprintf("%sdropped-%d", stagingPrefix, time.Now().UnixNano()))
	if err := os.Rename(dir, aside); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return fmt.Errorf("remove code: %w", err)
	}
	c.mu.Lock()
	delete(c.checked, filepath.Base(dir))
	c.mu.Unlock()
	return os.RemoveAll(aside)
}

// sumFile returns the SHA-256 of a file in hexadecimal, and its size.
func sumFile(path string) (sum string, size int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", 0, err
	}
	h := sha256.New()
	size, err = io.CopyBuffer(h, onlyReader{f}, make([]byte, 1<<17))
	return hex.EncodeToString(h.Sum(nil)), size, errors.Join(err, f.Close())
}

// onlyReader hides a file's other methods, so that the buffer given is used.
type onlyReader struct{ io.Reader }
