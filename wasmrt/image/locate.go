package image

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"edgepod/wasmrt/image/inspect"
	"edgepod/wasmrt/sandbox"
)

// BuiltinPrefix begins the names of the modules that ship in the binary.
const BuiltinPrefix = "edgepod.dev/"

// problem is an error whose text is for the user, and which is about the image.
type problem = inspect.Problem

// missing is a problem that is gone once the file is there.
type missing string

func (m missing) Error() string        { return string(m) }
func (m missing) Is(target error) bool { return target == fs.ErrNotExist }

// imageError gives err the shape that the agent reports.
func imageError(ref string, err error) error {
	var ready *sandbox.ImageError
	if errors.As(err, &ready) {
		return err
	}
	return &sandbox.ImageError{Reason: sandbox.ReasonErrImagePull, Ref: ref, Message: err.Error()}
}

// source is an opened module that has not been read.
type source struct {
	file    fs.File
	key     string // names it in the memo
	size    int64
	modTime time.Time
}

// settled is how long ago a file must have been written for its time to tell that it has not changed since.
const settled = 2 * time.Second

// stable tells whether the source is known not to have changed as long as it looks the same. What ships in the binary has
// no time and never changes.
func (s *source) stable() bool { return time.Since(s.modTime) > settled }

func (s *source) close() { _ = s.file.Close() }

// locate opens what ref names.
func (s *Store) locate(ref string) (*source, error) {
	switch {
	case strings.HasPrefix(ref, "file:"):
		u, err := url.Parse(ref)
		if err != nil || u.Host != "" && u.Host != "localhost" || !filepath.IsAbs(u.Path) {
			return nil, invalid(ref, "a file is named by file:///absolute/path.wasm")
		}
		return s.locateAbsolute(u.Path)
	case filepath.IsAbs(ref):
		return s.locateAbsolute(ref)
	case strings.HasPrefix(ref, "./"), strings.HasPrefix(ref, "../"):
		return s.locateRelative(ref)
	case strings.HasPrefix(ref, BuiltinPrefix):
		return s.locateBuiltin(ref)
	}
	return nil, invalid(ref, "it is neither a file nor a module that ships with edgepod")
}

func invalid(ref, why string) error {
	return &sandbox.ImageError{
		Reason: sandbox.ReasonInvalidImageName, Ref: ref,
		Message: fmt.Sprintf("couldn't parse the image name: %s", why),
	}
}

func (s *Store) locateAbsolute(path string) (*source, error) {
	real, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, missing(fmt.Sprintf("there is no file %s on this node", path))
	}
	if err != nil {
		return nil, fmt.Errorf("look up %s: %w", path, err)
	}
	for _, dir := range s.cfg.ImageDirs {
		top, err := filepath.EvalSymlinks(dir)
		if err != nil {
			continue
		}
		if rel, err := filepath.Rel(top, real); err == nil && filepath.IsLocal(rel) {
			return openBeneath(top, rel)
		}
	}
	return nil, problem(fmt.Sprintf("%s is not in a folder from which this node may take images%s", path, s.allowed()))
}

func (s *Store) locateRelative(ref string) (*source, error) {
	rel := filepath.Clean(ref)
	if !filepath.IsLocal(rel) {
		return nil, problem(fmt.Sprintf("the path leads out of the folders from which this node may take images%s", s.allowed()))
	}
	for _, dir := range s.cfg.ImageDirs {
		src, err := openBeneath(dir, rel)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		return src, err
	}
	return nil, missing(fmt.Sprintf("there is no file %s in a folder from which this node may take images%s", rel, s.allowed()))
}

// allowed names the folders, for the end of a message.
func (s *Store) allowed() string {
	if len(s.cfg.ImageDirs) == 0 {
		return " (none is allowed; --image-dir of the node names one, or push the module to the cluster's registry)"
	}
	return fmt.Sprintf(" (allowed: %s; --image-dir of the node names more, or push the module to the cluster's registry)", strings.Join(s.cfg.ImageDirs, ", "))
}

// openBeneath opens a regular file in dir, without leaving it through any link.
func openBeneath(dir, rel string) (*source, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	f, err := root.OpenFile(rel, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", filepath.Join(dir, rel), err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = problem(fmt.Sprintf("%s is not a file but a %s", filepath.Join(dir, rel), kindOf(info.Mode())))
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &source{file: f, key: filepath.Join(dir, rel), size: info.Size(), modTime: info.ModTime()}, nil
}

func kindOf(mode fs.FileMode) string {
	if mode.IsDir() {
		return "folder"
	}
	return "special file"
}

func (s *Store) locateBuiltin(ref string) (*source, error) {
	base, tag, _ := strings.Cut(strings.TrimPrefix(ref, BuiltinPrefix), ":")
	file := base + ".wasm"
	if tag != "" && tag != "latest" {
		file = base + "-" + tag + ".wasm"
	}
	if !fs.ValidPath(file) || base == "" || strings.Contains(file, "/") {
		return nil, invalid(ref, "a module that ships with edgepod is named "+BuiltinPrefix+"NAME[:TAG]")
	}
	unknown := problem(fmt.Sprintf("no module of this name ships with edgepod (there are: %s)", s.builtins()))
	if s.cfg.Builtins == nil {
		return nil, unknown
	}
	f, err := s.cfg.Builtins.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, unknown
	}
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &source{file: f, key: BuiltinPrefix + file, size: info.Size(), modTime: info.ModTime()}, nil
}

func (s *Store) builtins() string {
	if s.cfg.Builtins == nil {
		return "none"
	}
	files, err := fs.Glob(s.cfg.Builtins, "*.wasm")
	if err != nil || len(files) == 0 {
		return "none"
	}
	for i, f := range files {
		files[i] = BuiltinPrefix + strings.TrimSuffix(f, ".wasm")
	}
	return strings.Join(files, ", ")
}
