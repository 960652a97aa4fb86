//go:build linux

package wasi

import (
	"edgepod/wasmrt/fs"
)

// The flags of path_open.
const (
	oflagCreat = 1 << iota
	oflagDirectory
	oflagExcl
	oflagTrunc

	oflagAll = oflagTrunc<<1 - 1
)

// pathOpen opens a file or folder. The number is set aside first, so that a full table changes nothing on disk.
func (h *Host) pathOpen(mem guestMemory, p params) error {
	d, dir, err := h.dir(p.u32(0), rightPathOpen)
	if err != nil {
		return err
	}
	// Guests ask for rights that nothing in a tree has, those of sockets and such as do not exist.
	base, inheriting := rights(p.u64(5))&dirInheriting, rights(p.u64(6))&dirInheriting
	flags, err := openFlags(p, base)
	if err != nil {
		return err
	}
	if err := d.mayOpen(flags, base|inheriting); err != nil {
		return err
	}
	name, err := path(mem, p.u32(2), p.u32(3))
	if err != nil {
		return err
	}
	fd, err := h.fds.reserve()
	if err != nil {
		return err
	}
	if _, err := view(mem, p.u32(8), 4); err != nil {
		return err
	}
	f, sub, err := dir.Open(name, flags)
	if err != nil {
		return err
	}
	opened := &descriptor{flags: fdflags(p.u16(7))}
	if sub != nil {
		opened.object, opened.base, opened.inheriting = dirObject{sub}, base&dirRights, inheriting
		opened.flags &= flagNonblock
	} else {
		opened.object, opened.base = fileObject{f}, base&fileRights&^lackingRights(flags)
	}
	h.fds.put(fd, opened)
	return putUint32(mem, p.u32(8), uint32(fd))
}

// lackingRights are those that a file which was opened so cannot have.
func lackingRights(flags fs.OpenFlags) rights {
	if flags.Write {
		return 0
	}
	return writeRights
}

// openFlags reads the flags of path_open. A file is opened for writing where the right to write is asked for: many
// guests ask for every other right also when they only read.
func openFlags(p params, base rights) (fs.OpenFlags, error) {
	follow, err := follows(p.u32(1))
	if err != nil {
		return fs.OpenFlags{}, err
	}
	o, fd := p.u32(4), p.u32(7)
	if o > oflagAll || fd > uint32(allFlags) {
		return fs.OpenFlags{}, fs.Inval
	}
	flags := fdflags(fd)
	return fs.OpenFlags{
		Follow: follow,
		Create: o&oflagCreat != 0, Directory: o&oflagDirectory != 0, Exclusive: o&oflagExcl != 0, Truncate: o&oflagTrunc != 0,
		Read: base&(rightFDRead|rightFDReaddir) != 0, Write: base&rightFDWrite != 0,
		Append: flags&flagAppend != 0, Sync: flags&(flagSync|flagRsync) != 0, DataSync: flags&flagDsync != 0,
	}, nil
}

// mayOpen checks a folder's rights against what is to be opened in it.
func (d *descriptor) mayOpen(flags fs.OpenFlags, wanted rights) error {
	switch {
	case flags.Create && d.base&rightPathCreateFile == 0:
		return fs.NotCapable
	case flags.Truncate && !d.mayTruncate():
		return fs.Perm
	case wanted&^d.inheriting != 0:
		return fs.NotCapable
	}
	return nil
}

// mayTruncate tells that files in a folder can be truncated as they are opened. Folders that the libraries of C and Go
// open lack the right for it; it is no more than setting the size afterwards, which what is opened there may do.
func (d *descriptor) mayTruncate() bool {
	return d.base&rightPathFilestatSetSize != 0 || d.inheriting&rightFDFilestatSetSize != 0
}
