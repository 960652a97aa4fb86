package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"edgepod/server/store"
)

// Delete ends an object: at once, or, where it has a grace period or finalizers, by marking it for those that have work to
// do before.
func (r *Registry) Delete(ctx context.Context, res *Resource, req DeleteRequest) (Result, error) {
	if errs := metav1validation.ValidateDeleteOptions(req.Options); len(errs) > 0 {
		return Result{}, apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "DeleteOptions"}, "", errs)
	}
	if slices.Contains(res.immortal, req.Name) {
		return Result{}, apierrors.NewForbidden(res.GroupResource(), req.Name, errors.New("this namespace may not be deleted"))
	}
	for {
		live, err := r.Get(ctx, res, req.Namespace, req.Name)
		if err != nil {
			return Result{}, err
		}
		result, err := r.deleteLive(ctx, live, req.Options)
		if errors.Is(err, store.ErrConflict) && ctx.Err() == nil {
			continue
		}
		return result, statusOf(err, res, req.Name)
	}
}

func (r *Registry) deleteLive(ctx context.Context, live *Object, options *metav1.DeleteOptions) (Result, error) {
	res, dryRun := live.resource, len(options.DryRun) > 0
	if err := checkDeletable(res, live, options.Preconditions); err != nil {
		return Result{}, err
	}
	obj := live.decoded.DeepCopyObject()
	switch planDeletion(res, obj, options, r.now(), r.collected && !res.ownsNothing) {
	case deletionPending:
		return Result{Object: live}, nil
	case deletionMarked:
		return r.replace(ctx, live, obj, dryRun)
	}
	value, err := encode(res, obj, live.revision)
	if err != nil {
		return Result{}, err
	}
	if dryRun {
		return Result{Object: &Object{resource: res, value: value, revision: live.revision, decoded: obj}, Gone: true}, nil
	}
	entry, err := r.store.Commit(ctx, store.Op{
		Verb: store.Delete, Key: res.key(live.Meta().GetNamespace(), live.Meta().GetName()), Expect: live.revision,
		Encode: encoder(res, obj, value),
	})
	if err != nil {
		return Result{}, err
	}
	o, err := objectOf(res, entry)
	return Result{Object: o, Gone: true}, err
}

// checkDeletable holds a deletion to its preconditions.
func checkDeletable(res *Resource, live *Object, p *metav1.Preconditions) error {
	if p == nil {
		return nil
	}
	meta, kind := live.Meta(), schema.GroupResource{Group: res.Kind.Group, Resource: res.Kind.Kind}
	if p.UID != nil && *p.UID != meta.GetUID() {
		return apierrors.NewConflict(kind, meta.GetName(), fmt.Errorf("the UID in the precondition (%s) does not match the UID in record (%s). The object might have been deleted and then recreated", *p.UID, meta.GetUID()))
	}
	if p.ResourceVersion != nil && *p.ResourceVersion != meta.GetResourceVersion() {
		return apierrors.NewConflict(kind, meta.GetName(), fmt.Errorf("the ResourceVersion in the precondition (%s) does not match the ResourceVersion in record (%s). The object might have been modified", *p.ResourceVersion, meta.GetResourceVersion()))
	}
	return nil
}

// deletion is what comes of asking for one.
type deletion int

const (
	// deletionPending: it has been asked for before, and nothing changes.
	deletionPending deletion = iota
	// deletionMarked: the object stays, with a deletionTimestamp, until others are done with it.
	deletionMarked
	// deletionNow: the object goes.
	deletionNow
)

// planDeletion decides, and changes the object to what it becomes. Collected tells that garbage collection will look at it.
//
//	            first request                 later requests
//	namespace   marked, Terminating           pending while spec.finalizers hold it, then as others
//	grace > 0   marked, now + grace           marked if the grace gets shorter, else pending
//	finalizers  marked                        marked (grace 0)
//	else        now                           now
func planDeletion(res *Resource, obj runtime.Object, options *metav1.DeleteOptions, now metav1.Time, collected bool) deletion {
	meta := obj.(metav1.Object)
	if res.terminate != nil {
		if meta.GetDeletionTimestamp() == nil {
			meta.SetDeletionTimestamp(&now)
			if collected {
				setOrphaning(meta, options)
			}
			res.terminate(obj)
			return deletionMarked
		}
		if res.held(obj) {
			return deletionPending
		}
	}
	grace, graceful, pending := planGrace(res, obj, options, now)
	if pending {
		return deletionPending
	}
	if collected {
		setOrphaning(meta, options)
	}
	held := len(meta.GetFinalizers()) > 0
	switch {
	case graceful && (held || grace > 0):
		return deletionMarked
	case !graceful && held:
		markDeleting(meta, now)
		return deletionMarked
	}
	return deletionNow
}

// planGrace sets deletionTimestamp and grace period where the kind has a graceful deletion. A grace period can only get
// shorter, and pending tells that it doesn't.
func planGrace(res *Resource, obj runtime.Object, options *metav1.DeleteOptions, now metav1.Time) (grace int64, graceful, pending bool) {
	if res.grace == nil {
		return 0, false, false
	}
	meta, asked := obj.(metav1.Object), options.GracePeriodSeconds
	if asked != nil && *asked < 0 {
		asked = new(int64(1))
	}
	if meta.GetDeletionTimestamp() == nil {
		grace = res.grace(obj, asked)
		setDeletion(meta, metav1.NewTime(now.Add(seconds(grace))), grace)
		if meta.GetGeneration() > 0 {
			meta.SetGeneration(meta.GetGeneration() + 1)
		}
		return grace, true, false
	}
	given := meta.GetDeletionGracePeriodSeconds()
	if given == nil || *given == 0 {
		return 0, false, false
	}
	if asked == nil || *asked >= *given {
		return 0, true, true
	}
	grace = *asked
	at := metav1.NewTime(meta.GetDeletionTimestamp().Add(seconds(grace) - seconds(*given)))
	if at.Before(&now) {
		at, grace = now, min(grace, 1)
	}
	setDeletion(meta, at, grace)
	return grace, true, false
}

// markDeleting marks an object that only finalizers hold.
func markDeleting(meta metav1.Object, now metav1.Time) {
	at := meta.GetDeletionTimestamp()
	if at == nil && meta.GetGeneration() > 0 {
		meta.SetGeneration(meta.GetGeneration() + 1)
	}
	if at == nil || now.Before(at) {
		at = &now
	}
	setDeletion(meta, *at, 0)
}

func setDeletion(meta metav1.Object, at metav1.Time, grace int64) {
	meta.SetDeletionTimestamp(&at)
	meta.SetDeletionGracePeriodSeconds(&grace)
}

// setOrphaning sets the finalizers by which garbage collection learns what becomes of dependents: those that the options ask
// for, or else those that the object has.
func setOrphaning(meta metav1.Object, options *metav1.DeleteOptions) {
	had := meta.GetFinalizers()
	orphan := slices.Contains(had, metav1.FinalizerOrphanDependents)
	foreground := !orphan && slices.Contains(had, metav1.FinalizerDeleteDependents)
	switch {
	case options.OrphanDependents != nil:
		orphan, foreground = *options.OrphanDependents, false
	case options.PropagationPolicy != nil:
		orphan = *options.PropagationPolicy == metav1.DeletePropagationOrphan
		foreground = *options.PropagationPolicy == metav1.DeletePropagationForeground
	}
	var finalizers []string
	for _, f := range had {
		if f != metav1.FinalizerOrphanDependents && f != metav1.FinalizerDeleteDependents {
			finalizers = append(finalizers, f)
		}
	}
	if orphan {
		finalizers = append(finalizers, metav1.FinalizerOrphanDependents)
	}
	if foreground {
		finalizers = append(finalizers, metav1.FinalizerDeleteDependents)
	}
	if len(finalizers) != len(had) || orphan != slices.Contains(had, metav1.FinalizerOrphanDependents) {
		meta.SetFinalizers(finalizers)
	}
}

// DeleteCollection deletes what the list request selects and returns what was selected. It is not one commit: an error in
// the midst leaves the rest.
func (r *Registry) DeleteCollection(ctx context.Context, res *Resource, list ListRequest, req DeleteRequest) (List, error) {
	selected, err := r.List(ctx, res, list)
	if err != nil {
		return List{}, err
	}
	for i, o := range selected.Items {
		one := req
		one.Namespace, one.Name, one.Options = o.Meta().GetNamespace(), o.Meta().GetName(), req.Options.DeepCopy()
		result, err := r.Delete(ctx, res, one)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return List{}, err
		}
		selected.Items[i] = result.Object
	}
	return selected, nil
}
