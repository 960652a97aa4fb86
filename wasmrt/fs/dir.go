//go:build linux

package fs

import (
	"strings"

	"golang.org/x/sys/unix"
)

// Dir is an open folder of a guest.
type Dir struct {
	t *Tree
	place
	list listing
}

func (t *Tree) rootPlace() place {
	a := place{p: t.root, m: t.root.mount}
	if a.m != nil {
		a.h = a.m.dir.retain()
	}
	return a
}

// OpenRoot opens the guest's "/".
func (t *Tree) OpenRoot() *Dir { return &Dir{t: t, place: t.rootPlace()} }

// Close lets go of the folder.
func (d *Dir) Close() error {
	err := d.list.close()
	if d.h != nil {
		if e := d.h.release(); err == nil {
			err = e
		}
	}
	if err != nil {
		return ErrnoOf(err)
	}
	return nil
}

// Stat describes the folder itself.
func (d *Dir) Stat() (Stat, error) { return d.place.stat() }

// SetTimes sets the times of the folder itself.
func (d *Dir) SetTimes(times Times) error {
	if err := d.writable(); err != nil {
		return err
	}
	return setTimes(d.h.fd, ".", times)
}

// Sync writes the folder's entries to disk.
func (d *Dir) Sync() error {
	if d.h == nil {
		return nil
	}
	fd, err := d.list.open(d.h.fd)
	if err != nil {
		return err
	}
	return syncFD(fd, unix.Fsync)
}

// StatPath describes the file at path.
func (d *Dir) StatPath(path string, follow bool) (st Stat, _ error) {
	follow = follow || endsWithSlash(path)
	err := d.lookup(path, follow, func(to target) (err error) {
		st, err = to.stat()
		return to.mustSuit(st, follow, err)
	})
	return st, err
}

// mustSuit turns what was found into Loop where it is a link that is to be followed, and into NotDir where the path ends
// with a slash and it is no folder.
func (to target) mustSuit(st Stat, follow bool, err error) error {
	switch {
	case err != nil || to.name == "":
		return err
	case st.Type == TypeSymlink && follow:
		return Loop
	case to.slash && st.Type != TypeDirectory:
		return NotDir
	}
	return nil
}

// SetTimesPath sets the times of the file at path.
func (d *Dir) SetTimesPath(path string, follow bool, times Times) error {
	follow = follow || endsWithSlash(path)
	return d.lookup(path, follow, func(to target) error {
		st, err := to.stat()
		if err := to.mustSuit(st, follow, err); err != nil {
			return err
		}
		if to.file != nil {
			if to.file.readOnly {
				return ROFS
			}
			return setTimes(to.file.dir.fd, to.file.file, times)
		}
		if err := to.at.writable(); err != nil {
			return err
		}
		if to.name == "" {
			return setTimes(to.at.h.fd, ".", times)
		}
		return setTimes(to.at.h.fd, to.name, times)
	})
}

// setTimes sets the times of an entry, of a link itself.
func setTimes(fd int, name string, times Times) error {
	_, err := ignoringEINTR(func() (int, error) {
		return 0, unix.UtimesNanoAt(fd, name, times.timespecs(), unix.AT_SYMLINK_NOFOLLOW)
	})
	if err != nil {
		return ErrnoOf(err)
	}
	return nil
}

// Readlink returns the text of the link at path. A path that ends with a slash means what is behind a link.
func (d *Dir) Readlink(path string) (text string, _ error) {
	follow := endsWithSlash(path)
	err := d.lookup(path, follow, func(to target) (err error) {
		switch {
		case to.name == "" || to.file != nil:
			return Inval
		case to.at.h == nil:
			return NoEnt
		case follow:
			st, err := to.stat()
			if err := to.mustSuit(st, follow, err); err != nil {
				return err
			}
			return Inval
		}
		text, err = readlink(to.at.h.fd, to.name)
		return err
	})
	return text, err
}

// creatable returns an error where no entry can be made at the target: Exist where there is one.
func (to target) creatable() error {
	if to.name == "" || to.file != nil {
		return Exist
	}
	err := to.at.writable()
	if err == nil {
		return nil
	}
	if _, e := to.stat(); e == nil {
		return Exist
	}
	return err
}

// Mkdir makes a folder.
func (d *Dir) Mkdir(path string) error {
	return d.lookup(path, false, func(to target) error {
		if err := to.creatable(); err != nil {
			return err
		}
		return errnoErr(unix.Mkdirat(to.at.h.fd, to.name, newDirMode))
	})
}

// Symlink makes a symbolic link at path. Where its text leads is found out when it is followed, but an absolute text is
// refused: it would mean another file to the host and to those who share the mount elsewhere.
func (d *Dir) Symlink(text, path string) error {
	if err := checkPath(text); err != nil {
		return err
	}
	if text[0] == '/' {
		return Perm
	}
	return d.lookup(path, false, func(to target) error {
		if err := to.creatable(); err != nil {
			return err
		}
		if to.slash {
			return to.slashed()
		}
		return errnoErr(unix.Symlinkat(text, to.at.h.fd, to.name))
	})
}

// slashed is the answer to making something other than a folder at a path that ends with a slash.
func (to target) slashed() error {
	st, err := to.stat()
	switch {
	case err != nil:
		return err
	case st.Type == TypeDirectory:
		return Exist
	}
	return NotDir
}

// removable returns an error where the entry cannot be taken away, for how it is reached or where it is.
func (to target) removable() error {
	if to.fixed || to.name == "" {
		return Busy
	}
	return to.at.writable()
}

// Rmdir removes an empty folder.
func (d *Dir) Rmdir(path string) error {
	return d.lookup(path, false, func(to target) error {
		if to.file != nil {
			return NotDir
		}
		if to.name == "" {
			return notByThisName(path)
		}
		if err := to.removable(); err != nil {
			return err
		}
		return errnoErr(unix.Unlinkat(to.at.h.fd, to.name, unix.AT_REMOVEDIR))
	})
}

// notByThisName is the answer to removing a folder that is a mount point, or whose path ends in a dot or two.
func notByThisName(path string) error {
	_, last := splitLast(path)
	switch strings.TrimRight(last, "/") {
	case ".":
		return Inval
	case "..":
		return NotEmpty
	}
	return Busy
}

// Unlink removes what is not a folder.
func (d *Dir) Unlink(path string) error {
	return d.lookup(path, false, func(to target) error {
		if to.name == "" {
			return IsDir
		}
		if err := to.removable(); err != nil {
			return err
		}
		if to.slash {
			st, err := to.stat()
			switch {
			case err != nil:
				return err
			case st.Type == TypeDirectory:
				return IsDir
			}
			return NotDir
		}
		return errnoErr(unix.Unlinkat(to.at.h.fd, to.name, 0))
	})
}

func errnoErr(err error) error {
	if err != nil {
		return ErrnoOf(err)
	}
	return nil
}
