//go:build linux

package fs

import (
	"math"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// OpenFlags say how to open a path.
type OpenFlags struct {
	// Follow follows a link at the end of the path.
	Follow bool
	// Create, Exclusive, Truncate and Directory are the oflags of WASI.
	Create, Exclusive, Truncate, Directory bool
	// Read and Write are the access wanted.
	Read, Write bool
	// Append writes at the end; Sync and DataSync write through to disk.
	Append, Sync, DataSync bool
}

func (o OpenFlags) host() int {
	flags := unix.O_CLOEXEC | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY
	write := o.Write || o.Truncate
	switch {
	case write && o.Read:
		flags |= unix.O_RDWR
	case write:
		flags |= unix.O_WRONLY
	}
	for _, f := range [...]struct {
		on   bool
		flag int
	}{
		{o.Create, unix.O_CREAT},
		{o.Exclusive, unix.O_EXCL},
		{o.Truncate, unix.O_TRUNC},
		{o.Directory, unix.O_DIRECTORY},
		{o.Append, unix.O_APPEND},
		{o.Sync, unix.O_SYNC},
		{o.DataSync, unix.O_DSYNC},
	} {
		if f.on {
			flags |= f.flag
		}
	}
	return flags
}

// Open opens the file or the folder at path; one of the two results is set.
func (d *Dir) Open(path string, o OpenFlags) (f *File, dir *Dir, _ error) {
	if o.Create && o.Directory {
		return nil, nil, Inval
	}
	if fd, m, ok := d.openQuick(path, o); ok {
		return opened(d.t, m, fd, o)
	}
	follow := (o.Follow || endsWithSlash(path)) && !(o.Create && o.Exclusive)
	err := d.lookup(path, follow, func(to target) (err error) {
		if o.Create && endsWithSlash(path) {
			return IsDir
		}
		f, dir, err = to.open(d.t, o)
		return err
	})
	return f, dir, err
}

// openQuick opens a path of several names with one call of the kernel, and returns the mount that it is in. It is left
// to a lookup where the path goes back or ends with a slash, where it enters a mount, where nothing may be changed that
// could be, and where the kernel finds a link or any other reason not to.
func (d *Dir) openQuick(path string, o OpenFlags) (fd int, m *mount, ok bool) {
	switch {
	case d.h == nil || checkPath(path) != nil || path[0] == '/' || strings.IndexByte(path, '/') < 0:
		return 0, nil, false
	case endsWithSlash(path) || goesBack(path):
		return 0, nil, false
	case d.m.readOnly && (o.Create || o.Write || o.Truncate || o.Append):
		return 0, nil, false
	}
	if name, _ := cut(path); d.p.child(name) != nil {
		return 0, nil, false
	}
	mode := uint64(0)
	if o.Create {
		mode = newFileMode
	}
	fd, err := openBeneath(d.h.fd, path, o.host(), mode)
	return fd, d.m, err == nil
}

// newFileMode and newDirMode are the rights of new files and folders, less what the process's mask takes away.
const (
	newFileMode = 0o666
	newDirMode  = 0o777
)

func (to target) open(t *Tree, o OpenFlags) (*File, *Dir, error) {
	if to.file != nil {
		return to.openMountedFile(o)
	}
	if to.name == "" {
		return to.openPlace(t, o)
	}
	if to.slash {
		if o.Create {
			return nil, nil, IsDir
		}
		o.Directory = true
	}
	if to.at.writable() != nil {
		return to.openReadOnly(t, o)
	}
	return openAt(t, to.at.m, to.at.h.fd, to.name, o)
}

// openPlace opens the folder that the path has reached.
func (to target) openPlace(t *Tree, o OpenFlags) (*File, *Dir, error) {
	switch {
	case o.Create && o.Exclusive:
		return nil, nil, Exist
	case o.Create || o.Write || o.Truncate:
		return nil, nil, IsDir
	}
	return nil, &Dir{t: t, place: to.at.retain()}, nil
}

// openReadOnly opens where nothing may be changed: whatever the flags, the host is asked for reading alone.
func (to target) openReadOnly(t *Tree, o OpenFlags) (*File, *Dir, error) {
	st, err := to.stat()
	switch {
	case err == NoEnt && o.Create:
		return nil, nil, ROFS
	case err != nil:
		return nil, nil, err
	case o.Create && o.Exclusive:
		return nil, nil, Exist
	case st.Type == TypeSymlink && o.Directory:
		return nil, nil, NotDir
	case st.Type == TypeSymlink:
		return nil, nil, Loop
	case st.Type == TypeDirectory && (o.Write || o.Truncate || o.Create):
		return nil, nil, IsDir
	case o.Write || o.Truncate:
		return nil, nil, ROFS
	}
	o.Create, o.Append = false, false
	return openAt(t, to.at.m, to.at.h.fd, to.name, o)
}

// openMountedFile opens a file that is a mount point.
func (to target) openMountedFile(o OpenFlags) (*File, *Dir, error) {
	switch {
	case o.Directory:
		return nil, nil, NotDir
	case o.Create && o.Exclusive:
		return nil, nil, Exist
	case to.file.readOnly && (o.Write || o.Truncate):
		return nil, nil, ROFS
	}
	o.Create = false
	f, dir, err := openAt(nil, to.file, to.file.dir.fd, to.file.file, o)
	if dir != nil {
		_ = dir.Close()
		return nil, nil, Stale
	}
	return f, nil, err
}

// openAt opens one name beneath a folder of the host. Devices are for mounts of their own; a pipe or a folder is opened
// without waiting for anybody.
func openAt(t *Tree, m *mount, folder int, name string, o OpenFlags) (*File, *Dir, error) {
	fd, err := ignoringEINTR(func() (int, error) { return unix.Openat(folder, name, o.host(), newFileMode) })
	if err != nil {
		return nil, nil, ErrnoOf(err)
	}
	return opened(t, m, fd, o)
}

// opened makes a file or a folder of a descriptor of the host.
func opened(t *Tree, m *mount, fd int, o OpenFlags) (*File, *Dir, error) {
	if o.Directory {
		// The host would have opened nothing else.
		return nil, openedDir(t, m, fd), nil
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		_ = unix.Close(fd)
		return nil, nil, ErrnoOf(err)
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return nil, openedDir(t, m, fd), nil
	case unix.S_IFREG:
		return &File{fd: fd, readOnly: m.readOnly, kind: TypeRegular}, nil, nil
	case unix.S_IFIFO:
		return &File{fd: fd, readOnly: m.readOnly, kind: TypeUnknown}, nil, nil
	case unix.S_IFCHR:
		if m.file != "" {
			return &File{fd: fd, readOnly: m.readOnly, kind: TypeCharacterDevice}, nil, nil
		}
	}
	_ = unix.Close(fd)
	return nil, nil, Acces
}

// openedDir is a folder of a descriptor that is its own, and so lists it too.
func openedDir(t *Tree, m *mount, fd int) *Dir {
	return &Dir{t: t, place: place{m: m, h: &handle{fd: fd, refs: 1}}, list: listing{fd: fd, opened: true}}
}

// File is an open file that is no folder. Its host descriptor never blocks: where a pipe has nothing, it answers EAGAIN.
type File struct {
	fd       int
	readOnly bool
	kind     FileType
}

// FD is the host's descriptor, which is the File's to close.
func (f *File) FD() int { return f.fd }

// Type is the file's type; a pipe's is unknown.
func (f *File) Type() FileType { return f.kind }

// Close closes the file.
func (f *File) Close() error { return errnoErr(unix.Close(f.fd)) }

// Stat describes the file.
func (f *File) Stat() (Stat, error) { return fstat(f.fd) }

// SetTimes sets the file's times.
func (f *File) SetTimes(times Times) error {
	if f.readOnly {
		return ROFS
	}
	ts := times.timespecs()
	// Without a path the call means the descriptor itself; the library offers it with one only.
	_, _, e := unix.Syscall6(unix.SYS_UTIMENSAT, uintptr(f.fd), 0, uintptr(unsafe.Pointer(&ts[0])), 0, 0, 0)
	if e != 0 {
		return fromUnix(e)
	}
	return nil
}

// SetSize cuts or extends the file.
func (f *File) SetSize(size uint64) error {
	switch {
	case f.readOnly:
		return ROFS
	case size > math.MaxInt64:
		return FBig
	}
	_, err := ignoringEINTR(func() (int, error) { return 0, unix.Ftruncate(f.fd, int64(size)) })
	return errnoErr(err)
}

// Allocate makes sure that n bytes from offset on have room on disk, extending the file where it is shorter.
func (f *File) Allocate(offset, n uint64) error {
	switch {
	case f.readOnly:
		return ROFS
	case n == 0:
		return Inval
	case offset > math.MaxInt64 || n > math.MaxInt64-offset:
		return FBig
	}
	_, err := ignoringEINTR(func() (int, error) { return 0, unix.Fallocate(f.fd, 0, int64(offset), int64(n)) })
	return errnoErr(err)
}

// Advise tells the host how n bytes from offset on will be used; advice is the host's number.
func (f *File) Advise(offset, n uint64, advice int) error {
	if offset > math.MaxInt64 || n > math.MaxInt64 {
		return Inval
	}
	return errnoErr(unix.Fadvise(f.fd, int64(offset), int64(n), advice))
}

// Sync writes the file to disk.
func (f *File) Sync() error { return syncFD(f.fd, unix.Fsync) }

// DataSync writes the file's content to disk.
func (f *File) DataSync() error { return syncFD(f.fd, unix.Fdatasync) }

// syncFD treats what cannot be written to disk, a pipe, as written.
func syncFD(fd int, sync func(int) error) error {
	_, err := ignoringEINTR(func() (int, error) { return 0, sync(fd) })
	if err == unix.EINVAL || err == unix.EROFS {
		return nil
	}
	return errnoErr(err)
}

// SetAppend switches writing at the end on or off.
func (f *File) SetAppend(on bool) error {
	flags, err := unix.FcntlInt(uintptr(f.fd), unix.F_GETFL, 0)
	if err != nil {
		return ErrnoOf(err)
	}
	flags &^= unix.O_APPEND
	if on {
		flags |= unix.O_APPEND
	}
	_, err = unix.FcntlInt(uintptr(f.fd), unix.F_SETFL, flags)
	return errnoErr(err)
}
