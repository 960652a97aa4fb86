package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// folderArchive is a tar archive of a module and folders, made anew each time that it is read.
type folderArchive struct {
	created time.Time
	entries []folderEntry
}

// folderEntry is a file, a folder or a symbolic link. What it holds is data, or is read from the source.
type folderEntry struct {
	header tar.Header
	source string
	data   []byte
}

// add collects the module and what is in the folders, in the order of their names.
func (f *folderArchive) add(file string, dirs []string, module []byte) error {
	seen := map[string]bool{}
	for _, text := range dirs {
		host, guest, err := splitDir(text)
		if err != nil {
			return err
		}
		if err := f.addFolder(host, strings.TrimPrefix(path.Clean(guest), "/"), seen); err != nil {
			return fmt.Errorf("--dir %s: %w", text, err)
		}
	}
	if seen[file] {
		return fmt.Errorf("the folders hold a file %s of their own, where the module is to be", file)
	}
	f.entries = append(f.entries, folderEntry{
		header: tar.Header{Typeflag: tar.TypeReg, Name: file, Mode: 0o755, Size: int64(len(module)), ModTime: f.created}, data: module,
	})
	slices.SortFunc(f.entries, func(a, b folderEntry) int { return strings.Compare(a.header.Name, b.header.Name) })
	return nil
}

func (f *folderArchive) addFolder(host, guest string, seen map[string]bool) error {
	root, err := filepath.EvalSymlinks(host)
	if err != nil {
		return err
	}
	if info, err := os.Stat(root); err != nil || !info.IsDir() {
		return errors.Join(fmt.Errorf("%s is not a folder", host), err)
	}
	return filepath.WalkDir(root, func(source string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, source)
		if err != nil {
			return err
		}
		name := path.Join(guest, filepath.ToSlash(relative))
		if name == "." || name == "" {
			return nil
		}
		if seen[name] {
			if entry.IsDir() {
				return nil
			}
			return fmt.Errorf("/%s comes from two folders", name)
		}
		seen[name] = true
		return f.addEntry(source, name, entry)
	})
}

func (f *folderArchive) addEntry(source, name string, entry fs.DirEntry) error {
	info, err := entry.Info()
	if err != nil {
		return err
	}
	e := folderEntry{source: source, header: tar.Header{Name: name, ModTime: info.ModTime().UTC().Truncate(time.Second), Mode: 0o644}}
	if info.Mode()&0o111 != 0 {
		e.header.Mode = 0o755
	}
	switch info.Mode().Type() {
	case 0:
		e.header.Typeflag, e.header.Size = tar.TypeReg, info.Size()
	case fs.ModeDir:
		e.header.Typeflag, e.header.Name = tar.TypeDir, name+"/"
	case fs.ModeSymlink:
		e.header.Typeflag, e.header.Mode = tar.TypeSymlink, 0o777
		if e.header.Linkname, err = os.Readlink(source); err != nil {
			return err
		}
	default:
		return fmt.Errorf("%s is neither a file, a folder nor a symbolic link", source)
	}
	f.entries = append(f.entries, e)
	return nil
}

// open returns the archive from its start.
func (f *folderArchive) open() (io.ReadCloser, error) {
	r, w := io.Pipe()
	go func() { w.CloseWithError(f.write(w)) }()
	return r, nil
}

func (f *folderArchive) write(w io.Writer) error {
	archive := tar.NewWriter(w)
	for _, e := range f.entries {
		if err := archive.WriteHeader(&e.header); err != nil {
			return err
		}
		if err := e.copy(archive); err != nil {
			return err
		}
	}
	return archive.Close()
}

func (e *folderEntry) copy(w io.Writer) error {
	if e.header.Typeflag != tar.TypeReg {
		return nil
	}
	if e.source == "" {
		_, err := io.Copy(w, bytes.NewReader(e.data))
		return err
	}
	file, err := os.Open(e.source)
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := io.CopyN(w, file, e.header.Size); err != nil {
		return fmt.Errorf("%s changed while it was read: %w", e.source, err)
	}
	return nil
}
