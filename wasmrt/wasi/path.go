//go:build linux

package wasi

import (
	"edgepod/wasmrt/fs"
)

// maxPath is the longest path that is copied from a guest.
const maxPath = 4096

// path copies a path of n bytes at p.
func path(mem guestMemory, p, n uint32) (string, error) {
	if n > maxPath {
		return "", fs.NameTooLong
	}
	b, err := view(mem, p, n)
	if err != nil {
		return "", err
	}
	return string(b), nil
}

// dir returns the folder at fd, which must have the rights r.
func (h *Host) dir(fd uint32, r rights) (*descriptor, *fs.Dir, error) {
	d, err := h.fds.get(fd, r)
	if err != nil {
		return nil, nil, err
	}
	o, ok := d.object.(dirObject)
	if !ok {
		return nil, nil, fs.NotDir
	}
	return d, o.Dir, nil
}

// at returns the folder at fd and the path of n bytes at p.
func (h *Host) at(mem guestMemory, fd uint32, r rights, p, n uint32) (*fs.Dir, string, error) {
	_, dir, err := h.dir(fd, r)
	if err != nil {
		return nil, "", err
	}
	name, err := path(mem, p, n)
	return dir, name, err
}

// follows reads lookup flags.
func follows(flags uint32) (bool, error) {
	if flags > 1 {
		return false, fs.Inval
	}
	return flags == 1, nil
}

func (h *Host) pathCreateDirectory(mem guestMemory, p params) error {
	dir, name, err := h.at(mem, p.u32(0), rightPathCreateDirectory, p.u32(1), p.u32(2))
	if err != nil {
		return err
	}
	return dir.Mkdir(name)
}

func (h *Host) pathRemoveDirectory(mem guestMemory, p params) error {
	dir, name, err := h.at(mem, p.u32(0), rightPathRemoveDirectory, p.u32(1), p.u32(2))
	if err != nil {
		return err
	}
	return dir.Rmdir(name)
}

func (h *Host) pathUnlinkFile(mem guestMemory, p params) error {
	dir, name, err := h.at(mem, p.u32(0), rightPathUnlinkFile, p.u32(1), p.u32(2))
	if err != nil {
		return err
	}
	return dir.Unlink(name)
}

// statPath returns what path_filestat_get tells.
func (h *Host) statPath(mem guestMemory, p params) (fs.Stat, error) {
	dir, name, err := h.at(mem, p.u32(0), rightPathFilestatGet, p.u32(2), p.u32(3))
	if err != nil {
		return fs.Stat{}, err
	}
	follow, err := follows(p.u32(1))
	if err != nil {
		return fs.Stat{}, err
	}
	return dir.StatPath(name, follow)
}

func (h *Host) pathFilestatGet(mem guestMemory, p params) error {
	st, err := h.statPath(mem, p)
	if err != nil {
		return err
	}
	return putFilestat(mem, p.u32(4), st)
}

func (h *Host) pathFilestatSetTimes(mem guestMemory, p params) error {
	dir, name, err := h.at(mem, p.u32(0), rightPathFilestatSetTimes, p.u32(2), p.u32(3))
	if err != nil {
		return err
	}
	follow, err := follows(p.u32(1))
	if err != nil {
		return err
	}
	times, err := timesOf(p.u64(4), p.u64(5), p.u16(6))
	if err != nil {
		return err
	}
	return dir.SetTimesPath(name, follow, times)
}

// pathLink makes a hard link. It does not follow a link, and refuses to be asked for it, because the file that is meant
// could be another one by the time it is linked.
func (h *Host) pathLink(mem guestMemory, p params) error {
	from, old, err := h.at(mem, p.u32(0), rightPathLinkSource, p.u32(2), p.u32(3))
	if err != nil {
		return err
	}
	to, name, err := h.at(mem, p.u32(4), rightPathLinkTarget, p.u32(5), p.u32(6))
	if err != nil {
		return err
	}
	if p.u32(1) != 0 {
		return fs.Inval
	}
	return from.Link(old, to, name)
}

func (h *Host) pathRename(mem guestMemory, p params) error {
	from, old, err := h.at(mem, p.u32(0), rightPathRenameSource, p.u32(1), p.u32(2))
	if err != nil {
		return err
	}
	to, name, err := h.at(mem, p.u32(3), rightPathRenameTarget, p.u32(4), p.u32(5))
	if err != nil {
		return err
	}
	return from.Rename(old, to, name)
}

func (h *Host) pathSymlink(mem guestMemory, p params) error {
	text, err := path(mem, p.u32(0), p.u32(1))
	if err != nil {
		return err
	}
	dir, name, err := h.at(mem, p.u32(2), rightPathSymlink, p.u32(3), p.u32(4))
	if err != nil {
		return err
	}
	return dir.Symlink(text, name)
}

// pathReadlink writes as much of a link's text as fits.
func (h *Host) pathReadlink(mem guestMemory, p params) error {
	dir, name, err := h.at(mem, p.u32(0), rightPathReadlink, p.u32(1), p.u32(2))
	if err != nil {
		return err
	}
	b, err := view(mem, p.u32(3), p.u32(4))
	if err != nil {
		return err
	}
	if _, err := view(mem, p.u32(5), 4); err != nil {
		return err
	}
	text, err := dir.Readlink(name)
	if err != nil {
		return err
	}
	return putUint32(mem, p.u32(5), uint32(copy(b, text)))
}
