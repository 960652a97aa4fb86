package api

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"edgepod/server/registry"
	"edgepod/server/registry/upstream"
)

const bookmarkType = string(watch.Bookmark)

// appendJSONFrame wraps the stored bytes: there is nothing to encode.
func appendJSONFrame(buf []byte, event registry.Event) ([]byte, error) {
	return appendJSON(buf, event.Type, event.Object.JSON()), nil
}

func appendJSON(buf []byte, kind string, object []byte) []byte {
	buf = append(append(append(buf, `{"type":"`...), kind...), `","object":`...)
	return append(append(buf, object...), '}', '\n')
}

// appendProtobufFrame wraps the object's protobuf form, which is made once for all who watch.
func appendProtobufFrame(buf []byte, event registry.Event) ([]byte, error) {
	encoded, err := event.Object.Protobuf()
	if err != nil {
		return nil, err
	}
	return appendProtobuf(buf, event.Type, encoded), nil
}

// appendProtobuf appends a WatchEvent behind its length: the object in the envelope of objects, the event without.
//
//	length | 1: type | 2: { 1: object }
func appendProtobuf(buf []byte, kind string, object []byte) []byte {
	raw := protowire.SizeTag(1) + protowire.SizeBytes(len(object))
	total := protowire.SizeTag(1) + protowire.SizeBytes(len(kind)) + protowire.SizeTag(2) + protowire.SizeBytes(raw)
	buf = binary.BigEndian.AppendUint32(buf, uint32(total))
	buf = protowire.AppendTag(buf, 1, protowire.BytesType)
	buf = protowire.AppendString(buf, kind)
	buf = protowire.AppendTag(buf, 2, protowire.BytesType)
	buf = protowire.AppendVarint(buf, uint64(raw))
	buf = protowire.AppendTag(buf, 1, protowire.BytesType)
	return protowire.AppendBytes(buf, object)
}

// appendFrame appends an event about an object that is not stored.
func (r *request) appendFrame(buf []byte, kind string, object runtime.Object) ([]byte, error) {
	if r.out.media == mediaProtobuf {
		var encoded bytes.Buffer
		if err := upstream.Protobuf.Encode(object, &encoded); err != nil {
			return nil, err
		}
		return appendProtobuf(buf, kind, encoded.Bytes()), nil
	}
	encoded, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	return appendJSON(buf, kind, encoded), nil
}

// partialFrames shows the objects' metadata alone.
func (r *request) partialFrames() func([]byte, registry.Event) ([]byte, error) {
	return func(buf []byte, event registry.Event) ([]byte, error) {
		return r.appendFrame(buf, event.Type, partial(event.Object, r.out))
	}
}

// tableFrames shows each object as a table of one row; the first one alone has the columns.
func (r *request) tableFrames(options *metav1.TableOptions) func([]byte, registry.Event) ([]byte, error) {
	return func(buf []byte, event registry.Event) ([]byte, error) {
		table, err := makeTable(r, []*registry.Object{event.Object}, options)
		if err != nil {
			return nil, err
		}
		options.NoHeaders = true
		table.ResourceVersion = event.Object.Meta().GetResourceVersion()
		return r.appendFrame(buf, event.Type, table)
	}
}

// appendBookmark tells a client that wants it up to which revision it has seen everything.
func (s *stream) appendBookmark(buf []byte, revision int64, initialEnd bool) ([]byte, error) {
	if !s.bookmarks {
		return buf, nil
	}
	object := s.r.resource.New()
	object.GetObjectKind().SetGroupVersionKind(s.r.resource.Kind)
	accessor, err := meta.Accessor(object)
	if err != nil {
		return nil, err
	}
	accessor.SetResourceVersion(strconv.FormatInt(revision, 10))
	if initialEnd {
		accessor.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	}
	switch {
	case s.r.out.convert.Kind == kindTable:
		return s.r.appendFrame(buf, bookmarkType, bookmarkTable(s.r, accessor))
	case s.r.out.convert.Kind != "":
		p := meta.AsPartialObjectMetadata(accessor)
		p.SetGroupVersionKind(s.r.out.convert)
		return s.r.appendFrame(buf, bookmarkType, p)
	}
	return s.r.appendFrame(buf, bookmarkType, object)
}

// bookmarkTable is a bookmark among tables: its row has the metadata alone.
func bookmarkTable(r *request, accessor metav1.Object) *metav1.Table {
	version := r.out.convert.GroupVersion()
	p := meta.AsPartialObjectMetadata(accessor)
	p.SetGroupVersionKind(version.WithKind("PartialObjectMetadata"))
	table := &metav1.Table{Rows: []metav1.TableRow{{Cells: []any{}, Object: runtime.RawExtension{Object: p}}}}
	table.SetGroupVersionKind(version.WithKind(kindTable))
	table.ResourceVersion = accessor.GetResourceVersion()
	return table
}

// appendStatus ends a watch that can't go on.
func (s *stream) appendStatus(buf []byte, status *metav1.Status) ([]byte, error) {
	return s.r.appendFrame(buf, string(watch.Error), status)
}
