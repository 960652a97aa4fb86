package registry

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"edgepod/server/store"
)

// Resource describes one kind: its names, what can be done with it, and its rules.
type Resource struct {
	// Kind is the group, version and kind that it is stored and served in; Name is the plural of paths.
	Kind       schema.GroupVersionKind
	Name       string
	Singular   string
	ShortNames []string
	Categories []string
	Namespaced bool
	// Verbs in discovery's words, sorted: create, delete, deletecollection, get, list, patch, update, watch.
	Verbs []string
	// Subresources that the generic handlers serve ("status", "finalize"), in discovery's words.
	Subresources []Subresource
	// New and NewList return empty objects of the types served.
	New     func() runtime.Object
	NewList func() runtime.Object

	rules
}

// Subresource is one that discovery lists. Kind is that of what it takes and gives (Scale, Eviction, Binding, ...).
type Subresource struct {
	Name  string
	Kind  schema.GroupVersionKind
	Verbs []string
}

// GroupVersionResource returns the resource's full name.
func (r *Resource) GroupVersionResource() schema.GroupVersionResource {
	return r.Kind.GroupVersion().WithResource(r.Name)
}

// GroupResource returns the resource's name without its version.
func (r *Resource) GroupResource() schema.GroupResource {
	return schema.GroupResource{Group: r.Kind.Group, Resource: r.Name}
}

// key of one of the resource's objects in the store.
func (r *Resource) key(namespace, name string) store.Key {
	return store.Key{Resource: r.GroupResource().String(), Namespace: namespace, Name: name}
}
