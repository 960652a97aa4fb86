package registry

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// rules are what differs from kind to kind behind the verbs. Each function gets objects of the resource's own type.
//
//	create:  support ─► defaults ─► admit ─► create ─► store
//	update:  defaults ─► update[subresource] ─► store
type rules struct {
	// support looks at a new object as its author wrote it, for what this runtime does not do.
	support func(obj runtime.Object) verdict
	// admit completes a new object, looking at others in the registry, or refuses it with a status error.
	admit func(ctx context.Context, r *Registry, obj runtime.Object) error
	// create sets what a new object starts with, and validates it.
	create func(obj runtime.Object) verdict
	// update, by subresource: undoes what may not change there, and validates the rest. "" is the object itself.
	update map[string]func(obj, old runtime.Object) verdict
	// field returns the value of a selectable field other than metadata.name and metadata.namespace.
	field func(obj runtime.Object, name string) string
	// volatile tells changes that may be lost when the machine dies, because they are made again in a moment.
	volatile func(obj, old runtime.Object) bool
	// grace returns how long the object's deletion takes when asked for so many seconds (nil: not said); nil is no grace
	// at all: objects of the kind go at once.
	grace func(obj runtime.Object, asked *int64) int64
	// terminate, for kinds that others must empty first, is what the first request for deletion does to the object.
	terminate func(obj runtime.Object)
	// held tells that something besides metadata.finalizers keeps the object from going.
	held func(obj runtime.Object) bool

	// createOnUpdate: an update of an absent object creates it, where the request allows.
	createOnUpdate bool
	// versionRequired: an update must name a resourceVersion.
	versionRequired bool
	// ownsNothing: the kind takes no part in garbage collection.
	ownsNothing bool
	// immortal are names that can't be deleted.
	immortal []string
}

// verdict of a rule on an object.
type verdict struct {
	errs     field.ErrorList
	warnings []string
}

// onCreate, onUpdate, onField and the like make rules of functions on a kind's own type.
func onCreate[P runtime.Object](f func(obj P) verdict) func(runtime.Object) verdict {
	return func(obj runtime.Object) verdict { return f(obj.(P)) }
}

func onUpdate[P runtime.Object](f func(obj, old P) verdict) func(obj, old runtime.Object) verdict {
	return func(obj, old runtime.Object) verdict { return f(obj.(P), old.(P)) }
}

func onField[P runtime.Object](f func(obj P, name string) string) func(runtime.Object, string) string {
	return func(obj runtime.Object, name string) string { return f(obj.(P), name) }
}

func onAdmit[P runtime.Object](f func(ctx context.Context, r *Registry, obj P) error) func(context.Context, *Registry, runtime.Object) error {
	return func(ctx context.Context, r *Registry, obj runtime.Object) error { return f(ctx, r, obj.(P)) }
}

func onChange[P runtime.Object](f func(obj, old P) bool) func(obj, old runtime.Object) bool {
	return func(obj, old runtime.Object) bool { return f(obj.(P), old.(P)) }
}

func onObject[P runtime.Object](f func(obj P) bool) func(runtime.Object) bool {
	return func(obj runtime.Object) bool { return f(obj.(P)) }
}
