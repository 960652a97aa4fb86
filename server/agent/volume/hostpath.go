package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// hostPath returns the folder or file that the volume shows, free of links, if the node allows it and it is of the type
// that the volume asks for. It makes it where the type says so.
func (f Folder) hostPath(v *corev1.HostPathVolumeSource) (string, error) {
	if !filepath.IsAbs(v.Path) {
		return "", fmt.Errorf("hostPath %q is not an absolute path", v.Path)
	}
	target, err := resolve(filepath.Clean(v.Path))
	if err != nil {
		return "", err
	}
	base, err := f.allowed(target)
	if err != nil {
		return "", err
	}
	if base == "" {
		return "", fmt.Errorf("hostPath %q is not allowed: %s; start the node with --host-path %s to allow it", v.Path, f.whyNot(), v.Path)
	}
	kind := corev1.HostPathUnset
	if v.Type != nil {
		kind = *v.Type
	}
	if err := create(base, target, kind); err != nil {
		return "", err
	}
	info, err := os.Lstat(target)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("hostPath type check failed: %s does not exist", v.Path)
	}
	if err != nil {
		return "", err
	}
	return target, checkType(v.Path, kind, info.Mode())
}

// whyNot says what the node allows instead.
func (f Folder) whyNot() string {
	if len(f.HostPaths) == 0 {
		return "the node allows no folders"
	}
	return "it is beneath none of the folders that the node allows (" + strings.Join(f.HostPaths, ", ") + ")"
}

// resolve returns path with the links in its existing part resolved. What does not exist yet stays as it is.
func resolve(path string) (string, error) {
	real, err := filepath.EvalSymlinks(path)
	if err == nil || !errors.Is(err, fs.ErrNotExist) || path == filepath.Dir(path) {
		return real, err
	}
	if _, err := os.Lstat(path); err == nil {
		return "", fmt.Errorf("%s is a link that leads nowhere", path)
	}
	parent, err := resolve(filepath.Dir(path))
	return filepath.Join(parent, filepath.Base(path)), err
}

// allowed returns the node's host folder that holds target, "" for none.
func (f Folder) allowed(target string) (string, error) {
	for _, folder := range f.HostPaths {
		base, err := filepath.EvalSymlinks(folder)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		if within(base, target) {
			return base, nil
		}
	}
	return "", nil
}

func within(base, target string) bool {
	rel, err := filepath.Rel(base, target)
	return err == nil && filepath.IsLocal(rel)
}

// create makes target where kind asks for it and it is missing, without leaving base on any link.
func create(base, target string, kind corev1.HostPathType) error {
	if kind != corev1.HostPathDirectoryOrCreate && kind != corev1.HostPathFileOrCreate {
		return nil
	}
	if _, err := os.Lstat(target); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	root, err := os.OpenRoot(base)
	if err != nil {
		return err
	}
	defer root.Close()
	rel, err := filepath.Rel(base, target)
	if err != nil {
		return err
	}
	if kind == corev1.HostPathDirectoryOrCreate {
		return root.MkdirAll(rel, 0o755)
	}
	file, err := root.OpenFile(rel, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	return file.Close()
}

func checkType(path string, kind corev1.HostPathType, mode fs.FileMode) error {
	ok, what := true, ""
	switch kind {
	case corev1.HostPathUnset:
	case corev1.HostPathDirectory, corev1.HostPathDirectoryOrCreate:
		ok, what = mode.IsDir(), "directory"
	case corev1.HostPathFile, corev1.HostPathFileOrCreate:
		ok, what = mode.IsRegular(), "file"
	case corev1.HostPathSocket:
		ok, what = mode&fs.ModeSocket != 0, "socket file"
	case corev1.HostPathCharDev:
		ok, what = mode&fs.ModeCharDevice != 0, "character device"
	case corev1.HostPathBlockDev:
		ok, what = mode&fs.ModeDevice != 0 && mode&fs.ModeCharDevice == 0, "block device"
	default:
		return fmt.Errorf("%s is an invalid volume type", kind)
	}
	if !ok {
		return fmt.Errorf("hostPath type check failed: %s is not a %s", path, what)
	}
	return nil
}

// beneath returns base/sub free of links, if no link in it leads out of base. Where own is set, a missing folder is made
// with the permissions of base, and given to its owner by own.
func beneath(base, sub string, own func(path string) error) (string, error) {
	if !filepath.IsLocal(sub) {
		return "", fmt.Errorf("subPath %q must be a relative path within the volume", sub)
	}
	root, err := os.OpenRoot(base)
	if err != nil {
		return "", err
	}
	defer root.Close()
	_, err = root.Stat(sub)
	made := errors.Is(err, fs.ErrNotExist) && own != nil
	if made {
		err = makeBeneath(root, sub)
	}
	if err != nil {
		return "", fmt.Errorf("subPath %q: %w", sub, err)
	}
	target, err := filepath.EvalSymlinks(filepath.Join(base, sub))
	if err != nil {
		return "", err
	}
	if !within(base, target) {
		return "", fmt.Errorf("subPath %q leads out of the volume", sub)
	}
	if made {
		return target, own(target)
	}
	return target, nil
}

func makeBeneath(root *os.Root, sub string) error {
	info, err := root.Stat(".")
	if err != nil {
		return err
	}
	if err := root.MkdirAll(sub, info.Mode().Perm()); err != nil {
		return err
	}
	return root.Chmod(sub, info.Mode().Perm())
}
