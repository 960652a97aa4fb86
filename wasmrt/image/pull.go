package image

import (
	"bytes"
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
	"edgepod/wasmrt/image/layer"
	"edgepod/wasmrt/image/remote"
	"edgepod/wasmrt/sandbox"
)

// id is what the API shows as imageID.
func (t target) id(digest string) string { return repoName(t) + "@" + digest }

// shown is the target as users spell it.
func (t target) shown() string {
	return strings.Replace(t.key(), "index.docker.io/", "docker.io/", 1)
}

func repoName(t target) string {
	return strings.Replace(t.repo.Name(), "index.docker.io/", "docker.io/", 1)
}

// found is an image in a registry, before its layers are fetched.
type found struct {
	digest    string // of what the reference names
	manifest  *v1.Manifest
	own       string // the digest of manifest
	annotated bool   // by the index
	config    *v1.ConfigFile
	shape     shape
}

// pull fetches an image from a registry, if its digest is not here.
func (s *Store) pull(ctx context.Context, t target, credentials []sandbox.Credential) (Entry, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.cfg.Limits.Pull, fmt.Errorf("the pull has taken longer than %v", s.cfg.Limits.Pull))
	defer cancel()
	repo, err := s.client.Repository(t.repo, credentials)
	if err != nil {
		return Entry{}, err
	}
	top, err := repo.Manifest(ctx, t.identifier)
	if err != nil {
		return Entry{}, err
	}
	if err := s.busy.lock(ctx, top.Digest); err != nil {
		return Entry{}, err
	}
	defer s.busy.unlock(top.Digest)
	e, ok := s.Get(top.Digest)
	if !ok {
		if e, err = s.fetchImage(ctx, repo, top); err != nil {
			return Entry{}, err
		}
	}
	ref := reference{Ref: t.key(), Digest: e.Digest}
	if c := repo.Proof(); c != (sandbox.Credential{}) {
		ref.Proofs = []string{proofOf(t, c)}
	}
	s.remember(ref)
	e.ID = t.id(e.Digest)
	return e, nil
}

// fetchImage fetches all of an image and imports it.
func (s *Store) fetchImage(ctx context.Context, repo *remote.Repository, top remote.Manifest) (Entry, error) {
	f, err := s.find(ctx, repo, top)
	if err != nil {
		return Entry{}, err
	}
	const tries = 3 // a collection may take away what was just fetched
	for range tries {
		if err := s.fetchAll(ctx, repo, f.manifest.Layers); err != nil {
			return Entry{}, err
		}
		e, err := s.importImage(ctx, f)
		if !errors.Is(err, errGone) {
			return e, err
		}
	}
	return Entry{}, errGone
}

var errGone = errors.New("layers of the image vanished or were damaged while it was put together")

// find reads what there is to know of an image before its layers are fetched, and refuses what would not run.
func (s *Store) find(ctx context.Context, repo *remote.Repository, top remote.Manifest) (*found, error) {
	f := &found{digest: top.Digest, own: top.Digest}
	index, manifest, err := decodeManifest(top.Raw, top.MediaType)
	if err != nil {
		return nil, err
	}
	if index != nil {
		d, err := chooseImage(index)
		if err != nil {
			return nil, err
		}
		m, err := repo.Manifest(ctx, d.Digest.String())
		if err != nil {
			return nil, err
		}
		if index, manifest, err = decodeManifest(m.Raw, m.MediaType); err != nil {
			return nil, err
		}
		if index != nil {
			return nil, problem("it is an index of indexes: name one of them by its digest")
		}
		f.own, f.annotated = m.Digest, d.Annotations[variantAnnotation] != ""
	}
	f.manifest = manifest
	if f.shape, err = shapeOf(manifest); err != nil {
		return nil, err
	}
	if err := s.checkLimits(manifest); err != nil {
		return nil, err
	}
	if f.shape == shapeFiles {
		return f, s.findConfig(ctx, repo, f)
	}
	return f, nil
}

func (s *Store) findConfig(ctx context.Context, repo *remote.Repository, f *found) error {
	raw, err := s.fetchSmall(ctx, repo, f.manifest.Config)
	if err != nil {
		return fmt.Errorf("fetch the image's configuration: %w", err)
	}
	if f.config, err = v1.ParseConfigFile(bytes.NewReader(raw)); err != nil {
		return problem("its configuration can't be read: " + err.Error())
	}
	return refuseLinux(f.manifest, f.config, f.annotated)
}

// checkLimits refuses an image that is too large by what it says of itself. Nothing larger than it says is fetched.
func (s *Store) checkLimits(m *v1.Manifest) error {
	l := s.cfg.Limits
	if len(m.Layers) > l.Layers {
		return problem(fmt.Sprintf("it has %d layers, and at most %d are taken", len(m.Layers), l.Layers))
	}
	var total int64
	for _, d := range m.Layers {
		if d.Digest.Algorithm != "sha256" || m.Config.Digest.Algorithm != "sha256" {
			return problem("it has parts whose digests are not of the kind sha256")
		}
		if d.Size < 0 || d.Size > l.Download {
			return problem(fmt.Sprintf("a layer of it has %d MiB, and at most %d MiB are taken", d.Size>>20, l.Download>>20))
		}
		total += d.Size
	}
	if total > l.Download {
		return problem(fmt.Sprintf("its layers have %d MiB, and at most %d MiB are taken", total>>20, l.Download>>20))
	}
	return nil
}

// importImage makes an image from blobs that the store has; errGone tells that some are missing after all.
func (s *Store) importImage(ctx context.Context, f *found) (Entry, error) {
	unlock, err := s.lockFile(ctx, unix.LOCK_SH)
	if err != nil {
		return Entry{}, err
	}
	defer unlock()
	r := record{Entry: Entry{Digest: f.digest}, Manifest: f.own}
	for _, d := range f.manifest.Layers {
		if !s.hasBlob(d) {
			return Entry{}, errGone
		}
		r.Size += d.Size
		if !slices.Contains(r.Blobs, d.Digest.Hex) {
			r.Blobs = append(r.Blobs, d.Digest.Hex)
		}
	}
	if f.shape == shapeModule {
		err = s.importModule(f.manifest.Layers[0], &r)
	} else {
		err = s.importFiles(ctx, f, &r)
	}
	if err != nil {
		return Entry{}, err
	}
	return s.commit(r)
}

// importModule stores a layer that is the module itself.
func (s *Store) importModule(d v1.Descriptor, r *record) error {
	f, err := os.Open(s.path(blobDir, d.Digest.Hex))
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	sum := sha256.New()
	size, err := io.Copy(sum, f)
	if err != nil {
		return err
	}
	if verify(d, size, sum) != nil {
		return errors.Join(errGone, os.Remove(f.Name()))
	}
	return s.addModule(f, size, r)
}

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
	if err := s.unpack(ctx, root, f); err != nil {
		return err
	}
	config := f.config.Config
	r.Config = sandbox.ImageConfig{Entrypoint: config.Entrypoint, Cmd: config.Cmd, Env: config.Env, WorkingDir: config.WorkingDir}
	module, err := findModule(root, r.Config)
	if err != nil {
		return err
	}
	if err := s.addRootModule(root, module, r); err != nil {
		return fmt.Errorf("its file %s: %w", printable(module), err)
	}
	r.RootFolder, _ = hexOf(f.own)
	return s.placeRoot(dir, r.RootFolder)
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

// unpack applies the layers one after the other, and checks them again: the disk may have changed them.
func (s *Store) unpack(ctx context.Context, root *os.Root, f *found) error {
	diffs := f.config.RootFS.DiffIDs
	if len(diffs) != 0 && len(diffs) != len(f.manifest.Layers) {
		return problem(fmt.Sprintf("it has %d layers, and its configuration speaks of %d", len(f.manifest.Layers), len(diffs)))
	}
	budget := &layer.Budget{Bytes: s.cfg.Limits.Unpacked, Files: s.cfg.Limits.Files}
	for i, d := range f.manifest.Layers {
		id, err := s.applyLayer(ctx, root, d, budget)
		if err != nil {
			return fmt.Errorf("layer %d of %d: %w", i+1, len(f.manifest.Layers), err)
		}
		if len(diffs) != 0 && id != diffs[i].String() {
			return problem(fmt.Sprintf("layer %d of %d holds something else than its configuration says", i+1, len(f.manifest.Layers)))
		}
	}
	return nil
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
	return "", problem(fmt.Sprintf("it holds several modules (%s), and its entrypoint names none of them", printable(strings.Join(modules, ", "))))
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
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return s.addModule(f, info.Size(), r)
}
