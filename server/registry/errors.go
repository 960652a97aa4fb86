package registry

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"edgepod/server/registry/upstream"
	"edgepod/server/store"
)

// Texts that clients match or show.
const (
	textConflict          = "the object has been modified; please apply your changes to the latest version and try again"
	textWatchExpired      = "The resourceVersion for the provided watch is too old."
	textListExpired       = "The resourceVersion for the provided list is too old."
	textContinueExpired   = "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list."
	textNamespaceMismatch = "the namespace of the provided object does not match the namespace sent on the request"
)

// statusOf makes a status error of what the store says about one object.
func statusOf(err error, res *Resource, name string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, store.ErrNotFound):
		return apierrors.NewNotFound(res.GroupResource(), name)
	case errors.Is(err, store.ErrExists):
		return apierrors.NewAlreadyExists(res.GroupResource(), name)
	case errors.Is(err, store.ErrConflict):
		return apierrors.NewConflict(res.GroupResource(), name, errors.New(textConflict))
	case errors.Is(err, store.ErrClosed):
		return apierrors.NewServiceUnavailable("the store is closed: the server is stopping")
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return apierrors.NewTimeoutError(fmt.Sprintf("request did not complete: %v", err), 0)
	case apierrors.ReasonForError(err) != metav1.StatusReasonUnknown:
		return err
	}
	return apierrors.NewInternalError(err)
}

func invalid(res *Resource, name string, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(res.Kind.GroupKind(), name, errs)
}

func tooLarge(asked, newest int64) error {
	err := apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %d, current: %d", asked, newest), 1)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{
		Type:    metav1.CauseTypeResourceVersionTooLarge,
		Message: "Too large resource version",
	}}
	return err
}

// checkKind refuses an object that is not of the resource's type.
func checkKind(res *Resource, obj runtime.Object) error {
	kinds, _, err := upstream.Scheme.ObjectKinds(obj)
	if err != nil || len(kinds) == 0 {
		return apierrors.NewBadRequest(fmt.Sprintf("the object provided is unrecognized (must be of type %s)", res.Kind.Kind))
	}
	if kinds[0] != res.Kind {
		return apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s", kinds[0].Kind, kinds[0].GroupVersion(), res.Kind.Kind))
	}
	return nil
}
