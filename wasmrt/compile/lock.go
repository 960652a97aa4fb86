package compile

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// errLocked tells that another holds a lock.
var errLocked = errors.New("in use")

// Hold locks the code in dir, so that nobody takes it for unused, until the file returned is closed: for a container's
// process, which keeps it open.
func Hold(dir string) (*os.File, error) {
	lock, err := lockFolder(dir, false)
	if err != nil {
		return nil, fmt.Errorf("hold code: %w", err)
	}
	return lock, nil
}

// lockFolder locks a folder that is there under this name when the lock is held: shared, or for this one alone.
func lockFolder(dir string, alone bool) (*os.File, error) {
	how := unix.LOCK_SH
	if alone {
		how = unix.LOCK_EX
	}
	f, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	return locked(f, dir, how|unix.LOCK_NB)
}

// locked locks an open file and returns it if it still has its name, else os.ErrNotExist.
func locked(f *os.File, path string, how int) (*os.File, error) {
	err := flock(f, how)
	if err == nil {
		var own, named os.FileInfo
		if own, err = f.Stat(); err == nil {
			if named, err = os.Lstat(path); err == nil && !os.SameFile(own, named) {
				err = os.ErrNotExist
			}
		}
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

func flock(f *os.File, how int) error {
	for {
		err := unix.Flock(int(f.Fd()), how)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EWOULDBLOCK):
			return errLocked
		default:
			return err
		}
	}
}

// fileLock is a file that is locked by one at a time, also among processes, and that is there only while it is.
type fileLock struct {
	file *os.File
	path string
}

// lockFile makes the file at path and locks it, waiting for who holds it.
func lockFile(path string) (*fileLock, error) {
	for {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, err
		}
		switch f, err = locked(f, path, unix.LOCK_EX); {
		case errors.Is(err, os.ErrNotExist): // removed by who held it
		case err != nil:
			return nil, err
		default:
			return &fileLock{file: f, path: path}, nil
		}
	}
}

// remove removes the file and gives the lock up.
func (l *fileLock) remove() {
	_ = os.Remove(l.path) // where it stays, it is locked again the next time
	_ = l.file.Close()
}
