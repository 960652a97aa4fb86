package oci

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"edgepod/server/oci/depot"
)

// call is one request on its way.
type call struct {
	*Registry
	target
	w http.ResponseWriter
	r *http.Request
}

// operation is what a method does to a kind of target.
type operation struct {
	verb Verb
	do   func(*call) error
}

// operations are all that is served. HEAD is as GET.
var operations = map[kind]map[string]operation{
	base:      {http.MethodGet: {Pull, (*call).version}},
	catalog:   {http.MethodGet: {Pull, (*call).catalog}},
	blobs:     {http.MethodGet: {Pull, (*call).getBlob}, http.MethodDelete: {Delete, (*call).deleteBlob}},
	manifests: {http.MethodGet: {Pull, (*call).getManifest}, http.MethodPut: {Push, (*call).putManifest}, http.MethodDelete: {Delete, (*call).deleteManifest}},
	tags:      {http.MethodGet: {Pull, (*call).listTags}},
	referrers: {http.MethodGet: {Pull, (*call).listReferrers}},
	uploads:   {http.MethodPost: {Push, (*call).startUpload}},
	upload: {
		http.MethodGet: {Push, (*call).uploadStatus}, http.MethodPatch: {Push, (*call).appendUpload},
		http.MethodPut: {Push, (*call).finishUpload}, http.MethodDelete: {Push, (*call).cancelUpload},
	},
}

// ServeHTTP answers one request of a sender who is known.
func (g *Registry) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Docker-Distribution-Api-Version", "registry/2.0")
	err := g.serve(w, r)
	if err == nil {
		return
	}
	f := faultOf(err)
	if f == nil {
		g.config.Log.Error("a request to the image registry failed", "method", r.Method, "path", r.URL.Path, "err", err)
		f = &fault{status: http.StatusInternalServerError, code: unknown, message: "the registry could not do this, and its log tells why"}
	}
	if f.status == http.StatusRequestTimeout || f.status == http.StatusRequestEntityTooLarge {
		w.Header().Set("Connection", "close") // the rest of the body is not read
	}
	g.writeFault(w, f)
}

func (g *Registry) serve(w http.ResponseWriter, r *http.Request) error {
	t, err := parsePath(r.URL.Path)
	if err != nil {
		return err
	}
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	op, ok := operations[t.kind][method]
	if !ok {
		w.Header().Set("Allow", t.methods())
		return refuse(http.StatusMethodNotAllowed, unsupported, "%s is not possible here", r.Method)
	}
	if t.repository != "" && !g.config.Allowed(r.Context(), op.verb, depot.NamespaceOf(t.repository)) {
		return refuse(http.StatusForbidden, denied, "you may not %s images in namespace %s", op.verb, depot.NamespaceOf(t.repository))
	}
	room := g.reads
	if op.verb != Pull {
		room = g.writes
	}
	select {
	case room <- struct{}{}:
		defer func() { <-room }()
	default:
		return refuse(http.StatusTooManyRequests, tooManyRequests, "the registry serves as many requests as it can: try again later")
	}
	paced := newPacedWriter(w, g.config.Pace)
	defer paced.done()
	return op.do(&call{Registry: g, target: t, w: paced, r: r})
}

// methods are those that a kind of target has.
func (t target) methods() string {
	var names []string
	for method := range operations[t.kind] {
		names = append(names, method)
		if method == http.MethodGet {
			names = append(names, http.MethodHead)
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// version answers the request by which clients see whether there is a registry.
func (c *call) version() error {
	c.write(c.w, http.StatusOK, "application/json", []byte("{}"))
	return nil
}

// created answers that the digest can be had at the path now.
func (c *call) created(what string, digest depot.Digest) {
	c.w.Header().Set("Location", fmt.Sprintf("/v2/%s/%s/%s", c.repository, what, digest))
	c.w.Header().Set("Docker-Content-Digest", string(digest))
	c.w.Header().Set("Content-Length", "0")
	c.w.WriteHeader(http.StatusCreated)
}

func (c *call) deleted(err error) error {
	if err != nil {
		return err
	}
	c.w.Header().Set("Content-Length", "0")
	c.w.WriteHeader(http.StatusAccepted)
	return nil
}

// errTakenOver ends a request whose upload another request goes on with.
var errTakenOver = errors.New("another request goes on with this upload")
