package image

import (
	"fmt"
	"slices"

	"edgepod/wasmrt/atomicfile"
	"edgepod/wasmrt/image/remote"
	"edgepod/wasmrt/sandbox"
)

// reference is what the store keeps of a reference: the digest of the image, or for a short name the target that it meant.
type reference struct {
	Ref string `json:"ref"`
	// Name is the reference with all that it leaves out, Written as it was last spelt; ID is that of the image.
	Name    string `json:"name,omitempty"`
	Written string `json:"written,omitempty"`
	ID      string `json:"id,omitempty"`
	Digest  string `json:"digest,omitempty"`
	Target  string `json:"target,omitempty"`
	// Proofs are the credentials that the image was fetched with, unrecognizably; empty where it needed none.
	Proofs []string `json:"proofs,omitempty"`
}

// shortKey names a reference without a host: what it means depends on the namespace.
func shortKey(req sandbox.PullRequest) string { return "short " + req.Namespace + " " + req.Ref }

// allows tells whether a request with these credentials may use what another one has fetched.
func (r reference) allows(t target, credentials []sandbox.Credential) bool {
	if len(r.Proofs) == 0 {
		return true
	}
	for _, c := range remote.Matching(credentials, t.repo.Name()) {
		for _, proof := range r.Proofs {
			if proof == proofOf(t, c) {
				return true
			}
		}
	}
	return false
}

// proofOf stands for a credential that a registry accepted.
func proofOf(t target, c sandbox.Credential) string {
	return sumOf(fmt.Appendf(nil, "%q %q %q %q %q", t.repo.Name(), c.Username, c.Password, c.IdentityToken, c.RegistryToken))
}

func (s *Store) refPath(ref string) string { return s.path(refDir, sumOf([]byte(ref))) }

// remember keeps a reference. That it is lost in a power cut does no harm. An image that was once fetched without credentials,
// or with others, stays usable so.
func (s *Store) remember(r reference) {
	const most = 32
	if old, ok := s.remembered(r.Ref); ok && old.Digest == r.Digest && len(r.Proofs) > 0 {
		if len(old.Proofs) == 0 {
			r.Proofs = nil
		}
		for _, proof := range old.Proofs {
			if !slices.Contains(r.Proofs, proof) && len(r.Proofs) < most {
				r.Proofs = append(r.Proofs, proof)
			}
		}
	}
	// Without it the image is only fetched again.
	_ = atomicfile.WriteJSON(s.refPath(r.Ref), r, false)
}

func (s *Store) remembered(ref string) (reference, bool) {
	var r reference
	if err := atomicfile.ReadJSON(s.refPath(ref), &r, metaLimit); err != nil || r.Ref != ref {
		return reference{}, false
	}
	return r, true
}
