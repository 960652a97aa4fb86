package depot

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// tempPrefix begins the names of files that are being written.
const tempPrefix = ".new-"

// writeTemp makes a synced file in a folder, under a name of its own, which it returns. The caller renames it.
func writeTemp(dir string, data []byte) (path string, err error) {
	temp, err := os.CreateTemp(dir, tempPrefix+"*")
	if err != nil {
		return "", err
	}
	_, err = temp.Write(data)
	if err == nil {
		err = temp.Sync()
	}
	if err = errors.Join(err, temp.Close()); err != nil {
		return "", errors.Join(err, os.Remove(temp.Name()))
	}
	return temp.Name(), nil
}

// writeFile puts data at path through a synced temporary file in the same folder and a rename, and syncs the folder.
func writeFile(path string, data []byte) error {
	dir := filepath.Dir(path)
	temp, err := writeTemp(dir, data)
	if err != nil {
		return err
	}
	if err := os.Rename(temp, path); err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	return syncDir(dir)
}

func writeJSON(path string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return writeFile(path, data)
}

// syncDir makes the names in a folder durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// makeDirs makes the folders from root down to dir, each of them durable in the one above it.
func makeDirs(root, dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	if dir != root {
		if err := makeDirs(root, filepath.Dir(dir)); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return nil
		}
		return err
	}
	return syncDir(filepath.Dir(dir))
}
