package sandboxtest

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"edgepod/wasmrt/sandbox"
)

// fakeImage is an image of a Fake, whose lock guards it.
type fakeImage struct {
	sandbox.Image
	lastUsed time.Time
}

// SetImage makes later pulls of ref find the image, which is fetched anew by the next; its empty fields are filled in.
func (f *Fake) SetImage(ref string, image sandbox.Image) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.supplied[ref] = image
	delete(f.pulled, ref)
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

// stored are the images by digest, however many references stand for each.
func (f *Fake) stored() []sandbox.StoredImage {
	var out []sandbox.StoredImage
	for _, ref := range slices.Sorted(maps.Keys(f.pulled)) {
		img := f.pulled[ref]
		i := slices.IndexFunc(out, func(s sandbox.StoredImage) bool { return s.Digest == img.Digest })
		if i < 0 {
			i = len(out)
			out = append(out, sandbox.StoredImage{Digest: img.Digest, ID: img.ID, Size: img.Size})
		}
		out[i].Refs = append(out[i].Refs, ref)
		if img.lastUsed.After(out[i].LastUsed) {
			out[i].LastUsed = img.lastUsed
		}
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
		maps.DeleteFunc(f.pulled, func(_ string, i fakeImage) bool { return i.Digest == img.Digest })
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

// pullImage is what a pull of ref finds here or fetches.
func (f *Fake) pullImage(req sandbox.PullRequest) (sandbox.Image, error) {
	have, ok := f.pulled[req.Ref]
	if !ok && req.Policy == sandbox.PullNever {
		return sandbox.Image{}, &sandbox.ImageError{
			Reason: sandbox.ReasonErrImageNeverPull, Ref: req.Ref,
			Message: "the image is not on this node, and its pull policy is Never",
		}
	}
	if !ok {
		img := f.supplied[req.Ref]
		img.Ref, img.Digest = req.Ref, cmp.Or(img.Digest, digestOf(req.Ref))
		img.ID, img.Size = cmp.Or(img.ID, img.Digest), cmp.Or(img.Size, 1<<10)
		have.Image = img
	}
	have.Cached, have.Compiled, have.lastUsed = ok, !ok, time.Now()
	f.pulled[req.Ref] = have
	return have.Image, nil
}
