package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/uuid"

	"edgepod/server/registry/upstream"
	"edgepod/server/store"
)

const (
	// maxGenerated bounds the part of a generated name that is given; suffixLength is that of the random part.
	maxGenerated = 58
	suffixLength = 5
	// maxAttempts at finding a free name.
	maxAttempts = 8
)

// Create stores a new object, completed and validated.
func (r *Registry) Create(ctx context.Context, res *Resource, req CreateRequest) (Result, error) {
	if err := r.checkNew(ctx, res, &req); err != nil {
		return Result{}, err
	}
	meta := req.Object.(metav1.Object)
	base := meta.GetGenerateName()
	if base == "" || meta.GetName() != "" {
		return r.create(ctx, res, req)
	}
	for attempt := 1; ; attempt++ {
		try := req
		try.Object = req.Object.DeepCopyObject()
		name := generatedName(base)
		try.Object.(metav1.Object).SetName(name)
		result, err := r.create(ctx, res, try)
		if !apierrors.IsAlreadyExists(err) {
			return result, err
		}
		if attempt == maxAttempts {
			return Result{}, apierrors.NewGenerateNameConflict(res.GroupResource(), name, 1)
		}
	}
}

func generatedName(base string) string {
	return base[:min(len(base), maxGenerated)] + rand.String(suffixLength)
}

// checkNew holds a new object to its request: the kind, the namespace, and that nothing is set that the server sets.
func (r *Registry) checkNew(ctx context.Context, res *Resource, req *CreateRequest) error {
	if err := checkKind(res, req.Object); err != nil {
		return err
	}
	meta := req.Object.(metav1.Object)
	if meta.GetResourceVersion() != "" {
		return apierrors.NewBadRequest("resourceVersion should not be set on objects to be created")
	}
	if !res.Namespaced {
		req.Namespace = ""
		meta.SetNamespace("")
		return nil
	}
	switch given := meta.GetNamespace(); {
	case req.Namespace == "":
		req.Namespace = given
	case given != "" && given != req.Namespace:
		return apierrors.NewBadRequest(textNamespaceMismatch)
	}
	if req.Namespace == "" {
		return apierrors.NewBadRequest("an empty namespace may not be set during creation")
	}
	meta.SetNamespace(req.Namespace)
	return r.checkNamespace(ctx, res, req.Namespace, meta.GetName())
}

// checkNamespace refuses new objects in namespaces that don't exist or are on their way out.
func (r *Registry) checkNamespace(ctx context.Context, res *Resource, namespace, name string) error {
	o, err := r.Get(ctx, r.spaces, "", namespace)
	if err != nil {
		return err
	}
	if o.decoded.(*corev1.Namespace).Status.Phase != corev1.NamespaceTerminating {
		return nil
	}
	forbidden := apierrors.NewForbidden(res.GroupResource(), name,
		fmt.Errorf("unable to create new content in namespace %s because it is being terminated", namespace))
	forbidden.ErrStatus.Details.Causes = append(forbidden.ErrStatus.Details.Causes, metav1.StatusCause{
		Type:    corev1.NamespaceTerminatingCause,
		Message: fmt.Sprintf("namespace %s is being terminated", namespace),
		Field:   "metadata.namespace",
	})
	return forbidden
}

// create stores an object that has its name and namespace.
func (r *Registry) create(ctx context.Context, res *Resource, req CreateRequest) (Result, error) {
	obj := req.Object
	warnings, err := r.prepareNew(ctx, res, obj)
	if err != nil {
		return Result{}, err
	}
	value, err := encode(res, obj, 0)
	if err != nil {
		return Result{}, apierrors.NewInternalError(err)
	}
	name := obj.(metav1.Object).GetName()
	key := res.key(req.Namespace, name)
	if req.DryRun {
		if _, err := r.store.Get(ctx, key); err == nil {
			return Result{}, r.exists(ctx, res, key)
		}
		o, err := unstored(res, obj)
		return Result{Object: o, Warnings: warnings, Created: true}, err
	}
	entry, err := r.store.Commit(ctx, store.Op{Verb: store.Create, Key: key, Encode: encoder(res, obj, value)})
	if errors.Is(err, store.ErrExists) {
		return Result{}, r.exists(ctx, res, key)
	}
	if err != nil {
		return Result{}, statusOf(err, res, name)
	}
	if err := r.confirmNamespace(ctx, res, entry); err != nil {
		return Result{}, err
	}
	o, err := objectOf(res, entry)
	return Result{Object: o, Warnings: warnings, Created: true}, statusOf(err, res, name)
}

// confirmNamespace takes a new object back if its namespace has begun to end since it was looked at. Otherwise who empties
// the namespace might have looked just before, and the object would be left in a namespace that is no more.
func (r *Registry) confirmNamespace(ctx context.Context, res *Resource, entry *store.Entry) error {
	if !res.Namespaced {
		return nil
	}
	refused := r.checkNamespace(ctx, res, entry.Key.Namespace, entry.Key.Name)
	if refused == nil {
		return nil
	}
	o, err := objectOf(res, entry)
	if err != nil {
		return statusOf(err, res, entry.Key.Name)
	}
	_, err = r.store.Commit(context.WithoutCancel(ctx), store.Op{
		Verb: store.Delete, Key: entry.Key, Encode: encoder(res, o.decoded.DeepCopyObject(), o.value),
	})
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return statusOf(err, res, entry.Key.Name)
	}
	return refused
}

// prepareNew completes and validates a new object.
func (r *Registry) prepareNew(ctx context.Context, res *Resource, obj runtime.Object) (warnings []string, err error) {
	meta := obj.(metav1.Object)
	r.stamp(meta)
	var supported verdict
	if res.support != nil {
		supported = res.support(obj)
	}
	upstream.Default(obj)
	if res.admit != nil {
		if err := res.admit(ctx, r, obj); err != nil {
			return nil, err
		}
	}
	found := res.rules.create(obj)
	if err := invalid(res, meta.GetName(), merge(supported.errs, found.errs)); err != nil {
		return nil, err
	}
	return append(supported.warnings, found.warnings...), nil
}

// stamp sets the metadata that only the server sets.
func (r *Registry) stamp(meta metav1.Object) {
	meta.SetUID(uuid.NewUUID())
	meta.SetCreationTimestamp(r.now())
	meta.SetDeletionTimestamp(nil)
	meta.SetDeletionGracePeriodSeconds(nil)
	meta.SetSelfLink("")
	meta.SetManagedFields(nil)
}

// exists is the error for a name that is taken.
func (r *Registry) exists(ctx context.Context, res *Resource, key store.Key) error {
	err := apierrors.NewAlreadyExists(res.GroupResource(), key.Name)
	if o, getErr := r.Get(ctx, res, key.Namespace, key.Name); getErr == nil && o.Meta().GetDeletionTimestamp() != nil {
		err.ErrStatus.Message = "object is being deleted: " + err.ErrStatus.Message
	}
	return err
}

// unstored makes an Object of what a dry run would have created: it has no resourceVersion.
func unstored(res *Resource, obj runtime.Object) (*Object, error) {
	obj.(metav1.Object).SetResourceVersion("")
	value, err := json.Marshal(obj)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	return &Object{resource: res, value: value, decoded: obj}, nil
}
