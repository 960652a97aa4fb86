package image

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sys/unix"

	"edgepod/wasmrt/atomicfile"
	"edgepod/wasmrt/image/remote"
	"edgepod/wasmrt/sandbox"
)

// id is what the API shows as imageID.
func (t target) id(digest string) string { return spelt(t.repo.Name()) + "@" + digest }

// shown is the target as users spell it.
func (t target) shown() string { return spelt(t.key()) }

// spelt is a full name with the host of Docker's registry as users spell it.
func spelt(full string) string {
	if rest, ok := strings.CutPrefix(full, name.DefaultRegistry+"/"); ok {
		return "docker.io/" + rest
	}
	return full
}

// pull fetches an image from a registry, if its digest is not here.
func (s *Store) pull(ctx context.Context, t target, req sandbox.PullRequest) (Entry, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.cfg.Limits.Pull, fmt.Errorf("the pull has taken longer than %v", s.cfg.Limits.Pull))
	defer cancel()
	repo, err := s.client.Repository(t.repo, req.Credentials)
	if err != nil {
		return Entry{}, err
	}
	top, err := repo.Manifest(ctx, t.identifier)
	if err != nil {
		return Entry{}, err
	}
	// Of this repository alone: another may be slow on purpose, and name the parts of images that are not its own.
	turn := t.id(top.Digest)
	if err := s.busy.lock(ctx, turn); err != nil {
		return Entry{}, err
	}
	defer s.busy.unlock(turn)
	e, ok := s.Get(top.Digest)
	if !ok {
		if e, err = s.fetchImage(ctx, repo, top); err != nil {
			return Entry{}, err
		}
	}
	e.ID = t.id(e.Digest)
	ref := reference{Ref: t.key(), Name: t.shown(), Written: req.Ref, ID: e.ID, Digest: e.Digest}
	if c := repo.Proof(); c != (sandbox.Credential{}) {
		ref.Proofs = []string{proofOf(t, c)}
	}
	s.remember(ref)
	return e, nil
}

// fetchImage fetches all of an image and imports it.
func (s *Store) fetchImage(ctx context.Context, repo *remote.Repository, top remote.Manifest) (Entry, error) {
	f, err := s.find(ctx, registryOrigin{s, repo}, top)
	if err != nil {
		return Entry{}, err
	}
	defer s.pin(f.manifest.Layers)()
	const tries = 3 // another agent's collection may take away what was just fetched
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

// importImage makes an image from blobs that the store has; errGone tells that some are missing after all.
func (s *Store) importImage(ctx context.Context, f *found) (Entry, error) {
	unlock, err := s.lockFile(ctx, unix.LOCK_SH)
	if err != nil {
		return Entry{}, err
	}
	defer unlock()
	r := record{Entry: Entry{Digest: f.digest}}
	for _, d := range f.manifest.Layers {
		if !s.hasBlob(d) {
			return Entry{}, errGone
		}
		r.Size += d.Size
		r.addBlob(d.Digest.Hex)
	}
	for sum, content := range f.papers {
		if err := atomicfile.Write(s.path(blobDir, sum), content, 0o600, false); err != nil {
			return Entry{}, fmt.Errorf("store image: %w", err)
		}
		r.addBlob(sum)
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
