package oci

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"edgepod/server/oci/depot"
)

// page is a part of an ordered list.
type page struct {
	names []string
	// next is the name after which the list goes on, "" at its end.
	next string
}

// paging cuts from an ordered list what the query's n and last ask for. Without n, all that comes after last.
func (c *call) paging(names []string) (page, error) {
	query := c.r.URL.Query()
	if last := query.Get("last"); last != "" {
		i, found := slices.BinarySearch(names, last)
		if found {
			i++
		}
		names = names[i:]
	}
	p := page{names: names}
	if text := query.Get("n"); text != "" {
		n, err := strconv.ParseUint(text, 10, 31)
		if err != nil {
			return p, refuse(http.StatusBadRequest, paginationInvalid, "n is %q and not the number of names in the answer", text)
		}
		if int(n) < len(names) {
			p.names = names[:n]
			if n > 0 {
				p.next = names[n-1]
			}
		}
	}
	return p, nil
}

// link says where the list goes on.
func (c *call) link(last string) {
	if last == "" {
		return
	}
	query := url.Values{"last": {last}}
	for _, name := range []string{"n", "artifactType"} {
		if value := c.r.URL.Query().Get(name); value != "" {
			query.Set(name, value)
		}
	}
	c.w.Header().Set("Link", fmt.Sprintf(`<%s?%s>; rel="next"`, c.r.URL.EscapedPath(), query.Encode()))
}

// catalog lists the repositories that the caller may pull from.
func (c *call) catalog() error {
	names := slices.DeleteFunc(c.depot.Repositories(), func(name string) bool {
		return !c.config.Allowed(c.r.Context(), Pull, depot.NamespaceOf(name))
	})
	p, err := c.paging(names)
	if err != nil {
		return err
	}
	c.link(p.next)
	return c.json("application/json", map[string][]string{"repositories": p.list()})
}

// list is the names, never null in JSON.
func (p page) list() []string { return append([]string{}, p.names...) }

func (c *call) listTags() error {
	names, err := c.depot.Tags(c.repository)
	if err != nil {
		return err
	}
	p, err := c.paging(names)
	if err != nil {
		return err
	}
	c.link(p.next)
	return c.json("application/json", map[string]any{"name": c.repository, "tags": p.list()})
}

func (c *call) json(contentType string, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	c.write(c.w, http.StatusOK, contentType, body)
	return nil
}

// maxReferrers is about how large an answer with referrers becomes before it is cut in pages.
const maxReferrers = maxManifest * 3 / 4

// listReferrers answers with an index of the manifests that are about a digest; of none, it is empty.
func (c *call) listReferrers() error {
	subject, _ := c.digest()
	wanted, last := c.r.URL.Query().Get("artifactType"), c.r.URL.Query().Get("last")
	found, size := []descriptor{}, 0
	for _, m := range c.depot.Referrers(c.repository, subject) {
		if string(m.Digest) <= last {
			continue
		}
		if err := c.r.Context().Err(); err != nil {
			return err
		}
		d, err := c.describe(m)
		if errors.Is(err, depot.ErrUnknownManifest) {
			continue // it has gone in this moment
		}
		if err != nil {
			return err
		}
		if wanted != "" && d.ArtifactType != wanted {
			continue
		}
		if size += d.length(); size > maxReferrers && len(found) > 0 {
			c.link(found[len(found)-1].Digest)
			break
		}
		found = append(found, d)
	}
	if wanted != "" {
		c.w.Header().Set("OCI-Filters-Applied", "artifactType")
	}
	return c.json(ociIndex, map[string]any{"schemaVersion": 2, "mediaType": ociIndex, "manifests": found})
}

// describe makes the descriptor of a manifest, with what it says of itself.
func (c *call) describe(m depot.Manifest) (descriptor, error) {
	_, data, err := c.depot.Manifest(c.lasting(), c.repository, string(m.Digest))
	if err != nil {
		return descriptor{}, err
	}
	doc, err := decodeDocument(data)
	if err != nil {
		return descriptor{}, err
	}
	d := descriptor{MediaType: m.MediaType, Digest: string(m.Digest), Size: m.Size, ArtifactType: doc.ArtifactType, Annotations: doc.Annotations}
	if d.ArtifactType == "" && doc.Config != nil {
		d.ArtifactType = doc.Config.MediaType
	}
	return d, nil
}

// length is about that of the descriptor in JSON.
func (d *descriptor) length() int {
	n := 300
	for key, value := range d.Annotations {
		n += len(key) + len(value) + 8
	}
	return n
}
