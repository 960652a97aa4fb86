// Package registry is the one door to API objects: each verb of the Kubernetes API as a method, with defaults, validation,
// generations, graceful deletion and finalizers, over the store.
package registry

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// Caller is who asks. The zero value is the server itself.
type Caller struct {
	Name   string
	UID    string
	Groups []string
	Extra  map[string][]string
}

// CreateRequest is what Create takes. Object is of the resource's own type (or metav1.Unstructured for custom ones) and
// belongs to the registry from the call on.
type CreateRequest struct {
	Caller       Caller
	Namespace    string
	Object       runtime.Object
	FieldManager string
	DryRun       bool
}

// UpdateRequest is what Update takes. Modify is called with a copy of the live object, which it may change and return, or
// replace; it is called again after a conflict, unless the object that it returned names a resourceVersion that the live
// one does not have. Subresource is "" or "status" (or another that the resource lists).
type UpdateRequest struct {
	Caller        Caller
	Namespace     string
	Name          string
	Subresource   string
	Modify        func(live runtime.Object) (runtime.Object, error)
	Preconditions *metav1.Preconditions
	FieldManager  string
	DryRun        bool
	// MayCreate, as PUT asks: if there is no such object, and the kind allows it (leases, events), Modify is called with an
	// empty one, and what it returns is created.
	MayCreate bool
}

// DeleteRequest is what Delete takes. Options is never nil; it is validated by the registry.
type DeleteRequest struct {
	Caller    Caller
	Namespace string
	Name      string
	Options   *metav1.DeleteOptions
}

// ListRequest is what List takes: the options of the API, parsed. A nil selector selects everything; fields that can't be
// selected by are a bad request.
type ListRequest struct {
	Namespace            string
	Label                labels.Selector
	Field                fields.Selector
	ResourceVersion      string
	ResourceVersionMatch metav1.ResourceVersionMatch
	Limit                int64
	Continue             string
}

// WatchRequest is what Watch takes.
type WatchRequest struct {
	Namespace         string
	Label             labels.Selector
	Field             fields.Selector
	ResourceVersion   string
	SendInitialEvents bool
}

// Result of a write. Gone tells that the object is no longer stored: of a Delete, or of an Update that took away the last
// that held an object on its way out; Object is then its last state. Created tells that it was not stored before.
type Result struct {
	Object   *Object
	Warnings []string
	Gone     bool
	Created  bool
}

// List is an answer to a ListRequest.
type List struct {
	Items           []*Object
	ResourceVersion string
	Continue        string
	Remaining       *int64
}

// Event is one change as a watcher with the request's selectors sees it. Type is ADDED, MODIFIED, DELETED, or BOOKMARK
// (with a nil Object) for the end of the initial events.
type Event struct {
	Type   string
	Object *Object
	// Revision at which it happened.
	Revision int64
}

// Watcher reads the changes that a WatchRequest asked for, at its reader's own pace. Only one goroutine may use it.
type Watcher interface {
	// Next waits for changes and returns them in order, in batches. The error is ctx's, or a status error of reason
	// Expired that ends the watch.
	Next(ctx context.Context) ([]Event, error)
	// Seen is the revision up to which everything was delivered, for bookmarks.
	Seen() int64
}

// Verbs is the registry's surface as the API and the controllers use it; *Registry implements it. Errors are status
// errors of apimachinery's api/errors. Objects handed out are frozen.
type Verbs interface {
	Resources() []*Resource
	// Resource finds a resource by its group and plural name, nil for none.
	Resource(group, name string) *Resource

	Create(ctx context.Context, res *Resource, req CreateRequest) (Result, error)
	Get(ctx context.Context, res *Resource, namespace, name string) (*Object, error)
	List(ctx context.Context, res *Resource, req ListRequest) (List, error)
	Watch(ctx context.Context, res *Resource, req WatchRequest) (Watcher, error)
	Update(ctx context.Context, res *Resource, req UpdateRequest) (Result, error)
	Delete(ctx context.Context, res *Resource, req DeleteRequest) (Result, error)
	// DeleteCollection deletes what the list request selects and returns what was selected.
	DeleteCollection(ctx context.Context, res *Resource, list ListRequest, req DeleteRequest) (List, error)
	// Bind sets the node of a pod, as pods/binding does, with the condition PodScheduled. A uid that is not "" must match.
	Bind(ctx context.Context, namespace, pod string, uid types.UID, node string) error
}

var _ Verbs = (*Registry)(nil)
