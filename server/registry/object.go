package registry

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"edgepod/server/store"
)

// Object is one stored object at one revision. It is frozen: whoever wants to change what Runtime returns copies it first.
type Object struct {
	entry    *store.Entry
	resource *Resource
	decoded  runtime.Object
}

// Runtime returns the object in the type that its resource serves, with apiVersion, kind and resourceVersion set.
func (o *Object) Runtime() runtime.Object { return o.decoded }

// Meta returns the object's metadata, frozen like the object.
func (o *Object) Meta() metav1.Object { return o.decoded.(metav1.Object) }

// JSON returns the object's wire form, complete with apiVersion, kind and resourceVersion: the stored bytes themselves.
func (o *Object) JSON() []byte { return o.entry.Value }

// Revision is the object's resourceVersion as a number.
func (o *Object) Revision() int64 { return o.entry.Revision }

// Resource that the object is one of.
func (o *Object) Resource() *Resource { return o.resource }
