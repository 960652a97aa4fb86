package oci

import (
	"mime"
	"net/http"
	"slices"

	kjson "sigs.k8s.io/json"

	"edgepod/server/oci/depot"
)

// Types of manifests.
const (
	ociManifest    = "application/vnd.oci.image.manifest.v1+json"
	ociIndex       = "application/vnd.oci.image.index.v1+json"
	dockerManifest = "application/vnd.docker.distribution.manifest.v2+json"
	dockerList     = "application/vnd.docker.distribution.manifest.list.v2+json"
)

// maxDescriptors is how much one manifest may list.
const maxDescriptors = 2000

// descriptor points to a content.
type descriptor struct {
	MediaType    string            `json:"mediaType"`
	Digest       string            `json:"digest"`
	Size         int64             `json:"size"`
	URLs         []string          `json:"urls,omitempty"`
	ArtifactType string            `json:"artifactType,omitempty"`
	Annotations  map[string]string `json:"annotations,omitempty"`
}

// document is a manifest or an index; which of them, its fields tell.
type document struct {
	SchemaVersion int               `json:"schemaVersion"`
	MediaType     string            `json:"mediaType"`
	ArtifactType  string            `json:"artifactType"`
	Config        *descriptor       `json:"config"`
	Layers        *[]descriptor     `json:"layers"`
	Manifests     *[]descriptor     `json:"manifests"`
	Subject       *descriptor       `json:"subject"`
	Annotations   map[string]string `json:"annotations"`
}

// parsed is a manifest that has been looked at, with the sizes that it says its parts have.
type parsed struct {
	manifest depot.Manifest
	sizes    map[depot.Digest]int64
}

func badManifest(format string, args ...any) error {
	return refuse(http.StatusBadRequest, manifestInvalid, format, args...)
}

// parseManifest reads a manifest that was sent as of a type. One that could be taken for a manifest and for an index,
// depending on who reads it, is refused.
func parseManifest(contentType string, data []byte) (parsed, error) {
	doc, err := decodeDocument(data)
	if err != nil {
		return parsed{}, err
	}
	if doc.SchemaVersion != 2 {
		return parsed{}, badManifest("the manifest's schemaVersion is %d, and only 2 is taken", doc.SchemaVersion)
	}
	p := parsed{sizes: map[depot.Digest]int64{}}
	if p.manifest.MediaType, err = doc.mediaType(contentType); err != nil {
		return p, err
	}
	p.manifest.Size = int64(len(data))
	if doc.Subject != nil {
		if p.manifest.Subject, err = doc.Subject.parse(); err != nil {
			return p, err
		}
	}
	if doc.Manifests != nil {
		return p, p.add(&p.manifest.Manifests, *doc.Manifests)
	}
	if err := p.add(&p.manifest.Blobs, []descriptor{*doc.Config}); err != nil {
		return p, err
	}
	return p, p.add(&p.manifest.Blobs, *doc.Layers)
}

// decodeDocument reads the fields with the letters' case as it must be, each at most once.
func decodeDocument(data []byte) (*document, error) {
	doc := &document{}
	strict, err := kjson.UnmarshalStrict(data, doc, kjson.DisallowDuplicateFields)
	switch {
	case err != nil:
		return nil, badManifest("the manifest can't be read: %v", err)
	case len(strict) > 0:
		return nil, badManifest("the manifest can't be read in one way only: %v", strict[0])
	}
	return doc, nil
}

// mediaType returns the manifest's type, which header and document must agree on, and checks that the fields are those of
// the type.
func (d *document) mediaType(contentType string) (string, error) {
	named, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		named = d.MediaType
	}
	if d.MediaType != "" && d.MediaType != named {
		return "", badManifest("the manifest says that it is %q and was sent as %q", d.MediaType, named)
	}
	switch named {
	case ociManifest, dockerManifest:
		if d.Config == nil || d.Layers == nil || d.Manifests != nil {
			return "", badManifest("a manifest has config and layers, and no manifests")
		}
	case ociIndex, dockerList:
		if d.Manifests == nil || d.Config != nil || d.Layers != nil {
			return "", badManifest("an index has manifests, and neither config nor layers")
		}
	default:
		return "", badManifest("manifests of type %q are not taken, but those of OCI images and indexes and of Docker's schema 2", named)
	}
	return named, nil
}

// parse returns the digest of a descriptor whose fields are good.
func (d *descriptor) parse() (depot.Digest, error) {
	digest, err := depot.ParseDigest(d.Digest)
	if err != nil {
		return "", badManifest("in the manifest: %v", err)
	}
	if d.Size < 0 {
		return "", badManifest("in the manifest: %s has the size %d", digest, d.Size)
	}
	return digest, nil
}

// add notes what the manifest consists of. Contents that lie elsewhere by their URLs need not be here.
func (p *parsed) add(list *[]depot.Digest, descriptors []descriptor) error {
	for _, d := range descriptors {
		digest, err := d.parse()
		if err != nil {
			return err
		}
		if size, known := p.sizes[digest]; known && size != d.Size {
			return badManifest("in the manifest: %s has the sizes %d and %d", digest, size, d.Size)
		}
		if len(d.URLs) > 0 || slices.Contains(*list, digest) {
			continue
		}
		if len(p.sizes) == maxDescriptors {
			return badManifest("the manifest lists more than %d contents", maxDescriptors)
		}
		p.sizes[digest] = d.Size
		*list = append(*list, digest)
	}
	return nil
}
