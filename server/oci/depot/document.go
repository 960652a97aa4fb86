package depot

import (
	"maps"
	"slices"
	"time"
)

// documentFile is the name of a repository's document in its folder. No part of a repository's name begins so.
const documentFile = "_repository.json"

// documentVersion is that of the document's form.
const documentVersion = 1

// document is what a repository holds, as it lies on disk. One that is in use is never changed: who changes the
// repository makes another.
type document struct {
	Version   int                 `json:"version"`
	Name      string              `json:"name"`
	Blobs     map[Digest]blob     `json:"blobs,omitempty"`
	Manifests map[Digest]Manifest `json:"manifests,omitempty"`
	Tags      map[string]Digest   `json:"tags,omitempty"`
}

// blob is one that was pushed to the repository.
type blob struct {
	Size  int64     `json:"size"`
	Added time.Time `json:"added"`
}

// Manifest is what is known of a manifest beside its bytes. Those who are handed one must not change it.
type Manifest struct {
	Digest    Digest    `json:"-"`
	MediaType string    `json:"mediaType"`
	Size      int64     `json:"size"`
	Added     time.Time `json:"added"`
	// Subject is the manifest that this one is about, "" for none; it need not exist.
	Subject Digest `json:"subject,omitempty"`
	// Blobs and Manifests are what it consists of: they must be in its repository.
	Blobs     []Digest `json:"blobs,omitempty"`
	Manifests []Digest `json:"manifests,omitempty"`
}

func newDocument(name string) *document {
	return &document{
		Version: documentVersion, Name: name,
		Blobs: map[Digest]blob{}, Manifests: map[Digest]Manifest{}, Tags: map[string]Digest{},
	}
}

// clone returns a document of its own maps; the manifests' lists are shared.
func (d *document) clone() *document {
	next := newDocument(d.Name)
	maps.Copy(next.Blobs, d.Blobs)
	maps.Copy(next.Manifests, d.Manifests)
	maps.Copy(next.Tags, d.Tags)
	return next
}

func (d *document) empty() bool { return len(d.Blobs)+len(d.Manifests)+len(d.Tags) == 0 }

// entries is how many names of contents the document has: it measures its length.
func (d *document) entries() int {
	n := len(d.Blobs) + len(d.Manifests) + len(d.Tags)
	for _, m := range d.Manifests {
		n += len(m.Blobs) + len(m.Manifests)
	}
	return n
}

// contents returns the sizes of all contents that the document names.
func (d *document) contents() map[Digest]int64 {
	sizes := make(map[Digest]int64, len(d.Blobs)+len(d.Manifests))
	for digest, b := range d.Blobs {
		sizes[digest] = b.Size
	}
	for digest, m := range d.Manifests {
		sizes[digest] = m.Size
	}
	return sizes
}

// find returns the manifest that a tag or a digest names.
func (d *document) find(reference string) (Manifest, bool) {
	digest, tagged := d.Tags[reference]
	if !tagged {
		digest = Digest(reference)
	}
	m, ok := d.Manifests[digest]
	m.Digest = digest
	return m, ok
}

// missing returns what the manifest names and the document lacks.
func (d *document) missing(m *Manifest) []Digest {
	var missing []Digest
	for _, digest := range m.Blobs {
		if _, ok := d.Blobs[digest]; !ok {
			missing = append(missing, digest)
		}
	}
	for _, digest := range m.Manifests {
		if _, ok := d.Manifests[digest]; !ok {
			missing = append(missing, digest)
		}
	}
	return missing
}

// userOf returns a manifest that consists of the content, "" for none.
func (d *document) userOf(digest Digest) Digest {
	for user, m := range d.Manifests {
		if slices.Contains(m.Blobs, digest) || slices.Contains(m.Manifests, digest) {
			return user
		}
	}
	return ""
}

// remove takes a manifest and its tags out.
func (d *document) remove(digest Digest) {
	delete(d.Manifests, digest)
	maps.DeleteFunc(d.Tags, func(_ string, tagged Digest) bool { return tagged == digest })
}

// idleBlobs returns the blobs that no manifest needs.
func (d *document) idleBlobs() []Digest {
	needed := map[Digest]bool{}
	for _, m := range d.Manifests {
		for _, digest := range m.Blobs {
			needed[digest] = true
		}
	}
	var idle []Digest
	for digest := range d.Blobs {
		if !needed[digest] {
			idle = append(idle, digest)
		}
	}
	return idle
}

// idleManifests returns those that are reached by no tag, no index, and are about no other manifest here.
func (d *document) idleManifests() []Digest {
	reached := map[Digest]bool{}
	for _, digest := range d.Tags {
		reached[digest] = true
	}
	for _, m := range d.Manifests {
		for _, digest := range m.Manifests {
			reached[digest] = true
		}
	}
	var idle []Digest
	for digest, m := range d.Manifests {
		if _, about := d.Manifests[m.Subject]; !about && !reached[digest] {
			idle = append(idle, digest)
		}
	}
	return idle
}

// check tells whether a document read from disk can be trusted with names of files.
func (d *document) check(name string) bool {
	if d.Version != documentVersion || d.Name != name || CheckRepository(name) != nil {
		return false
	}
	for digest := range d.contents() {
		if _, err := ParseDigest(string(digest)); err != nil {
			return false
		}
	}
	for tag := range d.Tags {
		if CheckTag(tag) != nil {
			return false
		}
	}
	return true
}
