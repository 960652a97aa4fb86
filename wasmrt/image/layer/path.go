package layer

import (
	"archive/tar"
	"errors"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// The modes of what is unpacked: a guest sees none, and whoever runs it must be able to read.
const (
	folderMode = 0o755
	fileMode   = 0o644
)

// The most bytes of a path, of one name in it and of a link's target, the most links on the way to a file, and the most
// folders. A path leaves room for that of the folder which the image lies in.
const (
	maxPath   = 3 << 10
	maxName   = 255
	maxTarget = 4095
	maxLinks  = 40
	maxDepth  = 128
)

// clean returns an entry's name as a path below the root; a leading / says nothing.
func clean(name string) (string, error) {
	switch {
	case name == "":
		return "", Error("it has no name")
	case len(name) > maxPath:
		return "", Error("its path is too long")
	case strings.ContainsRune(name, 0):
		return "", Error("its name has a zero byte")
	}
	depth := 0
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return "", Error("its path leads out of the image")
		}
		if len(part) > maxName {
			return "", Error("its name is too long")
		}
		if depth++; depth > maxDepth {
			return "", Error("it lies too deep")
		}
	}
	return path.Join(".", strings.TrimLeft(name, "/")), nil
}

// shown is a foreign name as it can stand in a message.
func shown(name string) string {
	const most = 100
	if len(name) > most {
		name = name[:most] + "…"
	}
	return strconv.Quote(name)
}

// stamp is an entry's time; one that no file can have is that of 1970.
func stamp(h *tar.Header) time.Time {
	if at := h.ModTime; at.Unix() > 0 && at.Year() < 2200 {
		return at
	}
	return time.Unix(0, 0)
}

// Resolve follows the links on the way of a path, as they are meant in the image: an absolute one begins at its root, which
// none leads out of. What it returns has no link in it, but may not exist. Links that join folders to more than an entry may
// name are an error: each step would take longer than the one before.
func Resolve(root *os.Root, name string) (string, error) {
	return resolve(root, name, new(Budget))
}

func resolve(root *os.Root, name string, budget *Budget) (string, error) {
	done, links := ".", 0
	rest := strings.Split(name, "/")
	for len(rest) > 0 {
		part := rest[0]
		rest = rest[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			done = path.Dir(done)
			continue
		}
		next := path.Join(done, part)
		if len(next) > maxPath || strings.Count(next, "/") >= maxDepth {
			return "", Error("its path leads too deep")
		}
		if err := budget.step(1); err != nil {
			return "", err
		}
		info, err := root.Lstat(next)
		missing := errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) // and so is what follows
		if err != nil && !missing {
			return "", err
		}
		if missing || info.Mode().Type() != fs.ModeSymlink {
			done = next
			continue
		}
		if links++; links > maxLinks {
			return "", Error("too many symbolic links are on its way")
		}
		target, err := root.Readlink(next)
		if err != nil {
			return "", err
		}
		if path.IsAbs(target) {
			done = "."
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return done, nil
}

// parent returns the folder that an entry lies in, links followed, and makes it where the layer does not name it before.
func (a *applier) parent(dir string) (string, error) {
	dir, err := resolve(a.root, dir, a.budget)
	if err != nil || dir == "." {
		return dir, err
	}
	at := "."
	for part := range strings.SplitSeq(dir, "/") {
		at = path.Join(at, part)
		info, err := a.root.Lstat(at)
		switch {
		case err == nil && info.IsDir():
			continue
		case err == nil:
			// A file gives way to the folder of that name, as it does where layers are mounted.
			if err := a.root.Remove(at); err != nil {
				return "", err
			}
		case !errors.Is(err, fs.ErrNotExist):
			return "", err
		}
		if a.budget.Files--; a.budget.Files < 0 {
			return "", Error("it has more files than an image may have here")
		}
		if err := a.mkdir(at); err != nil {
			return "", err
		}
		a.mark(at)
	}
	return dir, nil
}
