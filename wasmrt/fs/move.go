//go:build linux

package fs

import "golang.org/x/sys/unix"

// Rename moves the entry at from to the path to of another folder, replacing what is there.
func (d *Dir) Rename(from string, toDir *Dir, to string) error {
	return d.lookup(from, false, func(a target) error {
		return toDir.lookup(to, false, func(b target) error {
			if err := sameMount(a, b); err != nil {
				return err
			}
			if err := a.removable(); err != nil {
				return err
			}
			if err := b.removable(); err != nil {
				return err
			}
			if a.slash || b.slash {
				st, err := a.stat()
				if err != nil {
					return err
				}
				if st.Type != TypeDirectory {
					return NotDir
				}
			}
			return errnoErr(unix.Renameat(a.at.h.fd, a.name, b.at.h.fd, b.name))
		})
	})
}

// Link makes a second name, at the path to of another folder, for the file at from. A link at from is not followed,
// unless a slash after it says that a folder is meant, which has one name alone.
func (d *Dir) Link(from string, toDir *Dir, to string) error {
	follow := endsWithSlash(from)
	return d.lookup(from, follow, func(a target) error {
		st, err := a.stat()
		if err = a.mustSuit(st, follow, err); err != nil {
			return err
		}
		return toDir.lookup(to, false, func(b target) error {
			if err := sameMount(a, b); err != nil {
				return err
			}
			if err := b.creatable(); err != nil {
				return err
			}
			if b.slash {
				return b.slashed()
			}
			if st.Type == TypeDirectory {
				return Perm
			}
			return errnoErr(unix.Linkat(a.at.h.fd, a.name, b.at.h.fd, b.name, 0))
		})
	})
}

// sameMount returns XDev for targets in different mounts, even of one folder of the host: what may be done in one is not
// what may be done in the other.
func sameMount(a, b target) error {
	if a.file != nil || b.file != nil || a.at.m != b.at.m {
		return XDev
	}
	return nil
}
