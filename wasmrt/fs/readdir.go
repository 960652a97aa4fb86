//go:build linux

package fs

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Entry is an entry of a folder.
type Entry struct {
	// Next is where the entry after this one is found.
	Next uint64
	Ino  uint64
	Type FileType
	Name string
}

// ours marks the cookies of entries that are not the host's: ".", "..", and mount points, in this order. The host's
// entries follow, with the positions that the host's file system gives them, which stay good while the folder changes.
const ours = 1 << 63

// listing reads the host's entries of a folder.
type listing struct {
	// fd is a descriptor that nobody else reads from, valid while opened: its position is the listing's. With own it was
	// opened for the listing; otherwise it is the folder's.
	fd          int
	opened, own bool
	buf         []byte
	left        []byte
	// at is the position of the first entry in left.
	at uint64
}

func (l *listing) open(folder int) (int, error) {
	if l.opened {
		return l.fd, nil
	}
	fd, err := ignoringEINTR(func() (int, error) {
		return unix.Openat(folder, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return 0, ErrnoOf(err)
	}
	l.fd, l.opened, l.own = fd, true, true
	return fd, nil
}

func (l *listing) close() error {
	if !l.own {
		return nil
	}
	l.opened, l.own = false, false
	return unix.Close(l.fd)
}

// ReadDir calls yield for the entries from cookie on, until it returns false. The first entry is at cookie 0, any other
// at the Next of the one before.
func (d *Dir) ReadDir(cookie uint64, yield func(Entry) bool) error {
	own, err := d.ownEntries()
	if err != nil {
		return err
	}
	if cookie == 0 {
		cookie = ours
	}
	if cookie >= ours {
		i := cookie &^ ours
		if i > uint64(len(own)) {
			return Inval
		}
		for _, e := range own[i:] {
			if !yield(e) {
				return nil
			}
		}
		cookie = 0
	}
	if d.h == nil {
		return nil
	}
	return d.readHost(cookie, yield)
}

// ownEntries returns the entries that are not the host's.
func (d *Dir) ownEntries() ([]Entry, error) {
	st, err := d.Stat()
	if err != nil {
		return nil, err
	}
	own := []Entry{{Ino: st.Ino, Type: TypeDirectory, Name: "."}, {Ino: st.Ino, Type: TypeDirectory, Name: ".."}}
	if d.p != nil {
		for _, c := range d.p.children {
			e := Entry{Ino: c.ino, Type: TypeDirectory, Name: c.name}
			// A name that cannot be described, because the host took the file away, is still listed.
			if st, err := d.StatPath(c.name, false); err == nil {
				e.Ino, e.Type = st.Ino, st.Type
			}
			own = append(own, e)
		}
		slices.SortFunc(own[2:], func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	}
	for i := range own {
		own[i].Next = ours | uint64(i+1)
	}
	return own, nil
}

// readHost yields the host's entries, but for those that a mount point hides.
func (d *Dir) readHost(cookie uint64, yield func(Entry) bool) error {
	fd, err := d.list.open(d.h.fd)
	if err != nil {
		return err
	}
	l := &d.list
	if cookie == 0 || len(l.left) == 0 || l.at != cookie {
		if _, err := unix.Seek(fd, int64(cookie), unix.SEEK_SET); err != nil {
			return ErrnoOf(err)
		}
		l.left, l.at = nil, cookie
	}
	for {
		if len(l.left) == 0 {
			if n, err := l.fill(); n == 0 || err != nil {
				return err
			}
		}
		e, size := parseEntry(l.left)
		if e.Name != "." && e.Name != ".." && d.p.child(e.Name) == nil {
			if e.Type == TypeUnknown {
				e.Type = d.typeOf(e.Name)
			}
			if !yield(e) {
				return nil
			}
		}
		l.left, l.at = l.left[size:], e.Next
	}
}

func (d *Dir) typeOf(name string) FileType {
	st, err := lstat(d.h.fd, name)
	if err != nil {
		return TypeUnknown
	}
	return st.Type
}

// fill reads the next entries from the host.
func (l *listing) fill() (int, error) {
	if l.buf == nil {
		l.buf = make([]byte, 16<<10)
	}
	n, err := ignoringEINTR(func() (int, error) { return unix.Getdents(l.fd, l.buf) })
	if err != nil {
		return 0, ErrnoOf(err)
	}
	l.left = l.buf[:n]
	return n, nil
}

// parseEntry reads the first of the kernel's entries (struct linux_dirent64) and tells its size.
func parseEntry(b []byte) (Entry, int) {
	size := int(binary.NativeEndian.Uint16(b[16:]))
	name := b[19:size]
	if i := bytes.IndexByte(name, 0); i >= 0 {
		name = name[:i]
	}
	return Entry{
		Ino:  binary.NativeEndian.Uint64(b),
		Next: binary.NativeEndian.Uint64(b[8:]),
		Type: typeOfMode(uint32(b[18]) << 12),
		Name: string(name),
	}, size
}
