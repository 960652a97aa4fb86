//go:build linux

package fs

import (
	"time"

	"golang.org/x/sys/unix"
)

// FileType is a type of file in WASI preview 1.
type FileType uint8

// The types of file.
const (
	TypeUnknown         FileType = 0
	TypeBlockDevice     FileType = 1
	TypeCharacterDevice FileType = 2
	TypeDirectory       FileType = 3
	TypeRegular         FileType = 4
	TypeSocketDgram     FileType = 5
	TypeSocketStream    FileType = 6
	TypeSymlink         FileType = 7
)

// Stat describes a file. Times are in nanoseconds since 1970.
type Stat struct {
	Dev, Ino         uint64
	Type             FileType
	Nlink            uint64
	Size             uint64
	Atim, Mtim, Ctim uint64
}

// Times are new times for a file; a time that is not set stays.
type Times struct {
	Atim, Mtim Time
}

// Time is a time to set, in nanoseconds since 1970; Now takes the host's, Keep leaves the file's.
type Time struct {
	Nanos uint64
	How   TimeHow
}

// TimeHow says which time is meant.
type TimeHow uint8

// The ways to set a time.
const (
	Keep TimeHow = iota
	Set
	Now
)

func (t Time) timespec() unix.Timespec {
	switch t.How {
	case Set:
		return unix.Timespec{Sec: int64(t.Nanos / uint64(time.Second)), Nsec: int64(t.Nanos % uint64(time.Second))}
	case Now:
		return unix.Timespec{Nsec: unix.UTIME_NOW}
	}
	return unix.Timespec{Nsec: unix.UTIME_OMIT}
}

func (t Times) timespecs() []unix.Timespec {
	return []unix.Timespec{t.Atim.timespec(), t.Mtim.timespec()}
}

func typeOfMode(mode uint32) FileType {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		return TypeRegular
	case unix.S_IFDIR:
		return TypeDirectory
	case unix.S_IFLNK:
		return TypeSymlink
	case unix.S_IFCHR:
		return TypeCharacterDevice
	case unix.S_IFBLK:
		return TypeBlockDevice
	case unix.S_IFSOCK:
		return TypeSocketStream
	}
	return TypeUnknown
}

func statOf(st *unix.Stat_t) Stat {
	return Stat{
		Dev: uint64(st.Dev), Ino: st.Ino, Type: typeOfMode(st.Mode), Nlink: uint64(st.Nlink), Size: uint64(max(st.Size, 0)),
		Atim: nanos(st.Atim), Mtim: nanos(st.Mtim), Ctim: nanos(st.Ctim),
	}
}

// nanos cuts times before 1970, which a guest cannot be told, to 1970.
func nanos(t unix.Timespec) uint64 { return uint64(max(t.Nano(), 0)) }

func fstat(fd int) (Stat, error) {
	var st unix.Stat_t
	_, err := ignoringEINTR(func() (int, error) { return 0, unix.Fstat(fd, &st) })
	if err != nil {
		return Stat{}, ErrnoOf(err)
	}
	return statOf(&st), nil
}

// lstat describes the entry name of a folder, a link itself.
func lstat(fd int, name string) (Stat, error) {
	var st unix.Stat_t
	_, err := ignoringEINTR(func() (int, error) { return 0, unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) })
	if err != nil {
		return Stat{}, ErrnoOf(err)
	}
	return statOf(&st), nil
}

// stat describes a place itself.
func (a place) stat() (Stat, error) {
	if a.h != nil {
		return fstat(a.h.fd)
	}
	return Stat{Ino: a.p.ino, Type: TypeDirectory, Nlink: 2}, nil
}

// stat describes a target, a link itself.
func (to target) stat() (Stat, error) {
	switch {
	case to.file != nil:
		return lstat(to.file.dir.fd, to.file.file)
	case to.name == "":
		return to.at.stat()
	case to.at.h == nil:
		return Stat{}, NoEnt
	}
	return lstat(to.at.h.fd, to.name)
}
