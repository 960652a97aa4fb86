package guestfiles

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// maxLevel is how many folders are open at once, one in the other. What lies deeper is brought up first:
//
//	top/d/d/…/d/x/y/z ── the folder x lies too deep ──► top/d/d/…/d, top/~0/y/z
const maxLevel = 64

// Remove removes path and all that is in it, and follows no link. Nobody else may change it meanwhile. Removing what is not
// there is no error.
//
// Unlike os.RemoveAll it takes a bounded number of descriptors, which a guest could otherwise use up for the whole process,
// and takes away folders that their owner has locked.
func Remove(path string) error {
	dir, base := filepath.Split(filepath.Clean(path))
	if dir == "" {
		dir = "."
	}
	parent, err := os.OpenFile(dir, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = parent.Close() }() // only read
	r := &remover{}
	if err := r.entry(parent, base, 0); err != nil {
		return fmt.Errorf("remove %s: %w", path, err)
	}
	return nil
}

// remover removes one tree. top is its uppermost folder, which what lies too deep is moved to, under numbers.
type remover struct {
	top   *os.File
	moved int
}

// entry removes what is named in a folder that lies so many levels below the first.
func (r *remover) entry(in *os.File, name string, level int) error {
	fd := int(in.Fd())
	err := unix.Unlinkat(fd, name, 0)
	switch err {
	case nil, unix.ENOENT:
		return nil
	case unix.EISDIR, unix.EPERM: // a folder, as far as Linux and POSIX tell
	case unix.EACCES: // or in a folder that is locked, which is opened for all
		if err := in.Chmod(0o700); err != nil {
			return err
		}
		if err := unix.Unlinkat(fd, name, 0); err == nil || err == unix.ENOENT {
			return nil
		}
	default:
		return &fs.PathError{Op: "unlink", Path: name, Err: err}
	}
	if level > maxLevel {
		return r.bringUp(fd, name)
	}
	dir, openErr := openFolder(fd, name)
	if openErr == unix.ENOTDIR {
		return &fs.PathError{Op: "unlink", Path: name, Err: err}
	}
	if openErr != nil {
		return &fs.PathError{Op: "open", Path: name, Err: openErr}
	}
	defer func() { _ = dir.Close() }() // only read
	if level == 0 {
		r.top = dir
	}
	if err := r.empty(dir, level+1); err != nil {
		return err
	}
	if err := unix.Unlinkat(fd, name, unix.AT_REMOVEDIR); err != nil && err != unix.ENOENT {
		return &fs.PathError{Op: "rmdir", Path: name, Err: err}
	}
	return nil
}

// openFolder opens a folder, in spite of its mode where the caller owns it.
func openFolder(in int, name string) (*os.File, error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Openat(in, name, flags, 0)
	if err == unix.EACCES && unlock(in, name) == nil {
		fd, err = unix.Openat(in, name, flags, 0)
	}
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// unlock lets the caller into a folder. That is not a link: links can't be locked.
func unlock(in int, name string) error { return unix.Fchmodat(in, name, 0o700, 0) }

// empty removes all entries of a folder. One that can't be removed does not keep the others.
func (r *remover) empty(dir *os.File, level int) error {
	for {
		var failed error
		removed := 0
		if _, err := dir.Seek(0, io.SeekStart); err != nil {
			return err
		}
		for {
			const some = 1024
			names, err := dir.Readdirnames(some)
			for _, name := range names {
				if err := r.entry(dir, name, level); err == nil {
					removed++
				} else if failed == nil {
					failed = err
				}
			}
			if err == io.EOF {
				break
			}
			if err != nil {
				return err
			}
		}
		// A folder that changes while it is read may pass some over.
		if removed == 0 {
			return failed
		}
	}
}

// bringUp moves a folder to the top.
func (r *remover) bringUp(in int, name string) error {
	for {
		to := "~" + strconv.Itoa(r.moved)
		r.moved++
		err := unix.Renameat2(in, name, int(r.top.Fd()), to, unix.RENAME_NOREPLACE)
		if err == unix.EACCES && unlock(in, name) == nil { // where it goes, it has to learn of its new parent
			err = unix.Renameat2(in, name, int(r.top.Fd()), to, unix.RENAME_NOREPLACE)
		}
		if err != unix.EEXIST {
			if err != nil {
				err = &fs.PathError{Op: "rename", Path: name, Err: err}
			}
			return err
		}
	}
}
