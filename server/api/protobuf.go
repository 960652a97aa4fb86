package api

import (
	"errors"
	"net/http"

	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"edgepod/server/registry"
)

// The envelope of objects in protobuf is a mark and a runtime.Unknown:
//
//	"k8s\x00" | 1: { 1: apiVersion | 2: kind } | 2: object | 3: encoding | 4: media type
//
// and each kind of list is
//
//	1: metadata | 2: item | 2: item | ...
const (
	envelopeMark   = "k8s\x00"
	envelopeType   = 1
	envelopeObject = 2
	typeVersion    = 1
	typeKind       = 2
	listMetadata   = 1
	listItem       = 2
	// envelopeTail is no encoding and no media type: what the object is in goes without saying.
	envelopeTail = "\x1a\x00\x22\x00"
)

var errEnvelope = errors.New("an object's protobuf form is not in its envelope")

// inEnvelope returns the object itself of an encoded one.
func inEnvelope(encoded []byte) ([]byte, error) {
	rest := encoded[min(len(envelopeMark), len(encoded)):]
	for len(rest) > 0 {
		number, kind, n := protowire.ConsumeTag(rest)
		if n < 0 {
			break
		}
		rest = rest[n:]
		if number == envelopeObject && kind == protowire.BytesType {
			object, n := protowire.ConsumeBytes(rest)
			if n < 0 {
				break
			}
			return object, nil
		}
		if n = protowire.ConsumeFieldValue(number, kind, rest); n < 0 {
			break
		}
		rest = rest[n:]
	}
	return nil, errEnvelope
}

// writeListProtobuf joins the encoded items, each of which was made once.
func (a *API) writeListProtobuf(r *request, list registry.List, listMeta metav1.ListMeta) error {
	items := make([][]byte, len(list.Items))
	meta, err := listMeta.Marshal()
	if err != nil {
		return err
	}
	body := protowire.SizeTag(listMetadata) + protowire.SizeBytes(len(meta))
	for i, o := range list.Items {
		encoded, err := o.Protobuf()
		if err != nil {
			return err
		}
		if items[i], err = inEnvelope(encoded); err != nil {
			return err
		}
		body += protowire.SizeTag(listItem) + protowire.SizeBytes(len(items[i]))
	}
	head := listEnvelope(r.resource, body)
	head = protowire.AppendTag(head, listMetadata, protowire.BytesType)
	head = protowire.AppendBytes(head, meta)
	size := len(head) - protowire.SizeTag(listMetadata) - protowire.SizeBytes(len(meta)) + body + len(envelopeTail)
	return a.writeParts(r, http.StatusOK, mediaProtobuf.String(), size, inChunks(func(w sink) {
		w(head)
		var prefix [protowireMax]byte
		for _, item := range items {
			tag := protowire.AppendTag(prefix[:0], listItem, protowire.BytesType)
			w(protowire.AppendVarint(tag, uint64(len(item))))
			w(item)
		}
		w([]byte(envelopeTail))
	}))
}

// protowireMax is the length of a tag and a length at most.
const protowireMax = 16

// listEnvelope is all of a list's envelope that comes before its body, which has so many bytes.
func listEnvelope(res *registry.Resource, body int) []byte {
	kind := listKind(res)
	var meta []byte
	meta = protowire.AppendTag(meta, typeVersion, protowire.BytesType)
	meta = protowire.AppendString(meta, kind.GroupVersion().String())
	meta = protowire.AppendTag(meta, typeKind, protowire.BytesType)
	meta = protowire.AppendString(meta, kind.Kind)
	head := []byte(envelopeMark)
	head = protowire.AppendTag(head, envelopeType, protowire.BytesType)
	head = protowire.AppendBytes(head, meta)
	head = protowire.AppendTag(head, envelopeObject, protowire.BytesType)
	return protowire.AppendVarint(head, uint64(body))
}
