package image

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sys/unix"

	"edgepod/wasmrt/atomicfile"
	"edgepod/wasmrt/image/inspect"
	"edgepod/wasmrt/image/layer"
	"edgepod/wasmrt/sandbox"
)

// importFiles unpacks the layers of an image and finds the module in them.
func (s *Store) importFiles(ctx context.Context, f *found, r *record) error {
	dir, err := os.MkdirTemp(s.staging(), "root-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // gone where it has been finished
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	if r.DiskSize, err = s.unpack(ctx, root, f); err != nil {
		return err
	}
	r.Config = configOf(f)
	module, err := findModule(root, r.Config)
	if err != nil {
		return err
	}
	if err := s.addRootModule(root, module, r); err != nil {
		return fmt.Errorf("its file %s: %w", inspect.Plain(module), err)
	}
	r.RootFolder, _ = hexOf(f.own)
	return s.placeRoot(dir, r.RootFolder)
}

// configOf is what an image with files says of how it is run.
func configOf(f *found) sandbox.ImageConfig {
	c := f.config.Config
	return sandbox.ImageConfig{Entrypoint: c.Entrypoint, Cmd: c.Cmd, Env: c.Env, WorkingDir: c.WorkingDir}
}

// placeRoot gives an unpacked image its place.
func (s *Store) placeRoot(dir, name string) error {
	if err := syncTree(dir); err != nil {
		return err
	}
	to := s.path(rootDir, name)
	err := os.Rename(dir, to)
	if errors.Is(err, fs.ErrExist) || errors.Is(err, unix.ENOTEMPTY) {
		return nil // another process was faster, with the same
	}
	if err != nil {
		return err
	}
	return atomicfile.SyncDir(filepath.Dir(to))
}

// unpack applies the layers one after the other, checks them again, since the disk may have changed them, and returns how
// many bytes there are in files.
func (s *Store) unpack(ctx context.Context, root *os.Root, f *found) (size int64, err error) {
	diffs := f.config.RootFS.DiffIDs
	if len(diffs) != 0 && len(diffs) != len(f.manifest.Layers) {
		return 0, problem(fmt.Sprintf("it has %d layers, and its configuration speaks of %d", len(f.manifest.Layers), len(diffs)))
	}
	budget := &layer.Budget{Bytes: s.cfg.Limits.Unpacked, Files: s.cfg.Limits.Files}
	for i, d := range f.manifest.Layers {
		id, err := s.applyLayer(ctx, root, d, budget)
		if err != nil {
			return 0, fmt.Errorf("layer %d of %d: %w", i+1, len(f.manifest.Layers), err)
		}
		if len(diffs) != 0 && id != diffs[i].String() {
			return 0, problem(fmt.Sprintf("layer %d of %d holds something else than its configuration says", i+1, len(f.manifest.Layers)))
		}
	}
	return s.cfg.Limits.Unpacked - budget.Bytes, nil
}

func (s *Store) applyLayer(ctx context.Context, root *os.Root, d v1.Descriptor, budget *layer.Budget) (diffID string, err error) {
	file, err := os.Open(s.path(blobDir, d.Digest.Hex))
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	sum := sha256.New()
	packed := io.TeeReader(file, sum)
	result, err := layer.Apply(ctx, root, packed, budget)
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	if _, drain := io.Copy(io.Discard, packed); drain != nil {
		return "", drain
	}
	if damaged := verify(d, d.Size, sum); damaged != nil {
		return "", errors.Join(errGone, os.Remove(file.Name()))
	}
	if result.Skipped > 0 {
		s.log.Debug("entries of a layer that no guest can use are left out", "layer", d.Digest.String(), "entries", result.Skipped)
	}
	var bad layer.Error
	if errors.As(err, &bad) {
		return "", problem(err.Error())
	}
	return result.DiffID, err
}

// findModule returns the path of the file that an image runs: what its command names, or the only .wasm file.
func findModule(root *os.Root, c sandbox.ImageConfig) (string, error) {
	command := slices.Concat(c.Entrypoint, c.Cmd)
	if len(command) > 0 {
		name := command[0]
		if !path.IsAbs(name) {
			name = path.Join("/", c.WorkingDir, name)
		}
		if real, err := layer.Resolve(root, name); err == nil {
			if info, err := root.Lstat(real); err == nil && info.Mode().IsRegular() {
				return real, nil
			}
		}
	}
	modules, err := wasmFiles(root)
	switch {
	case err != nil:
		return "", err
	case len(modules) == 1:
		return modules[0], nil
	case len(modules) == 0:
		return "", problem("it holds no module: no file in it is named .wasm, and its entrypoint names no file. " + linuxHint)
	}
	const most = 5
	if len(modules) > most {
		modules = append(modules[:most], "…")
	}
	return "", problem(fmt.Sprintf("it holds several modules (%s), and its entrypoint names none of them", inspect.Plain(strings.Join(modules, ", "))))
}

// wasmFiles lists the files that are named like modules.
func wasmFiles(root *os.Root) (out []string, err error) {
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && strings.HasSuffix(name, ".wasm") {
			out = append(out, name)
		}
		return err
	})
	return out, err
}

// addRootModule stores a file of an unpacked image as its module.
func (s *Store) addRootModule(root *os.Root, name string, r *record) error {
	f, err := root.Open(name)
	if err != nil {
		return err
	}
	return withSize(f, func(src io.ReaderAt, size int64) error { return s.addModule(src, size, r) })
}

// withSize reads a file that was opened, and closes it.
func withSize(f *os.File, read func(src io.ReaderAt, size int64) error) error {
	defer func() { _ = f.Close() }() // nothing was written
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return read(f, info.Size())
}
