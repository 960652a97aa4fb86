package registry

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"edgepod/server/registry/upstream"
	"edgepod/server/store"
)

// Object is one stored object at one revision. It is frozen: whoever wants to change what Runtime returns copies it first.
type Object struct {
	resource *Resource
	value    []byte
	revision int64
	decoded  runtime.Object
	protobuf atomic.Pointer[[]byte]
}

// Runtime returns the object in the type that its resource serves, with apiVersion, kind and resourceVersion set.
func (o *Object) Runtime() runtime.Object { return o.decoded }

// Meta returns the object's metadata, frozen like the object.
func (o *Object) Meta() metav1.Object { return o.decoded.(metav1.Object) }

// JSON returns the object's wire form, complete with apiVersion, kind and resourceVersion: the stored bytes themselves.
func (o *Object) JSON() []byte { return o.value }

// Protobuf returns the object in protobuf, in the envelope of application/vnd.kubernetes.protobuf. It is made at most once
// or so, however many readers there are.
func (o *Object) Protobuf() ([]byte, error) {
	if b := o.protobuf.Load(); b != nil {
		return *b, nil
	}
	var buf bytes.Buffer
	if err := upstream.Protobuf.Encode(o.decoded, &buf); err != nil {
		return nil, fmt.Errorf("encode %s %s/%s as protobuf: %w", o.resource.Kind.Kind, o.Meta().GetNamespace(), o.Meta().GetName(), err)
	}
	encoded := buf.Bytes()
	o.protobuf.Store(&encoded)
	return encoded, nil
}

// Revision is the object's resourceVersion as a number. It is 0 for what a dry run would have created.
func (o *Object) Revision() int64 { return o.revision }

// Resource that the object is one of.
func (o *Object) Resource() *Resource { return o.resource }

// objectOf returns the object of an entry: what its writer handed over, or what the stored bytes say.
func objectOf(res *Resource, entry *store.Entry) (*Object, error) {
	o, err := entry.Object(func(value []byte) (any, error) {
		obj := res.New()
		if err := utiljson.Unmarshal(value, obj); err != nil {
			return nil, err
		}
		return &Object{resource: res, value: value, revision: entry.Revision, decoded: obj}, nil
	})
	if err != nil {
		return nil, fmt.Errorf("stored %s %s/%s can't be read: %w", res.Name, entry.Key.Namespace, entry.Key.Name, err)
	}
	return o.(*Object), nil
}

// encode returns the wire form of an object. Its resourceVersion is that of the object that it comes from (0 for none),
// until splice puts in the one of the commit.
func encode(res *Resource, obj runtime.Object, revision int64) ([]byte, error) {
	obj.GetObjectKind().SetGroupVersionKind(res.Kind)
	obj.(metav1.Object).SetResourceVersion(strconv.FormatInt(revision, 10))
	return json.Marshal(obj)
}

// encoder returns what a store.Op takes as Encode: it is given the bytes before the commit, so that nothing is left to do in
// the commit but to put in the revision. The object belongs to the store from then on.
func encoder(res *Resource, obj runtime.Object, value []byte) func(revision int64) ([]byte, any) {
	return func(revision int64) ([]byte, any) {
		value := splice(value, revision)
		obj.(metav1.Object).SetResourceVersion(strconv.FormatInt(revision, 10))
		return value, &Object{resource: res, value: value, revision: revision, decoded: obj}
	}
}

var resourceVersionKey = []byte(`"resourceVersion":"`)

// splice returns a copy of an encoded object with another resourceVersion. The first key of that name is the object's own:
// what comes before it (kind, apiVersion, names, uid) are strings, in which quotes are escaped.
func splice(value []byte, revision int64) []byte {
	at := bytes.Index(value, resourceVersionKey)
	if at < 0 {
		panic("encoded object without resourceVersion: " + string(value))
	}
	at += len(resourceVersionKey)
	end := at + bytes.IndexByte(value[at:], '"')
	out := make([]byte, 0, len(value)+20)
	out = append(out, value[:at]...)
	out = strconv.AppendInt(out, revision, 10)
	return append(out, value[end:]...)
}

// at returns the object as if it had been written at another revision, for watchers that lose sight of it.
func (o *Object) at(revision int64) *Object {
	obj := o.decoded.DeepCopyObject()
	obj.(metav1.Object).SetResourceVersion(strconv.FormatInt(revision, 10))
	return &Object{resource: o.resource, value: splice(o.value, revision), revision: revision, decoded: obj}
}
