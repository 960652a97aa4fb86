package sandboxtest

import (
	"cmp"
	"context"
	"slices"
	"time"

	"edgepod/wasmrt/sandbox"
)

// fakeImage is an image of a Fake, whose lock guards it.
type fakeImage struct {
	sandbox.Image
	refs     []string // that were last seen to stand for it
	lastUsed time.Time
}

// SetImage makes the registry of ref have the image, whose empty fields are filled in; what was pulled before stays here, and
// is what ref stands for until a pull looks.
func (f *Fake) SetImage(ref string, image sandbox.Image) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.supplied[ref] = image
}

// FailCollect makes CollectImages return err from now on; nil lets it succeed again.
func (f *Fake) FailCollect(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.collectErr = err
}

// Pulls returns the requests of all pulls so far, oldest first.
func (f *Fake) Pulls() []sandbox.PullRequest {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.requests)
}

// Images implements sandbox.Runtime.
func (f *Fake) Images(ctx context.Context) ([]sandbox.StoredImage, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stored(), nil
}

func (f *Fake) stored() []sandbox.StoredImage {
	var out []sandbox.StoredImage
	for _, img := range f.pulled {
		out = append(out, sandbox.StoredImage{
			Digest: img.Digest, ID: img.ID, Refs: slices.Clone(img.refs), Size: img.Size, LastUsed: img.lastUsed,
		})
	}
	return out
}

// CollectImages implements sandbox.Runtime.
func (f *Fake) CollectImages(ctx context.Context, req sandbox.CollectRequest) (got sandbox.Collected, err error) {
	if err := ctx.Err(); err != nil {
		return got, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, "collect")
	if f.collectErr != nil {
		return got, f.collectErr
	}
	all := f.stored()
	slices.SortStableFunc(all, func(a, b sandbox.StoredImage) int { return a.LastUsed.Compare(b.LastUsed) })
	now := time.Now()
	for _, img := range all {
		unused := now.Sub(img.LastUsed)
		tooOld := req.MaxAge > 0 && unused > req.MaxAge // and so are all before it
		if unused < req.MinAge || f.uses(img.Digest) || !tooOld && got.Bytes >= req.Free {
			continue
		}
		delete(f.pulled, img.Digest)
		got.Images++
		got.Bytes += img.Size
	}
	return got, nil
}

// uses tells whether an attempt that has not ended runs the image.
func (f *Fake) uses(digest string) bool {
	for _, s := range f.sandboxes {
		for _, c := range s.containers {
			if c.status.State != sandbox.StateExited && c.spec.Digest == digest {
				return true
			}
		}
	}
	return false
}

// pullImage is what a pull finds here, or fetches.
func (f *Fake) pullImage(req sandbox.PullRequest) (sandbox.Image, error) {
	have := f.standsFor(req.Ref)
	switch {
	case have != nil && req.Policy != sandbox.PullAlways:
	case req.Policy == sandbox.PullNever:
		return sandbox.Image{}, &sandbox.ImageError{
			Reason: sandbox.ReasonErrImageNeverPull, Ref: req.Ref,
			Message: "the image is not on this node, and its pull policy is Never",
		}
	default:
		if have != nil {
			have.refs = slices.DeleteFunc(have.refs, func(r string) bool { return r == req.Ref })
		}
		img := f.supplied[req.Ref]
		img.Digest = cmp.Or(img.Digest, digestOf(req.Ref))
		if have = f.pulled[img.Digest]; have == nil {
			img.ID, img.Size, img.Compiled = cmp.Or(img.ID, img.Digest), cmp.Or(img.Size, 1<<10), true
			have = &fakeImage{Image: img}
			f.pulled[img.Digest] = have
		}
		have.refs = append(have.refs, req.Ref)
	}
	out := have.Image
	out.Ref = req.Ref
	have.lastUsed, have.Cached, have.Compiled = time.Now(), true, false
	return out, nil
}

// standsFor is the image here that a reference was last seen to stand for, nil for none.
func (f *Fake) standsFor(ref string) *fakeImage {
	for _, img := range f.pulled {
		if slices.Contains(img.refs, ref) {
			return img
		}
	}
	return nil
}
