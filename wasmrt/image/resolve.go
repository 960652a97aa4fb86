package image

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"edgepod/wasmrt/image/remote"
	"edgepod/wasmrt/sandbox"
)

// Resolve returns the image that a reference names, importing it if the store lacks it. Errors that the user can mend are
// *sandbox.ImageError.
//
// Files are looked at each time, so that a program that was built anew is the one that runs; where the file has gone, what
// was imported from it is used unless the policy is Always. Registries are asked as the kubelet does: with IfNotPresent only
// for what is not here, or was fetched with credentials that the request does not have.
func (s *Store) Resolve(ctx context.Context, req sandbox.PullRequest) (Entry, error) {
	if err := ctx.Err(); err != nil {
		return Entry{}, err
	}
	var e Entry
	var err error
	if isLocal(req.Ref) {
		e, err = s.resolveLocal(ctx, req)
	} else {
		e, err = s.resolveRemote(ctx, req)
	}
	if err != nil && ctx.Err() != nil {
		return Entry{}, context.Cause(ctx)
	}
	if err != nil {
		return Entry{}, imageError(req.Ref, err)
	}
	return e, nil
}

// isLocal tells references to files and to built-in modules from those to registries.
func isLocal(ref string) bool {
	if isBuiltin(ref) {
		return true
	}
	for _, prefix := range []string{"file:", "./", "../"} {
		if strings.HasPrefix(ref, prefix) {
			return true
		}
	}
	return filepath.IsAbs(ref)
}

func isBuiltin(ref string) bool { return strings.HasPrefix(ref, BuiltinPrefix) }

func (s *Store) resolveLocal(ctx context.Context, req sandbox.PullRequest) (Entry, error) {
	src, err := s.locate(req.Ref)
	if err != nil {
		if req.Policy != sandbox.PullAlways && errors.Is(err, fs.ErrNotExist) {
			if ref, ok := s.remembered(req.Ref); ok {
				if e, ok := s.Get(ref.Digest); ok {
					return e, nil
				}
			}
		}
		return Entry{}, err
	}
	defer src.close()
	if e, ok := s.recall(src); ok {
		return e, nil
	}
	e, err := s.addFile(ctx, src)
	if err != nil {
		return Entry{}, err
	}
	s.remember(reference{Ref: req.Ref, Written: req.Ref, Digest: e.Digest})
	s.memorize(src, e)
	return e, nil
}

// addFile stores a module that is a file. It is copied first, since its owner may change it at any time.
func (s *Store) addFile(ctx context.Context, src *source) (Entry, error) {
	if src.size > s.cfg.Limits.Module {
		return Entry{}, s.tooLarge()
	}
	f, name, size, err := s.stage(src.file)
	if err != nil {
		return Entry{}, fmt.Errorf("read the module: %w", err)
	}
	defer func() { _ = f.Close() }()
	if err := s.busy.lock(ctx, name); err != nil {
		return Entry{}, err
	}
	defer s.busy.unlock(name)
	if e, ok := s.Get("sha256:" + name); ok {
		return e, nil
	}
	unlock, err := s.lockFile(ctx, unix.LOCK_SH)
	if err != nil {
		return Entry{}, err
	}
	defer unlock()
	r := record{Entry: Entry{Digest: "sha256:" + name, Size: size}}
	if err := s.addModule(f, size, &r); err != nil {
		return Entry{}, err
	}
	return s.commit(r)
}

func (s *Store) resolveRemote(ctx context.Context, req sandbox.PullRequest) (Entry, error) {
	targets, err := s.targets(req)
	if err != nil {
		return Entry{}, err
	}
	short := shortKey(req)
	if req.Policy != sandbox.PullAlways {
		if e, ok := s.present(ctx, req, targets, short); ok {
			return e, nil
		}
	}
	if req.Policy == sandbox.PullNever {
		return Entry{}, &sandbox.ImageError{
			Reason: sandbox.ReasonErrImageNeverPull, Ref: req.Ref,
			Message: "the image is not on this node, or not for this pod's credentials, and its pull policy is Never",
		}
	}
	missed := ""
	for i, t := range targets {
		e, err := s.pullTarget(ctx, req, t)
		if err == nil {
			if len(targets) > 1 {
				s.remember(reference{Ref: short, Target: cmp.Or(t.builtin, t.key())})
			}
			return e, nil
		}
		if i == len(targets)-1 || !t.cluster || !errors.Is(err, remote.ErrNotFound) {
			return Entry{}, explainPull(missed, t, err)
		}
		missed = t.shown()
	}
	return Entry{}, problem("there is no such image")
}

// pullTarget gets one of the images that the reference may mean.
func (s *Store) pullTarget(ctx context.Context, req sandbox.PullRequest, t target) (Entry, error) {
	if t.builtin == "" {
		return s.pull(ctx, t, req)
	}
	e, err := s.resolveLocal(ctx, sandbox.PullRequest{Ref: t.builtin, Policy: req.Policy})
	e.Note = aliasNote(req.Ref, t.builtin)
	return e, err
}

// present returns what the store has for a reference, if the request may use it.
func (s *Store) present(ctx context.Context, req sandbox.PullRequest, targets []target, short string) (Entry, bool) {
	meant := ""
	if len(targets) > 1 {
		ref, ok := s.remembered(short)
		if !ok && req.Policy != sandbox.PullNever {
			return Entry{}, false // only asking tells which one it is
		}
		meant = ref.Target
	}
	for _, t := range targets {
		if meant != "" && meant != cmp.Or(t.builtin, t.key()) {
			continue
		}
		if t.builtin != "" {
			e, err := s.pullTarget(ctx, req, t)
			return e, err == nil
		}
		ref, ok := s.remembered(t.key())
		if !ok || !ref.allows(t, req.Credentials) {
			continue
		}
		if e, ok := s.restore(ctx, ref.Digest); ok {
			e.ID = t.id(ref.Digest)
			return e, true
		}
	}
	return Entry{}, false
}

// restore returns an image that is here, or makes it anew where only what was fetched for it is.
func (s *Store) restore(ctx context.Context, digest string) (Entry, bool) {
	if e, ok := s.Get(digest); ok {
		return e, true
	}
	from := storedOrigin{s}
	top, err := from.manifest(ctx, digest)
	if err != nil {
		return Entry{}, false
	}
	if err := s.busy.lock(ctx, digest); err != nil {
		return Entry{}, false
	}
	defer s.busy.unlock(digest)
	f, err := s.find(ctx, from, top)
	if err != nil {
		return Entry{}, false
	}
	e, err := s.importImage(ctx, f)
	if err != nil {
		s.log.Warn("an image can't be made anew from what was fetched for it", "image", digest, "err", err)
	}
	return e, err == nil
}

// explainPull gives the errors of a registry words for the user. missed is the image of the cluster's registry that a short
// name did not find before, or "".
func explainPull(missed string, t target, err error) error {
	switch {
	case t.builtin != "":
		return err
	case missed != "":
		return fmt.Errorf("there is no image %s in the cluster; elsewhere: %w", missed, explainPull("", t, err))
	case errors.Is(err, remote.ErrNotFound):
		return problem(fmt.Sprintf("there is no image %s: %v", t.shown(), err))
	case errors.Is(err, remote.ErrRefused):
		return problem(fmt.Sprintf("%s can't be pulled: %v", t.shown(), err))
	case errors.Is(err, remote.ErrUnauthorized):
		return problem(fmt.Sprintf("%s is not there, or needs credentials that allow to pull it (imagePullSecrets): %v", t.shown(), err))
	}
	return err
}

// memorize remembers what a file looked like, if that tells whether it has changed.
func (s *Store) memorize(src *source, e Entry) {
	if !src.stable() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.memo[src.key] = memo{size: src.size, modTime: src.modTime, digest: e.Digest}
}

func (s *Store) recall(src *source) (Entry, bool) {
	s.mu.Lock()
	m, ok := s.memo[src.key]
	s.mu.Unlock()
	if !ok || m.size != src.size || !m.modTime.Equal(src.modTime) {
		return Entry{}, false
	}
	return s.Get(m.digest)
}
