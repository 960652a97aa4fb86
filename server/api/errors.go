package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var groupless schema.GroupResource

func badRequest(format string, args ...any) error {
	return apierrors.NewBadRequest(fmt.Sprintf(format, args...))
}

func resourceNotFound() error {
	return apierrors.NewGenericServerResponse(http.StatusNotFound, "", groupless, "", "", 0, false)
}

// notServedYet is for what people ask for by name, to whom the words of resourceNotFound would say nothing.
func notServedYet(what string) error {
	return statusError(http.StatusNotFound, metav1.StatusReasonNotFound, what+" is not served by edgepod yet")
}

func methodNotAllowed() error {
	return apierrors.NewGenericServerResponse(http.StatusMethodNotAllowed, "", groupless, "", "", 0, false)
}

func unsupportedMediaType(accepted ...string) error {
	return statusError(http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType,
		"the body of the request was in an unknown format - accepted media types include: "+strings.Join(accepted, ", "))
}

func notAcceptable(accepted ...string) error {
	return statusError(http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable,
		"only the following media types are accepted: "+strings.Join(accepted, ", "))
}

func statusError(code int32, reason metav1.StatusReason, message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message}}
}

// notFound answers paths that belong to nothing, in plain text as Kubernetes does.
func (a *API) notFound(r *request) error {
	return r.String(http.StatusNotFound, "404 page not found\n")
}

// unknown answers paths of resources and versions that are not served. Where the group is, the client is one that takes a
// Status.
func (a *API) unknown(r *request, group string) error {
	if !a.discovery.servesGroup(group) {
		return a.notFound(r)
	}
	return resourceNotFound()
}

// writeFault answers errors of requests that reached no handler of ours.
func (a *API) writeFault(err error, c echo.Context) {
	if c.Response().Committed {
		return
	}
	r := newRequest(c)
	var fault *echo.HTTPError
	if errors.As(err, &fault) {
		err = apierrors.NewGenericServerResponse(fault.Code, "", groupless, "", "", 0, false)
	}
	a.writeError(r, err)
	a.finish(r, err)
}

// writeError answers with the Status of an error, unless the answer has begun already.
func (a *API) writeError(r *request, err error) {
	if r.Response().Committed {
		return
	}
	status := a.status(r, err)
	header := r.Response().Header()
	if status.Details != nil && status.Details.RetryAfterSeconds > 0 {
		header.Set("Retry-After", strconv.Itoa(int(status.Details.RetryAfterSeconds)))
	}
	if status.Code == http.StatusUnauthorized {
		header.Set("WWW-Authenticate", `Bearer realm="edgepod"`)
	}
	if a.ofImages(r.Request().URL.Path) {
		a.Images.Refuse(r.Response(), int(status.Code), status.Message)
		return
	}
	out, ok := negotiate(r.Request(), nil)
	if !ok {
		out = output{}
	}
	if err := a.writeRuntime(r, out, int(status.Code), status); err != nil {
		a.Log.Debug("an error could not be answered", "err", err)
	}
}

// status makes the Status of any error. What is no status error is a fault of the server, or the end of its patience.
func (a *API) status(r *request, err error) *metav1.Status {
	var known apierrors.APIStatus
	switch {
	case errors.As(err, &known):
	case errors.Is(err, context.DeadlineExceeded):
		known = apierrors.NewTimeoutError(fmt.Sprintf("request did not complete within the allotted timeout of %s", a.Limits.Request), 0)
	case errors.Is(err, context.Canceled):
		known = apierrors.NewTimeoutError("the request was cancelled", 0)
	default:
		a.Log.Error("a request failed", "path", r.Request().URL.Path, "err", err)
		known = apierrors.NewInternalError(err)
	}
	status := known.Status()
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	if status.Status == "" {
		status.Status = metav1.StatusFailure
	}
	if status.Code == 0 {
		status.Code = http.StatusInternalServerError
	}
	return &status
}
