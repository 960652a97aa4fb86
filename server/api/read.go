package api

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"edgepod/server/registry"
)

func (a *API) get(r *request) error {
	if err := r.negotiateObject(); err != nil {
		return err
	}
	object, err := a.Registry.Get(r.Request().Context(), r.resource, r.namespace, r.name)
	if err != nil {
		return err
	}
	if err := a.reached(r, object); err != nil {
		return err
	}
	return a.writeObject(r, http.StatusOK, object)
}

// reached refuses to answer from before the revision that the client has seen, which is one that a list would refuse too.
func (a *API) reached(r *request, object *registry.Object) error {
	if !strings.Contains(r.Request().URL.RawQuery, "resourceVersion") {
		return nil
	}
	asked := r.query().Get("resourceVersion")
	if n, err := strconv.ParseInt(asked, 10, 64); asked == "" || err == nil && n >= 0 && n <= object.Revision() {
		return nil
	}
	_, err := a.Registry.List(r.Request().Context(), r.resource, registry.ListRequest{
		Namespace: r.namespace, Limit: 1, ResourceVersion: asked, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	})
	return err
}

func (a *API) list(r *request) error {
	if err := r.negotiateObject(); err != nil {
		return err
	}
	options, err := r.listOptions(false)
	if err != nil {
		return err
	}
	list, err := a.Registry.List(r.Request().Context(), r.resource, listRequest(r, options))
	if err != nil {
		return err
	}
	return a.writeList(r, list)
}

func listRequest(r *request, options *internalversion.ListOptions) registry.ListRequest {
	return registry.ListRequest{
		Namespace: r.namespace, Label: options.LabelSelector, Field: options.FieldSelector,
		ResourceVersion: options.ResourceVersion, ResourceVersionMatch: options.ResourceVersionMatch,
		Limit: options.Limit, Continue: options.Continue,
	}
}

func (a *API) writeList(r *request, list registry.List) error {
	listMeta := metav1.ListMeta{ResourceVersion: list.ResourceVersion, Continue: list.Continue, RemainingItemCount: list.Remaining}
	switch {
	case r.out.convert.Kind == kindTable:
		return a.writeTable(r, http.StatusOK, list.Items, listMeta)
	case r.out.convert.Kind == "PartialObjectMetadataList":
		return a.writeRuntime(r, r.out, http.StatusOK, partialList(r, list, listMeta))
	case r.out.convert.Kind != "":
		return statusError(http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable,
			"you requested PartialObjectMetadata, but the requested object is a list")
	case r.out.media == mediaProtobuf:
		return a.writeListProtobuf(r, list, listMeta)
	}
	return a.writeListJSON(r, list, listMeta)
}

func partialList(r *request, list registry.List, listMeta metav1.ListMeta) *metav1.PartialObjectMetadataList {
	out := &metav1.PartialObjectMetadataList{ListMeta: listMeta, Items: make([]metav1.PartialObjectMetadata, 0, len(list.Items))}
	out.SetGroupVersionKind(r.out.convert)
	for _, o := range list.Items {
		out.Items = append(out.Items, *partial(o, r.out))
	}
	return out
}

// writeListJSON joins the stored bytes of the items: nothing is encoded again.
func (a *API) writeListJSON(r *request, list registry.List, listMeta metav1.ListMeta) error {
	head, err := listHead(r.resource, listMeta)
	if err != nil {
		return err
	}
	size := len(head) + len(listTail)
	for _, o := range list.Items {
		size += len(o.JSON()) + 1
	}
	if len(list.Items) > 0 {
		size--
	}
	join := func(w sink) {
		w(head)
		for i, o := range list.Items {
			if i > 0 {
				w(comma)
			}
			w(o.JSON())
		}
		w(listTail)
	}
	if r.out.pretty || r.out.media == mediaYAML {
		var buf bytes.Buffer
		buf.Grow(size)
		join(func(part []byte) { buf.Write(part) })
		return a.writeJSON(r, r.out, http.StatusOK, bytes.TrimSpace(buf.Bytes()))
	}
	return a.writeParts(r, http.StatusOK, mediaJSON.String(), size, inChunks(join))
}

var (
	comma    = []byte{','}
	listTail = []byte("]}\n")
)

func listHead(res *registry.Resource, listMeta metav1.ListMeta) ([]byte, error) {
	kind := listKind(res)
	encoded, err := json.Marshal(listMeta)
	if err != nil {
		return nil, err
	}
	head := append([]byte(`{"kind":`), strconv.Quote(kind.Kind)...)
	head = append(append(head, `,"apiVersion":`...), strconv.Quote(kind.GroupVersion().String())...)
	head = append(append(head, `,"metadata":`...), encoded...)
	return append(head, `,"items":[`...), nil
}
