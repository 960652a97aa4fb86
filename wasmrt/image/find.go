package image

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"edgepod/wasmrt/image/remote"
)

// origin is where the manifests of an image and its configuration are read: a registry, or the store itself.
type origin interface {
	manifest(ctx context.Context, digest string) (remote.Manifest, error)
	// small returns a blob that fits into memory, checked.
	small(ctx context.Context, d v1.Descriptor) ([]byte, error)
}

// registryOrigin is a repository in a registry.
type registryOrigin struct {
	s    *Store
	repo *remote.Repository
}

func (o registryOrigin) manifest(ctx context.Context, digest string) (remote.Manifest, error) {
	return o.repo.Manifest(ctx, digest)
}

func (o registryOrigin) small(ctx context.Context, d v1.Descriptor) ([]byte, error) {
	return o.s.fetchSmall(ctx, o.repo, d)
}

// storedOrigin is what the store has kept of an image that was here before.
type storedOrigin struct{ s *Store }

func (o storedOrigin) manifest(_ context.Context, digest string) (remote.Manifest, error) {
	name, ok := hexOf(digest)
	if !ok {
		return remote.Manifest{}, fmt.Errorf("%q is no digest", digest)
	}
	raw, err := o.read(name)
	return remote.Manifest{Raw: raw, Digest: digest}, err
}

func (o storedOrigin) small(_ context.Context, d v1.Descriptor) ([]byte, error) {
	return o.read(d.Digest.Hex)
}

func (o storedOrigin) read(name string) ([]byte, error) {
	f, err := os.Open(o.s.path(blobDir, name))
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, remote.MaxManifest+1))
	if err == nil && sumOf(data) != name {
		err = errGone
	}
	return data, err
}

// found is an image in a registry, before its layers are fetched.
type found struct {
	digest    string // of what the reference names
	manifest  *v1.Manifest
	own       string // the digest of manifest
	annotated bool   // by the index
	config    *v1.ConfigFile
	shape     shape
	shaped    bool // whether shape is known
	// papers are what was read of it so far, by digest without the kind: they are stored beside the layers.
	papers map[string][]byte
}

// find reads what there is to know of an image before its layers are fetched, and refuses what would not run. What it has
// found is returned with the error, too.
func (s *Store) find(ctx context.Context, from origin, top remote.Manifest) (*found, error) {
	f := &found{digest: top.Digest, own: top.Digest, papers: map[string][]byte{}}
	f.keep(top)
	index, manifest, err := decodeManifest(top.Raw, top.MediaType)
	if err != nil {
		return f, err
	}
	if index != nil {
		d, err := chooseImage(index)
		if err != nil {
			return f, err
		}
		m, err := from.manifest(ctx, d.Digest.String())
		if err != nil {
			return f, err
		}
		f.keep(m)
		if index, manifest, err = decodeManifest(m.Raw, m.MediaType); err != nil {
			return f, err
		}
		if index != nil {
			return f, problem("it is an index of indexes: name one of them by its digest")
		}
		f.own, f.annotated = m.Digest, d.Annotations[variantAnnotation] != ""
	}
	f.manifest = manifest
	if f.shape, err = shapeOf(manifest); err != nil {
		return f, err
	}
	f.shaped = true
	if err := s.checkLimits(manifest); err != nil {
		return f, err
	}
	if f.shape == shapeFiles {
		return f, f.findConfig(ctx, from)
	}
	return f, nil
}

func (f *found) keep(m remote.Manifest) {
	name, _ := hexOf(m.Digest)
	f.papers[name] = m.Raw
}

func (f *found) findConfig(ctx context.Context, from origin) error {
	if f.manifest.Config.Size < 0 || f.manifest.Config.Size > remote.MaxManifest {
		return problem(fmt.Sprintf("its configuration of %d bytes is larger than %d MiB", f.manifest.Config.Size, remote.MaxManifest>>20))
	}
	raw, err := from.small(ctx, f.manifest.Config)
	if err != nil {
		return fmt.Errorf("fetch the image's configuration: %w", err)
	}
	f.papers[f.manifest.Config.Digest.Hex] = raw
	if f.config, err = v1.ParseConfigFile(bytes.NewReader(raw)); err != nil {
		return problem("its configuration can't be read: " + err.Error())
	}
	if err := boundConfig(f.config.Config); err != nil {
		return err
	}
	return refuseLinux(f.manifest, f.config, f.annotated)
}

// boundConfig refuses a configuration that no process could be given.
func boundConfig(c v1.Config) error {
	const most = 256 << 10
	size := len(c.WorkingDir)
	for _, list := range [][]string{c.Entrypoint, c.Cmd, c.Env} {
		for _, text := range list {
			size += len(text) + 1
		}
	}
	if size > most {
		return problem(fmt.Sprintf("its entrypoint, arguments and variables have %d KiB, more than the %d KiB that a container can be given", size>>10, most>>10))
	}
	return nil
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
