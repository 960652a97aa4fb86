package oci

import (
	"net/http"
	"regexp"
	"strings"

	"edgepod/server/oci/depot"
)

// kind is what a path names.
type kind int

const (
	base      kind = iota // /v2/
	catalog               // /v2/_catalog
	blobs                 // /v2/REPOSITORY/blobs/DIGEST
	uploads               // /v2/REPOSITORY/blobs/uploads/
	upload                // /v2/REPOSITORY/blobs/uploads/ID
	manifests             // /v2/REPOSITORY/manifests/TAG or DIGEST
	tags                  // /v2/REPOSITORY/tags/list
	referrers             // /v2/REPOSITORY/referrers/DIGEST
)

// target is what a request is about. A reference is a digest, a tag, or an upload's id, and has the form of one.
type target struct {
	kind                  kind
	repository, reference string
}

// digest returns the reference as a digest; ok is false where it is none.
func (t target) digest() (digest depot.Digest, ok bool) {
	digest, err := depot.ParseDigest(t.reference)
	return digest, err == nil
}

var uploadForm = regexp.MustCompile(`^[0-9a-f]{32}$`)

// parsePath reads a path. What it returns can be used in names of files.
func parsePath(path string) (target, error) {
	rest, ok := strings.CutPrefix(path, "/v2")
	if !ok {
		return target{}, refuse(http.StatusNotFound, unsupported, "the registry of images is below /v2/")
	}
	rest = strings.TrimSuffix(rest, "/")
	switch rest {
	case "":
		return target{kind: base}, nil
	case "/_catalog":
		return target{kind: catalog}, nil
	}
	t, ok := split(rest)
	if !ok {
		return target{}, refuse(http.StatusNotFound, unsupported, "the registry of images has nothing at this path")
	}
	if err := depot.CheckRepository(t.repository); err != nil {
		return target{}, refuse(http.StatusBadRequest, nameInvalid, "%v", err)
	}
	return t, t.check()
}

// split takes a path without its prefix apart. The last parts tell what it is: those before, whatever they are, are the
// repository's name.
func split(path string) (t target, ok bool) {
	parts := strings.Split(path, "/")
	n := len(parts)
	if n < 3 || parts[0] != "" {
		return t, false
	}
	last, before := parts[n-1], parts[n-2]
	name := func(tail int) string { return strings.Join(parts[1:n-tail], "/") }
	switch {
	case before == "tags" && last == "list":
		return target{kind: tags, repository: name(2)}, true
	case before == "manifests":
		return target{manifests, name(2), last}, true
	case before == "referrers":
		return target{referrers, name(2), last}, true
	case before == "blobs" && last == "uploads":
		return target{kind: uploads, repository: name(2)}, true
	case before == "blobs":
		return target{blobs, name(2), last}, true
	case before == "uploads" && parts[n-3] == "blobs":
		return target{upload, name(3), last}, true
	}
	return t, false
}

// check tells whether the reference is of the form that the kind needs.
func (t target) check() error {
	switch t.kind {
	case upload:
		if !uploadForm.MatchString(t.reference) {
			return depot.ErrUnknownUpload
		}
	case manifests:
		if strings.Contains(t.reference, ":") {
			return t.checkDigest()
		}
		if err := depot.CheckTag(t.reference); err != nil {
			return refuse(http.StatusBadRequest, manifestInvalid, "%v", err)
		}
	case blobs, referrers:
		return t.checkDigest()
	}
	return nil
}

func (t target) checkDigest() error {
	if _, err := depot.ParseDigest(t.reference); err != nil {
		return refuse(http.StatusBadRequest, digestInvalid, "%v", err)
	}
	return nil
}
