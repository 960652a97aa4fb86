package podlog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"syscall"
)

// maxFiles bounds the number of rotated files that are looked for. A rotation renames the oldest first, so that one number
// is free for a moment, and the newest is missing until it is made: gap is how many may be missing in a row.
const (
	maxFiles = 100
	gap      = 2
)

// openAll opens the log's files, oldest first; none where there is no log yet. It opens the newest first, so that rotations
// meanwhile show files twice, and none is missed. Where a file is seen last counts: what came to stand before it is younger.
func openAll(root *os.Root, name string) ([]*os.File, error) {
	var newest []*os.File
	fail := func(err error) ([]*os.File, error) {
		for _, f := range newest {
			f.Close()
		}
		return nil, err
	}
	missing := 0
	for i := 0; i < maxFiles && missing <= gap; i++ {
		f, err := open(root, rotated(name, i))
		if errors.Is(err, fs.ErrNotExist) {
			missing++
			continue
		}
		if err != nil {
			return fail(err)
		}
		missing = 0
		if at := slices.IndexFunc(newest, func(seen *os.File) bool { return sameFile(seen, f) }); at >= 0 {
			newest[at].Close()
			newest = slices.Delete(newest, at, at+1)
		}
		newest = append(newest, f)
	}
	slices.Reverse(newest)
	return newest, nil
}

func rotated(name string, i int) string {
	if i == 0 {
		return name
	}
	return name + "." + strconv.Itoa(i)
}

// open opens a plain file beneath root for reading. Neither it nor a folder on the way to it may be a link; what was looked
// at is what is opened. A rotation may come in between, so that it tries again a few times.
func open(root *os.Root, name string) (*os.File, error) {
	for range 10 {
		f, err := openOnce(root, name)
		if f != nil || err != nil {
			return f, err
		}
	}
	return nil, fmt.Errorf("%s changes whenever it is opened", name)
}

// openOnce returns neither a file nor an error where what it opened is not what it had looked at.
func openOnce(root *os.Root, name string) (*os.File, error) {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		info, err := root.Lstat(dir)
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			return nil, fmt.Errorf("%s is not a folder", dir)
		}
	}
	info, err := root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a plain file", name)
	}
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	opened, err := f.Stat()
	if err != nil || !os.SameFile(info, opened) {
		f.Close()
		return nil, err
	}
	return f, nil
}

func sameFile(a, b *os.File) bool {
	x, err := a.Stat()
	if err != nil {
		return false
	}
	y, err := b.Stat()
	return err == nil && os.SameFile(x, y)
}

// skipToTail leaves of files, which are in the order of time, the last lines: files before them are closed, the one in
// which they begin is positioned there.
func skipToTail(files []*os.File, lines int64) ([]*os.File, error) {
	for i := len(files) - 1; i >= 0; i-- {
		at, found, err := tail(files[i], lines)
		if err != nil {
			return files, err
		}
		if _, err := files[i].Seek(at, io.SeekStart); err != nil {
			return files, err
		}
		if lines -= found; lines > 0 {
			continue
		}
		for _, f := range files[:i] {
			f.Close()
		}
		return files[i:], nil
	}
	return files, nil
}

// tail finds where the last lines of f begin, and how many there are, up to the number asked for.
func tail(f *os.File, lines int64) (at, found int64, err error) {
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil || lines <= 0 {
		return end, 0, err
	}
	block := make([]byte, 32<<10)
	last := true // the line end at the very end begins no line
	for at = end; at > 0; {
		from := max(at-int64(len(block)), 0)
		part := block[:at-from]
		if _, err := f.ReadAt(part, from); err != nil && !errors.Is(err, io.EOF) {
			return 0, 0, err
		}
		for {
			i := bytes.LastIndexByte(part, '\n')
			if i < 0 {
				break
			}
			if !last || from+int64(i) != end-1 {
				if found++; found == lines {
					return from + int64(i) + 1, found, nil
				}
			}
			last, part = false, part[:i]
		}
		at = from
	}
	if end > 0 {
		found++
	}
	return 0, found, nil
}
