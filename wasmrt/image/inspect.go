package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"edgepod/wasmrt/image/inspect"
	"edgepod/wasmrt/image/remote"
	"edgepod/wasmrt/sandbox"
)

// Inspect describes what a reference names, also where it would not run. Of an image it fetches what is needed for that;
// nothing is imported.
func (s *Store) Inspect(ctx context.Context, req sandbox.PullRequest) (*inspect.Report, error) {
	r := &inspect.Report{Reference: req.Ref}
	var err error
	if isLocal(req.Ref) {
		err = s.inspectLocal(req.Ref, r)
	} else {
		err = s.inspectRemote(ctx, req, r)
	}
	if err != nil && ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, imageError(req.Ref, err)
	}
	return r, nil
}

func (s *Store) inspectLocal(ref string, r *inspect.Report) error {
	src, err := s.locate(ref)
	if err != nil {
		return err
	}
	defer src.close()
	r.Source = inspect.SourceFile
	if isBuiltin(ref) {
		r.Source = inspect.SourceBuiltin
	}
	if src.size > s.cfg.Limits.Module {
		return s.tooLarge()
	}
	f, sum, size, err := s.stage(src.file)
	if err != nil {
		return fmt.Errorf("read the module: %w", err)
	}
	defer func() { _ = f.Close() }()
	r.Digest = "sha256:" + sum
	return s.world().Describe(f, size, r)
}

// inspectRemote looks at the first target that exists.
func (s *Store) inspectRemote(ctx context.Context, req sandbox.PullRequest, r *inspect.Report) error {
	targets, err := s.targets(req)
	if err != nil {
		return err
	}
	missed := ""
	for i, t := range targets {
		if t.builtin != "" {
			r.Note = aliasNote(req.Ref, t.builtin)
			return s.inspectLocal(t.builtin, r)
		}
		err := s.inspectTarget(ctx, t, req, r)
		if err == nil {
			return nil
		}
		if i == len(targets)-1 || !t.cluster || !errors.Is(err, remote.ErrNotFound) {
			return explainPull(missed, t, err)
		}
		missed = t.shown()
	}
	return problem("there is no such image")
}

func (s *Store) inspectTarget(ctx context.Context, t target, req sandbox.PullRequest, r *inspect.Report) error {
	repo, err := s.client.Repository(t.repo, req.Credentials)
	if err != nil {
		return err
	}
	top, err := repo.Manifest(ctx, t.identifier)
	if err != nil {
		return err
	}
	r.Source, r.Digest, r.ID, r.Kind = inspect.SourceRegistry, top.Digest, t.id(top.Digest), "image"
	r.Image = &inspect.Image{}
	f, err := s.find(ctx, registryOrigin{s, repo}, top)
	describeImage(f, r.Image)
	if err != nil {
		return blame(r, err)
	}
	if err := s.fetchAll(ctx, repo, f.manifest.Layers); err != nil {
		return err
	}
	if f.shape == shapeModule {
		file, err := os.Open(s.path(blobDir, f.manifest.Layers[0].Digest.Hex))
		if err != nil {
			return err
		}
		return withSize(file, func(src io.ReaderAt, size int64) error { return s.world().Describe(src, size, r) })
	}
	return s.inspectFiles(ctx, f, r)
}

// blame puts a problem of the image into the report; other errors are returned.
func blame(r *inspect.Report, err error) error {
	var what problem
	if !errors.As(err, &what) {
		return err
	}
	r.Problems = append(r.Problems, err.Error())
	return nil
}

// inspectFiles unpacks an image for a moment.
func (s *Store) inspectFiles(ctx context.Context, f *found, r *inspect.Report) error {
	dir, err := os.MkdirTemp(s.staging(), "root-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // otherwise it goes with the store
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	if _, err := s.unpack(ctx, root, f); err != nil {
		return blame(r, err)
	}
	name, err := findModule(root, configOf(f))
	if err != nil {
		return blame(r, err)
	}
	r.Image.ModulePath = name
	file, err := root.Open(name)
	if err != nil {
		return err
	}
	return withSize(file, func(src io.ReaderAt, size int64) error { return s.world().Describe(src, size, r) })
}

// describeImage fills in what is known of an image, be it only a part.
func describeImage(f *found, out *inspect.Image) {
	if f.own != f.digest {
		out.Manifest = f.own
	}
	if f.manifest == nil {
		return
	}
	for _, l := range f.manifest.Layers {
		out.Layers = append(out.Layers, inspect.Layer{MediaType: string(l.MediaType), Digest: l.Digest.String(), Size: l.Size})
	}
	switch {
	case f.config == nil && f.shape == shapeModule && f.shaped:
		out.Layout = inspect.LayoutModule
	case f.shaped:
		out.Layout = inspect.LayoutFiles
	}
	if f.config == nil {
		return
	}
	platform := v1.Platform{OS: f.config.OS, Architecture: f.config.Architecture, Variant: f.config.Variant}
	c := configOf(f)
	out.Platform = platform.String()
	out.Entrypoint, out.Cmd, out.Env, out.WorkingDir = c.Entrypoint, c.Cmd, c.Env, c.WorkingDir
}
