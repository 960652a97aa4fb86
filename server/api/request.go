package api

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"edgepod/server/registry"
)

// request is one HTTP request on its way: what its path and its credentials say.
type request struct {
	echo.Context
	caller registry.Caller
	start  time.Time
	// verb in the words of authorization; for paths of no resource the method in lower case.
	verb string
	// group, version, plural, subresource, namespace and name are the parts of a resource's path, resource what they name:
	// nil for none.
	group, version, plural, subresource, namespace, name string
	resource                                             *registry.Resource
	// watchPath tells that the path has the prefix of old clients' watches; following, that the answer does not end by itself.
	watchPath, following bool
	values               url.Values
	out                  output
	// contentSuffix are parameters of the answer's Content-Type.
	contentSuffix string
	// warned is how many bytes of warnings the answer has.
	warned int
}

func newRequest(c echo.Context) *request {
	return &request{Context: c, start: time.Now(), verb: strings.ToLower(c.Request().Method)}
}

// query returns the query's values, parsed once.
func (r *request) query() url.Values {
	if r.values == nil {
		if r.Request().URL.RawQuery == "" {
			r.values = url.Values{}
		} else {
			r.values = r.Request().URL.Query()
		}
	}
	return r.values
}

// watches reads the query's watch as the API's options read booleans: anything but false and 0 is true, also nothing.
func (r *request) watches() bool {
	if !strings.Contains(r.Request().URL.RawQuery, "watch") {
		return false
	}
	values := r.query()["watch"]
	return len(values) > 0 && values[0] != "0" && !strings.EqualFold(values[0], "false")
}

func (r *request) mutates() bool {
	switch r.Request().Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return false
	}
	return true
}

// serve takes a request through every check that comes before its handler.
func (a *API) serve(r *request, h handler) error {
	err := a.admit(r, h)
	if err != nil {
		a.writeError(r, err)
	}
	a.finish(r, err)
	return nil
}

func (a *API) admit(r *request, h handler) error {
	caller, err := a.authenticate(r)
	if err != nil {
		return err
	}
	if r.caller, err = impersonate(caller, r.Request().Header); err != nil {
		return err
	}
	if err := a.authorize(r); err != nil {
		return err
	}
	release, err := a.gate.enter(r)
	if err != nil {
		return err
	}
	defer release()
	if r.following {
		a.metrics.longRunning(r, 1)
		defer a.metrics.longRunning(r, -1)
		return h(r)
	}
	limit, err := r.timeout(a.Limits.Request)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Request().Context(), limit)
	defer cancel()
	r.SetRequest(r.Request().WithContext(ctx))
	return h(r)
}

// timeout is how long the request may take: as long as it says itself, if that is shorter.
func (r *request) timeout(limit time.Duration) (time.Duration, error) {
	if !strings.Contains(r.Request().URL.RawQuery, "timeout=") {
		return limit, nil
	}
	given := r.query().Get("timeout")
	if given == "" {
		return limit, nil
	}
	own, err := time.ParseDuration(given)
	if err != nil {
		return 0, badRequest("invalid timeout specified in the request URL - %v", err)
	}
	if own <= 0 {
		return limit, nil
	}
	return min(own, limit), nil
}

// finish counts and logs a request that was answered.
func (a *API) finish(r *request, err error) {
	code := r.Response().Status
	took := time.Since(r.start)
	a.metrics.observe(r, code, took)
	if !a.Log.Enabled(r.Request().Context(), slog.LevelDebug) {
		return
	}
	a.Log.Debug("request", "method", r.Request().Method, "path", r.Request().URL.Path, "user", r.caller.Name,
		"code", code, "took", took, "err", err)
}

// dispatch calls the handler of a resource's verb.
func (a *API) dispatch(r *request) error {
	if r.resource == nil {
		return a.unknown(r, r.group)
	}
	if r.Request().Method == http.MethodHead || r.Request().Method == http.MethodOptions {
		return methodNotAllowed()
	}
	if r.resource.Namespaced && r.namespace == "" && r.name != "" || !r.resource.Namespaced && r.namespace != "" {
		return resourceNotFound()
	}
	if review, ok := a.reviews[r.resource]; ok {
		return a.serveReview(r, review)
	}
	if r.subresource != "" {
		return a.dispatchSubresource(r)
	}
	if !contains(r.resource.Verbs, r.verb) || !r.verbFits() {
		return methodNotAllowed()
	}
	return a.verb(r)
}

// verbFits tells whether the verb is one of an object where the path is an object's, and of a collection where it is not.
func (r *request) verbFits() bool {
	switch r.verb {
	case "create":
		return r.name == "" && (r.namespace != "" || !r.resource.Namespaced)
	case "deletecollection":
		return r.namespace != "" || !r.resource.Namespaced
	case "update", "patch":
		return r.name != ""
	}
	return true
}

func (a *API) verb(r *request) error {
	switch r.verb {
	case "get":
		return a.get(r)
	case "list":
		return a.list(r)
	case "watch":
		return a.watch(r)
	case "create":
		return a.create(r)
	case "update":
		return a.update(r)
	case "patch":
		return a.patch(r)
	case "delete":
		return a.delete(r)
	case "deletecollection":
		return a.deleteCollection(r)
	}
	return methodNotAllowed()
}

// dispatchSubresource serves the subresources that the resource lists, and those of pods that are streams.
func (a *API) dispatchSubresource(r *request) error {
	pods := r.group == "" && r.plural == "pods"
	verbs, ok := subresourceVerbs(r.resource, r.subresource)
	switch {
	case !ok && pods && contains(streams, r.subresource):
		return notServedYet("pods/" + r.subresource)
	case !ok:
		return resourceNotFound()
	}
	if !contains(verbs, r.verb) {
		return methodNotAllowed()
	}
	switch {
	case pods && r.subresource == "log":
		return a.log(r)
	case pods && r.subresource == "binding":
		return a.bind(r)
	}
	return a.verb(r)
}

// streams are what kubectl opens to a container, none of which is served yet.
var streams = []string{"attach", "exec", "portforward"}

func subresourceVerbs(res *registry.Resource, name string) (verbs []string, ok bool) {
	for i := range res.Subresources {
		if res.Subresources[i].Name == name {
			return res.Subresources[i].Verbs, true
		}
	}
	return nil, false
}

// resource finds a resource that is served, stored or not.
func (a *API) resource(group, plural string) *registry.Resource {
	if res := a.Registry.Resource(group, plural); res != nil {
		return res
	}
	for _, res := range reviewResources {
		if res.Kind.Group == group && res.Name == plural {
			return res
		}
	}
	return nil
}

func contains(list []string, s string) bool {
	for _, e := range list {
		if e == s {
			return true
		}
	}
	return false
}
