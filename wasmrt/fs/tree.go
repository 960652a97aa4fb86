//go:build linux

package fs

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Config describes a guest's tree.
type Config struct {
	// Root is a folder of the host, the guest's "/"; "" is an empty folder that nothing can be made in, but for mounts.
	Root string
	// RootReadOnly refuses every change in the root.
	RootReadOnly bool
	Mounts       []Mount
}

// Mount shows a folder or a file of the host in the guest.
//
// Source is trusted: it is looked up once, by New, and symbolic links in it are followed. A file is opened by its name
// beneath its folder each time, so that one that is replaced by renaming shows its new content.
type Mount struct {
	// Source is a path of the host, Target an absolute path of the guest.
	Source   string
	Target   string
	ReadOnly bool
}

// point is a mount point, the root of the tree, or a folder on the way to a mount point.
type point struct {
	name     string
	parent   *point
	children []*point
	// mount is what is mounted here; nil for a folder on the way, which shows the mount beneath if that has the folder.
	mount *mount
	// ino numbers the points of a tree, for those without a folder of the host.
	ino uint64
}

// mount is a folder or file of the host, held open.
type mount struct {
	// dir is the folder, or the folder that holds the file named file.
	dir      *handle
	file     string
	readOnly bool
}

// Tree is a guest's file tree. Its methods and those of the values it hands out are for one goroutine at a time.
type Tree struct {
	root   *point
	mounts []*mount
	// walks are those that have ended, kept for the next lookups.
	walks []*walk
}

// New opens the root and the mounts. The caller closes the Tree.
func New(cfg Config) (*Tree, error) {
	t := &Tree{root: &point{ino: 1}}
	if err := t.build(cfg); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

func (t *Tree) build(cfg Config) error {
	if cfg.Root != "" {
		m, err := t.open(cfg.Root, cfg.RootReadOnly)
		if err != nil {
			return fmt.Errorf("root %s: %w", cfg.Root, err)
		}
		if m.file != "" {
			return fmt.Errorf("root %s: not a folder", cfg.Root)
		}
		t.root.mount = m
	}
	next := uint64(2)
	for _, spec := range cfg.Mounts {
		if !path.IsAbs(spec.Target) || strings.ContainsRune(spec.Target, 0) {
			return fmt.Errorf("mount at %q: not an absolute path", spec.Target)
		}
		p, err := t.point(path.Clean(spec.Target), &next)
		if err != nil {
			return err
		}
		if p.mount != nil {
			return fmt.Errorf("mount at %s: there is one already", spec.Target)
		}
		if p.mount, err = t.open(spec.Source, spec.ReadOnly); err != nil {
			return fmt.Errorf("mount at %s: %w", spec.Target, err)
		}
		if p.mount.file != "" && p.parent == nil {
			return fmt.Errorf("mount at %s: %s is not a folder", spec.Target, spec.Source)
		}
	}
	return t.checkFiles(t.root)
}

// checkFiles refuses a mount beneath a file.
func (t *Tree) checkFiles(p *point) error {
	if p.mount != nil && p.mount.file != "" && len(p.children) > 0 {
		return fmt.Errorf("mount at %s: the mount above it is a file", p.children[0].path())
	}
	for _, c := range p.children {
		if err := t.checkFiles(c); err != nil {
			return err
		}
	}
	return nil
}

// point finds or makes the point of a clean absolute path.
func (t *Tree) point(target string, next *uint64) (*point, error) {
	p := t.root
	for name := range strings.SplitSeq(strings.Trim(target, "/"), "/") {
		if name == "" {
			return p, nil
		}
		if len(name) > maxName {
			return nil, fmt.Errorf("mount at %s: %w", target, NameTooLong)
		}
		c := p.child(name)
		if c == nil {
			c = &point{name: name, parent: p, ino: *next}
			*next++
			p.children = append(p.children, c)
		}
		p = c
	}
	return p, nil
}

// open opens a folder, or the folder of a file.
func (t *Tree) open(source string, readOnly bool) (*mount, error) {
	source, err := filepath.EvalSymlinks(source)
	if err != nil {
		return nil, err
	}
	m := &mount{readOnly: readOnly}
	var st unix.Stat_t
	if err := unix.Stat(source, &st); err != nil {
		return nil, &pathError{source, err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		source, m.file = filepath.Split(filepath.Clean(source))
	}
	fd, err := unix.Open(source, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &pathError{source, err}
	}
	m.dir = &handle{fd: fd, refs: 1}
	t.mounts = append(t.mounts, m)
	return m, nil
}

// Empty tells that there is neither a root nor a mount.
func (t *Tree) Empty() bool { return len(t.mounts) == 0 }

// Close closes the root and the mounts; descriptors opened from them stay.
func (t *Tree) Close() error {
	var err error
	for _, m := range t.mounts {
		err = errors.Join(err, m.dir.release())
	}
	t.mounts = nil
	return err
}

// child returns the point of that name in p, which may be nil.
func (p *point) child(name string) *point {
	if p == nil {
		return nil
	}
	for _, c := range p.children {
		if c.name == name {
			return c
		}
	}
	return nil
}

func (p *point) path() string {
	if p.parent == nil {
		return "/"
	}
	return path.Join(p.parent.path(), p.name)
}

// pathError is an error of the host at a path of the host.
type pathError struct {
	path string
	err  error
}

func (e *pathError) Error() string { return e.path + ": " + e.err.Error() }

func (e *pathError) Unwrap() error { return e.err }
