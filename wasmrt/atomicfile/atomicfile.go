// Package atomicfile writes files that are either wholly there or not at all.
package atomicfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Write puts data at path through a temporary file beside it and a rename. A reader sees the old content or the new; so
// does the next boot after a power cut where sync is set, which costs two flushes to disk.
func Write(path string, data []byte, perm os.FileMode, sync bool) (err error) {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*.tmp")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close(), os.Remove(f.Name()))
		}
	}()
	if _, err := f.Write(data); err != nil {
		return err
	}
	if err := f.Chmod(perm); err != nil {
		return err
	}
	if sync {
		if err := f.Sync(); err != nil {
			return err
		}
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	if err := f.Close(); err != nil || !sync {
		return err
	}
	return SyncDir(dir)
}

// WriteJSON is Write of v in JSON, with mode 0600.
func WriteJSON(path string, v any, sync bool) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return Write(path, data, 0o600, sync)
}

// ErrCorrupt is wrapped by the error of ReadJSON where the file is there and cannot be read as JSON.
var ErrCorrupt = errors.New("file is corrupt")

// ReadJSON reads the file at path into v. It follows no symbolic link at path and reads no more than limit bytes.
func ReadJSON(path string, v any, limit int64) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || info.Size() > limit {
		return fmt.Errorf("%s: %w: it is not a regular file of at most %d bytes", path, ErrCorrupt, limit)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("%s: %w: %w", path, ErrCorrupt, err)
	}
	return nil
}

// SyncDir makes the names in a folder durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
