//go:build linux

package fs

import (
	"errors"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// maxLinks is how many symbolic links one lookup follows, maxPlaces how many folders it keeps open: those walked through
// one by one, as a path that goes back or has links in it needs it.
const (
	maxLinks  = 40
	maxPlaces = 100
)

// place is a folder that a walk has reached, one of these:
//
//	p       m       handle
//	set     set     set      a mount point, or a folder on the way to one that the mount beneath has too
//	set     nil     nil      a folder on the way to a mount point that exists nowhere else
//	nil     set     set      any other folder
type place struct {
	p *point
	m *mount
	h *handle
	// run is how many names were walked to get here from the place before: more than one after a quick step.
	run int
}

func (a place) release() {
	if a.h != nil {
		// A descriptor that was opened to look things up has nothing to say when it is closed.
		_ = a.h.release()
	}
}

func (a place) retain() place {
	if a.h != nil {
		a.h.retain()
	}
	return a
}

// writable returns ROFS where nothing may be changed.
func (a place) writable() error {
	if a.m == nil || a.m.readOnly {
		return ROFS
	}
	return nil
}

// walk is one lookup under way. The places walked through are kept, so that ".." needs no help from the kernel, whose
// idea of a parent changes when somebody moves a folder.
type walk struct {
	t     *Tree
	stack []place
	rest  string
	links int
	// slow forbids quick steps.
	slow bool
}

// target is where a path leads: the entry name in at, or at itself where name is "".
type target struct {
	at   place
	name string
	// slash tells that the path ended with a slash, and so means a folder; it is always set where name is "".
	slash bool
	// file is set where name is a mount point that is a file.
	file *mount
	// fixed tells that the target is a mount point, a folder above one, or the folder at which the walk began: none of
	// them can be taken away, and none is a link.
	fixed bool
}

// checkPath refuses what is no path of a guest.
func checkPath(path string) error {
	switch {
	case path == "":
		return NoEnt
	case len(path) > maxPath:
		return NameTooLong
	case strings.IndexByte(path, 0) >= 0:
		return Inval
	case !utf8.ValidString(path):
		return IlSeq
	}
	return nil
}

// lookup resolves path from d and calls op with the target. Op must not let the kernel follow a link: where the target
// is one, it says Loop (or NotDir, if it wants a folder), and with follow the lookup goes on behind the link.
func (d *Dir) lookup(path string, follow bool, op func(target) error) error {
	if err := checkPath(path); err != nil {
		return err
	}
	if path[0] == '/' {
		return Perm
	}
	err := d.try(path, follow, false, op)
	if err == errAgain {
		err = d.try(path, follow, true, op)
	}
	return err
}

// errAgain asks for a second lookup without quick steps.
var errAgain = errors.New("look up once more")

func (d *Dir) try(path string, follow, slow bool, op func(target) error) error {
	w := d.t.walk()
	defer d.t.endWalk(w)
	w.rest, w.slow = path, slow
	w.stack = append(w.stack, d.place.retain())
	for {
		to, err := w.next()
		if err != nil {
			return err
		}
		err = op(to)
		if !follow || to.name == "" || to.fixed || (err != Loop && err != NotDir) {
			return err
		}
		linked, e := w.followName(to)
		if e != nil {
			return e
		}
		if !linked && err == NotDir {
			return err
		}
	}
}

// walk returns a walk that has nothing in it, one that was ended before if there is one.
func (t *Tree) walk() *walk {
	n := len(t.walks)
	if n == 0 {
		return &walk{t: t}
	}
	w := t.walks[n-1]
	t.walks = t.walks[:n-1]
	return w
}

// endWalk lets go of the places of a walk and keeps it for the next.
func (t *Tree) endWalk(w *walk) {
	w.release()
	*w = walk{t: t, stack: w.stack}
	t.walks = append(t.walks, w)
}

func (w *walk) release() {
	for _, a := range w.stack {
		a.release()
	}
	w.stack = w.stack[:0]
}

func (w *walk) top() place { return w.stack[len(w.stack)-1] }

// next walks to the last name of what is left.
func (w *walk) next() (target, error) {
	for {
		name, rest := cut(w.rest)
		if name == "" {
			return target{at: w.top(), slash: true, fixed: len(w.stack) == 1 || w.top().p != nil}, nil
		}
		if len(name) > maxName {
			return target{}, NameTooLong
		}
		if name == ".." {
			if err := w.up(rest); err != nil {
				return target{}, err
			}
			continue
		}
		// A "." after the last name makes that a folder to walk into.
		if n, _ := cut(rest); n == "" && !strings.Contains(rest, ".") {
			return w.last(name, strings.HasSuffix(w.rest, "/"))
		}
		if err := w.step(name, rest); err != nil {
			return target{}, err
		}
	}
}

// last makes the target of a last name.
func (w *walk) last(name string, slash bool) (target, error) {
	c := w.top().p.child(name)
	if c == nil {
		return target{at: w.top(), name: name, slash: slash}, nil
	}
	if c.mount != nil && c.mount.file != "" {
		if slash {
			return target{}, NotDir
		}
		return target{at: w.top(), name: name, file: c.mount, fixed: true}, nil
	}
	if err := w.enter(name); err != nil {
		return target{}, err
	}
	w.rest = ""
	return target{at: w.top(), slash: true, fixed: true}, nil
}

// cut takes the first name off a path, leaving out "." and empty ones.
func cut(path string) (name, rest string) {
	for path != "" {
		name, rest, _ = strings.Cut(path, "/")
		if name != "" && name != "." {
			return name, rest
		}
		path = rest
	}
	return "", ""
}

// up goes back one place.
func (w *walk) up(rest string) error {
	if len(w.stack) == 1 {
		return Perm
	}
	a := w.top()
	if a.run > 1 {
		return errAgain
	}
	w.stack = w.stack[:len(w.stack)-1]
	a.release()
	w.rest = rest
	return nil
}

// step walks into the folder name, or into as many folders as one call of the kernel may take.
func (w *walk) step(name, rest string) error {
	if !w.slow && w.top().h != nil && w.top().p.child(name) == nil {
		done, err := w.quick()
		if done || err != nil {
			return err
		}
	}
	err := w.enter(name)
	// A link beneath a mount point is hidden by it.
	if err == NotDir && w.top().p.child(name) == nil {
		linked, e := w.followName(target{at: w.top(), name: name})
		if e != nil || linked {
			return e
		}
	}
	if err != nil {
		return err
	}
	w.rest = rest
	return nil
}

// enter pushes the folder name, which must not be a link.
func (w *walk) enter(name string) error {
	if len(w.stack) == maxPlaces {
		return NameTooLong
	}
	a := w.top()
	c := a.p.child(name)
	if c != nil && c.mount != nil {
		if c.mount.file != "" {
			return NotDir
		}
		w.stack = append(w.stack, place{p: c, m: c.mount, h: c.mount.dir.retain(), run: 1})
		return nil
	}
	if a.h == nil {
		if c == nil {
			return NoEnt
		}
		w.stack = append(w.stack, place{p: c, run: 1})
		return nil
	}
	fd, err := ignoringEINTR(func() (int, error) {
		return unix.Openat(a.h.fd, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	})
	if err != nil && c != nil {
		w.stack = append(w.stack, place{p: c, run: 1})
		return nil
	}
	switch err {
	case nil:
		w.stack = append(w.stack, place{p: c, m: a.m, h: &handle{fd: fd, refs: 1}, run: 1})
		return nil
	case unix.ELOOP:
		return NotDir
	}
	return ErrnoOf(err)
}

// quick walks through all folders of what is left with one call of the kernel. It is not done where the path goes back,
// where a link is in the way, or where the kernel does not know the call.
func (w *walk) quick() (done bool, _ error) {
	folders, last := splitLast(strings.TrimLeft(w.rest, "/"))
	if !strings.Contains(folders, "/") || goesBack(w.rest) {
		return false, nil
	}
	a := w.top()
	fd, err := openBeneath(a.h.fd, folders, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	switch err {
	case nil:
		w.stack = append(w.stack, place{m: a.m, h: &handle{fd: fd, refs: 1}, run: strings.Count(folders, "/") + 1})
		w.rest = last
		return true, nil
	case unix.ENOENT, unix.ENOTDIR, unix.EACCES, unix.ENAMETOOLONG:
		return false, ErrnoOf(err)
	}
	w.slow = true
	return false, nil
}

// openBeneath opens a path of several names with one call of the kernel, which follows no link and stays beneath.
func openBeneath(folder int, path string, flags int, mode uint64) (int, error) {
	how := unix.OpenHow{
		Flags: uint64(flags), Mode: mode,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	}
	return ignoringEINTR(func() (int, error) { return unix.Openat2(folder, path, &how) })
}

// splitLast splits a path before its last name, slashes after which belong to it.
func splitLast(path string) (folders, last string) {
	end := len(path)
	for end > 0 && path[end-1] == '/' {
		end--
	}
	i := strings.LastIndexByte(path[:end], '/')
	if i < 0 {
		return "", path
	}
	return path[:i], path[i+1:]
}

// endsWithSlash tells that a path means a folder, behind a link if need be.
func endsWithSlash(path string) bool { return strings.HasSuffix(path, "/") }

// goesBack tells whether a path has a ".." in it.
func goesBack(path string) bool {
	for name := range strings.SplitSeq(path, "/") {
		if name == ".." {
			return true
		}
	}
	return false
}

// followName puts the link at to in front of what is left, or tells that there is no link.
func (w *walk) followName(to target) (linked bool, _ error) {
	if w.links++; w.links > maxLinks {
		return false, Loop
	}
	if to.at.h == nil {
		return false, nil
	}
	link, err := readlink(to.at.h.fd, to.name)
	if err == Inval {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	_, rest := cut(w.rest)
	if rest != "" || strings.HasSuffix(w.rest, "/") {
		link += "/" + rest
	}
	if err := checkPath(link); err != nil {
		return false, err
	}
	if link[0] == '/' {
		w.release()
		w.stack = append(w.stack, w.t.rootPlace())
		link = strings.TrimLeft(link, "/")
	}
	w.rest = link
	return true, nil
}

// readlink returns the text of a link; Inval says that it is none.
func readlink(fd int, name string) (string, error) {
	buf := make([]byte, maxPath+1)
	n, err := ignoringEINTR(func() (int, error) { return unix.Readlinkat(fd, name, buf) })
	if err != nil {
		return "", ErrnoOf(err)
	}
	if n > maxPath {
		return "", NameTooLong
	}
	return string(buf[:n]), nil
}

// ignoringEINTR repeats a call that a signal of the Go runtime cut short.
func ignoringEINTR(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if err != unix.EINTR {
			return n, err
		}
	}
}
