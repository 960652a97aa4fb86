package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// What a copy of an image's files may hold. The image store refuses larger ones when it unpacks them; this is what keeps a
// damaged store from filling the disk.
const (
	rootMostFiles = 1 << 20
	rootMostBytes = 16 << 30
)

// rootCopy copies the files of an image to the root folder of an attempt. Nobody else can reach that folder while it is
// filled, so that it is addressed by path.
type rootCopy struct {
	from, to string
	user     identity
	// own tells that files are given to user.
	own   bool
	files int
	bytes int64
}

// copyRoot fills the folder to, which exists, with what is in from. Modes, times and symbolic links are kept, but the user
// may change everything: a guest can't ask for that. Where the file system can share the content of both, it does.
func copyRoot(ctx context.Context, from, to string, user identity) error {
	c := &rootCopy{from: from, to: to, user: user, own: os.Geteuid() == 0}
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err := errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if c.files++; c.files > rootMostFiles {
			return fmt.Errorf("it has more than %d files", rootMostFiles)
		}
		return c.copy(path, filepath.Join(to, rel), info)
	})
	if err != nil {
		return fmt.Errorf("copy the image's files: %w", err)
	}
	return nil
}

// copy makes one file, folder or link.
func (c *rootCopy) copy(from, to string, info fs.FileInfo) error {
	var err error
	switch mode := info.Mode(); {
	case mode.IsDir():
		if err = os.Mkdir(to, 0o700); errors.Is(err, fs.ErrExist) && to == c.to {
			err = nil
		}
		err = errors.Join(err, os.Chmod(to, mode.Perm()|0o700))
	case mode.IsRegular():
		err = c.copyFile(from, to, info)
	case mode.Type() == fs.ModeSymlink:
		var target string
		if target, err = os.Readlink(from); err == nil {
			err = os.Symlink(target, to)
		}
	default:
		return nil // devices and the like mean nothing to a guest
	}
	if err == nil && c.own {
		err = os.Lchown(to, c.user.uid, c.user.gid)
	}
	return err
}

func (c *rootCopy) copyFile(from, to string, info fs.FileInfo) (err error) {
	in, err := os.OpenFile(from, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // only read
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	left := rootMostBytes - c.bytes
	if unix.IoctlFileClone(int(out.Fd()), int(in.Fd())) == nil {
		c.bytes += info.Size()
	} else {
		n, err := io.Copy(out, io.LimitReader(in, left)) // by copy_file_range
		if err != nil {
			return err
		}
		c.bytes += n
	}
	if c.bytes >= rootMostBytes {
		return fmt.Errorf("it has more than %d GiB", int64(rootMostBytes)>>30)
	}
	if err := out.Chmod(info.Mode().Perm() | 0o600); err != nil {
		return err
	}
	return os.Chtimes(to, info.ModTime(), info.ModTime())
}
