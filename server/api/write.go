package api

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1beta1 "k8s.io/apimachinery/pkg/apis/meta/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"sigs.k8s.io/yaml"

	"edgepod/server/registry"
	"edgepod/server/registry/upstream"
)

// gzipFrom is the size from which answers are compressed for clients that take it, unless they are on this machine, where
// compressing costs more than it saves.
const gzipFrom = 128 << 10

var gzipWriters = sync.Pool{New: func() any {
	w, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed)
	return w
}}

// writeObject answers with a stored object: the stored bytes themselves where the client takes JSON.
func (a *API) writeObject(r *request, code int, o *registry.Object) error {
	switch {
	case r.out.convert.Kind == kindTable:
		return a.writeTable(r, code, []*registry.Object{o}, metav1.ListMeta{ResourceVersion: o.Meta().GetResourceVersion()})
	case r.out.convert.Kind == "PartialObjectMetadata":
		return a.writeRuntime(r, r.out, code, partial(o, r.out))
	case r.out.convert.Kind != "":
		return statusError(http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable,
			"you requested PartialObjectMetadataList, but the requested object is not a list")
	case r.out.media == mediaProtobuf:
		encoded, err := o.Protobuf()
		if err != nil {
			return err
		}
		return a.writeBytes(r, code, mediaProtobuf.String(), encoded)
	}
	return a.writeJSON(r, r.out, code, o.JSON())
}

// partial is the metadata of an object, in the version of meta that the client wants.
func partial(o *registry.Object, out output) *metav1.PartialObjectMetadata {
	p := meta.AsPartialObjectMetadata(o.Meta())
	p.SetGroupVersionKind(out.convert.GroupVersion().WithKind("PartialObjectMetadata"))
	return p
}

func (a *API) writeTable(r *request, code int, objects []*registry.Object, list metav1.ListMeta) error {
	options, err := r.tableOptions()
	if err != nil {
		return err
	}
	table, err := makeTable(r, objects, options)
	if err != nil {
		return err
	}
	table.ListMeta = list
	return a.writeRuntime(r, r.out, code, table)
}

func makeTable(r *request, objects []*registry.Object, options *metav1.TableOptions) (*metav1.Table, error) {
	items := make([]runtime.Object, len(objects))
	for i, o := range objects {
		items[i] = o.Runtime()
	}
	table, err := upstream.Table(r.resource.Kind, items, options)
	if err != nil {
		return nil, err
	}
	version := r.out.convert.GroupVersion()
	table.SetGroupVersionKind(version.WithKind(kindTable))
	if version == metav1beta1.SchemeGroupVersion {
		for i := range table.Rows {
			if p, ok := table.Rows[i].Object.Object.(*metav1.PartialObjectMetadata); ok {
				p.SetGroupVersionKind(version.WithKind("PartialObjectMetadata"))
			}
		}
	}
	return table, nil
}

// writeRuntime answers with an object that is not stored; its apiVersion and kind must be set.
func (a *API) writeRuntime(r *request, out output, code int, obj runtime.Object) error {
	if out.media == mediaProtobuf {
		var buf bytes.Buffer
		if err := upstream.Protobuf.Encode(obj, &buf); err != nil {
			return err
		}
		return a.writeBytes(r, code, mediaProtobuf.String(), buf.Bytes())
	}
	body, err := json.Marshal(obj)
	if err != nil {
		return err
	}
	return a.writeJSON(r, out, code, body)
}

// writeJSON answers with JSON, or what it is in YAML.
func (a *API) writeJSON(r *request, out output, code int, body []byte) error {
	if out.media == mediaYAML {
		text, err := yaml.JSONToYAML(body)
		if err != nil {
			return err
		}
		return a.writeBytes(r, code, mediaYAML.String(), text)
	}
	if out.pretty {
		var buf bytes.Buffer
		if err := json.Indent(&buf, body, "", "  "); err != nil {
			return err
		}
		buf.WriteByte('\n')
		return a.writeBytes(r, code, mediaJSON.String(), buf.Bytes())
	}
	return a.writeParts(r, code, mediaJSON.String(), len(body)+1, func(w sink) {
		w(body)
		w(newline)
	})
}

var newline = []byte{'\n'}

func (a *API) writeBytes(r *request, code int, contentType string, body []byte) error {
	return a.writeParts(r, code, contentType, len(body), func(w sink) { w(body) })
}

// sink takes a part of an answer.
type sink func(part []byte)

// writeParts answers with a body of a known size, whose parts write hands over. The client's going away is no error of ours.
func (a *API) writeParts(r *request, code int, contentType string, size int, write func(w sink)) error {
	w := r.Response()
	header := w.Header()
	header["Content-Type"] = []string{contentType + r.contentSuffix}
	var failed error
	to := func(w io.Writer) sink {
		return func(part []byte) {
			if failed == nil {
				_, failed = w.Write(part)
			}
		}
	}
	if size >= gzipFrom && compresses(r.Request()) {
		header["Content-Encoding"] = []string{"gzip"}
		header.Add("Vary", "Accept-Encoding")
		w.WriteHeader(code)
		z := gzipWriters.Get().(*gzip.Writer)
		defer gzipWriters.Put(z)
		z.Reset(w)
		write(to(z))
		failed = errors.Join(failed, z.Close())
	} else {
		header["Content-Length"] = []string{strconv.Itoa(size)}
		w.WriteHeader(code)
		write(to(w))
	}
	if failed != nil {
		a.Log.Debug("a client left before it was answered", "err", failed)
	}
	return nil
}

func compresses(r *http.Request) bool {
	if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		return false
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return ip == nil || !ip.IsLoopback()
}

// maxWarnings is how many bytes of warnings an answer has at most.
const maxWarnings = 4 << 10

// warn adds Warning headers, which clients show to their users. What doesn't fit, or can't be in a header, is left out.
func (r *request) warn(warnings ...string) {
	for _, text := range warnings {
		header, err := utilnet.NewWarningHeader(299, "-", text)
		if err != nil || r.warned+len(header) > maxWarnings {
			continue
		}
		r.warned += len(header)
		r.Response().Header().Add("Warning", header)
	}
}
