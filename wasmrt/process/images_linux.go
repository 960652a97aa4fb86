package process

import (
	"context"
	"slices"

	"edgepod/wasmrt/sandbox"
)

// Images implements sandbox.Runtime.
func (r *Runtime) Images(ctx context.Context) ([]sandbox.StoredImage, error) {
	return r.images.List(ctx)
}

// CollectImages implements sandbox.Runtime.
func (r *Runtime) CollectImages(ctx context.Context, req sandbox.CollectRequest) (sandbox.Collected, error) {
	return r.images.Collect(ctx, req, r.uses)
}

// uses tells whether an attempt that has not ended runs the image with this digest.
func (r *Runtime) uses(digest string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.pods {
		if p.uses(digest) {
			return true
		}
	}
	return false
}

func (p *pod) uses(digest string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.attempts, func(a *attempt) bool {
		return a.status.State != sandbox.StateExited && a.spec.Digest == digest
	})
}
