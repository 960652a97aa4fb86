package registry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"edgepod/server/registry/upstream"
	"edgepod/server/store"
)

// Update changes an object. It starts again when somebody else was faster, as long as the request doesn't name the
// resourceVersion that it is about.
func (r *Registry) Update(ctx context.Context, res *Resource, req UpdateRequest) (Result, error) {
	if res.update[req.Subresource] == nil {
		return Result{}, apierrors.NewMethodNotSupported(res.GroupResource(), "update")
	}
	for {
		live, err := r.Get(ctx, res, req.Namespace, req.Name)
		if apierrors.IsNotFound(err) && req.MayCreate && res.createOnUpdate && req.Subresource == "" {
			result, err := r.createInstead(ctx, res, req)
			if apierrors.IsAlreadyExists(err) && ctx.Err() == nil {
				continue
			}
			return result, err
		}
		if err != nil {
			return Result{}, err
		}
		result, err := r.updateLive(ctx, res, req, live)
		if errors.Is(err, store.ErrConflict) && ctx.Err() == nil {
			continue
		}
		return result, err
	}
}

// createInstead makes of an update a creation.
func (r *Registry) createInstead(ctx context.Context, res *Resource, req UpdateRequest) (Result, error) {
	if err := checkUID(res, req.Preconditions, req.Name, ""); err != nil {
		return Result{}, err
	}
	obj, err := modified(req, res.New())
	if err != nil {
		return Result{}, err
	}
	if err := checkNames(res, req, obj); err != nil {
		return Result{}, err
	}
	obj.(metav1.Object).SetResourceVersion("")
	return r.Create(ctx, res, CreateRequest{
		Caller: req.Caller, Namespace: req.Namespace, Object: obj, FieldManager: req.FieldManager, DryRun: req.DryRun,
	})
}

// modified asks the request what becomes of an object. What it returns instead of its argument may be returned again after a
// conflict, so that only a copy may be changed.
func modified(req UpdateRequest, obj runtime.Object) (runtime.Object, error) {
	changed, err := req.Modify(obj)
	if err != nil || changed == obj {
		return changed, err
	}
	return changed.DeepCopyObject(), nil
}

// updateLive changes the object as it was read. The error is the store's where somebody else was faster.
func (r *Registry) updateLive(ctx context.Context, res *Resource, req UpdateRequest, live *Object) (Result, error) {
	if err := checkPreconditions(res, req.Preconditions, live); err != nil {
		return Result{}, err
	}
	obj, err := modified(req, live.decoded.DeepCopyObject())
	if err != nil {
		return Result{}, err
	}
	if err := checkNames(res, req, obj); err != nil {
		return Result{}, err
	}
	if err := checkVersion(res, req.Name, obj.(metav1.Object).GetResourceVersion(), live); err != nil {
		return Result{}, err
	}
	keepMetadata(obj.(metav1.Object), live.Meta())
	upstream.Default(obj)
	found := res.update[req.Subresource](obj, live.decoded)
	if err := invalid(res, req.Name, found.errs); err != nil {
		return Result{}, err
	}
	result, err := r.replace(ctx, live, obj, req.DryRun)
	if !errors.Is(err, store.ErrConflict) || ctx.Err() != nil {
		err = statusOf(err, res, req.Name)
	}
	result.Warnings = found.warnings
	return result, err
}

// replace stores what an object has become: nothing if it has not changed, and a deletion if nothing holds it any more.
func (r *Registry) replace(ctx context.Context, live *Object, obj runtime.Object, dryRun bool) (Result, error) {
	res := live.resource
	value, err := encode(res, obj, live.revision)
	if err != nil {
		return Result{}, err
	}
	next := &Object{resource: res, value: value, revision: live.revision, decoded: obj}
	key := res.key(live.Meta().GetNamespace(), live.Meta().GetName())
	switch {
	case released(res, obj, live.Meta()):
		if !dryRun {
			_, err = r.store.Commit(ctx, store.Op{
				Verb: store.Delete, Key: key, Expect: live.revision,
				Encode: encoder(res, live.decoded.DeepCopyObject(), live.value),
			})
		}
		return Result{Object: next, Gone: true}, err
	case bytes.Equal(value, live.value):
		return Result{Object: live}, nil
	case dryRun:
		return Result{Object: next}, nil
	}
	entry, err := r.store.Commit(ctx, store.Op{
		Verb: store.Update, Key: key, Expect: live.revision,
		Encode:   encoder(res, obj, value),
		Volatile: res.volatile != nil && res.volatile(obj, live.decoded),
	})
	if err != nil {
		return Result{}, err
	}
	o, err := objectOf(res, entry)
	return Result{Object: o}, err
}

// released tells that an object on its way out has just lost the last that held it.
func released(res *Resource, obj runtime.Object, live metav1.Object) bool {
	if live.GetDeletionTimestamp() == nil || len(obj.(metav1.Object).GetFinalizers()) > 0 {
		return false
	}
	if grace := live.GetDeletionGracePeriodSeconds(); grace != nil && *grace != 0 {
		return false
	}
	return res.held == nil || !res.held(obj)
}

// checkNames holds a changed object to the path of its request.
func checkNames(res *Resource, req UpdateRequest, obj runtime.Object) error {
	if err := checkKind(res, obj); err != nil {
		return err
	}
	meta := obj.(metav1.Object)
	if meta.GetName() != req.Name {
		return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", meta.GetName(), req.Name))
	}
	if given := meta.GetNamespace(); res.Namespaced && given != "" && given != req.Namespace {
		return apierrors.NewBadRequest(fmt.Sprintf("the namespace of the object (%s) does not match the namespace on the request (%s)", given, req.Namespace))
	}
	meta.SetNamespace(req.Namespace)
	return nil
}

// checkVersion holds an update to the resourceVersion that it names, if it does.
func checkVersion(res *Resource, name, given string, live *Object) error {
	switch {
	case given == live.Meta().GetResourceVersion():
		return nil
	case given != "" && given != "0":
		return apierrors.NewConflict(res.GroupResource(), name, errors.New(textConflict))
	case res.versionRequired:
		kind := schema.GroupKind{Group: res.Kind.Group, Kind: res.Name} // as Kubernetes has it here
		path := field.NewPath("metadata", "resourceVersion")
		return apierrors.NewInvalid(kind, name, field.ErrorList{field.Invalid(path, 0, "must be specified for an update")})
	}
	return nil
}

// checkPreconditions of an update.
func checkPreconditions(res *Resource, p *metav1.Preconditions, live *Object) error {
	if p == nil {
		return nil
	}
	if err := checkUID(res, p, live.Meta().GetName(), live.Meta().GetUID()); err != nil {
		return err
	}
	if p.ResourceVersion != nil && *p.ResourceVersion != strconv.FormatInt(live.revision, 10) {
		return apierrors.NewConflict(res.GroupResource(), live.Meta().GetName(),
			fmt.Errorf("Precondition failed: ResourceVersion in precondition: %v, ResourceVersion in object meta: %v", *p.ResourceVersion, live.revision))
	}
	return nil
}

// checkUID holds an update to the uid that it names, if it does. An object that is to be created has none.
func checkUID(res *Resource, p *metav1.Preconditions, name string, uid types.UID) error {
	if p == nil || p.UID == nil || *p.UID == uid {
		return nil
	}
	return apierrors.NewConflict(res.GroupResource(), name,
		fmt.Errorf("Precondition failed: UID in precondition: %v, UID in object meta: %v", *p.UID, uid))
}

// keepMetadata undoes changes of what only the server sets.
func keepMetadata(meta, live metav1.Object) {
	meta.SetGeneration(live.GetGeneration())
	meta.SetCreationTimestamp(live.GetCreationTimestamp())
	meta.SetSelfLink("")
	meta.SetManagedFields(nil)
	meta.SetResourceVersion(live.GetResourceVersion())
	if meta.GetUID() == "" {
		meta.SetUID(live.GetUID())
	}
	if live.GetDeletionTimestamp() != nil {
		meta.SetDeletionTimestamp(live.GetDeletionTimestamp())
	}
	if meta.GetDeletionGracePeriodSeconds() == nil {
		meta.SetDeletionGracePeriodSeconds(live.GetDeletionGracePeriodSeconds())
	}
}
