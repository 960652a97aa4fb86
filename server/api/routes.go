package api

import (
	"net/http"
	"net/url"

	"github.com/labstack/echo/v4"
)

// handler answers a request. What it returns as an error is written as a Status in the type that the client accepts.
type handler func(*request) error

// routes are all paths of the API. Those of resources are the same for each resource:
//
//	/api/v1, /apis/GROUP/VERSION            [/watch]
//	  /RESOURCE                             collection, of all namespaces
//	  /RESOURCE/NAME[/SUBRESOURCE]          object of no namespace
//	  /namespaces/NS/RESOURCE               collection of a namespace
//	  /namespaces/NS/RESOURCE/NAME[/SUB]    object of a namespace
func (a *API) routes() {
	a.echo.HideBanner = true
	a.echo.HTTPErrorHandler = a.writeFault
	a.echo.Pre(a.guarded)
	a.echo.RouteNotFound("/*", func(c echo.Context) error { return a.serve(newRequest(c), a.notFound) })
	for path, h := range map[string]handler{
		"/version": a.version, "/metrics": a.serveMetrics,
		"/livez": a.health, "/readyz": a.health, "/healthz": a.health,
		"/livez/:check": a.health, "/readyz/:check": a.health, "/healthz/:check": a.health,
		"/api": a.discoverLegacy, "/apis": a.discoverGroups, "/apis/:group": a.discoverGroup,
		"/api/:version": a.discoverVersion, "/apis/:group/:version": a.discoverVersion,
		"/apis/apiextensions.k8s.io/v1/customresourcedefinitions": a.noCustomResources,
		"/openapi/v2": a.openAPIv2, "/openapi/v3": a.openAPIIndex, "/openapi/v3/*": a.openAPIDocument,
	} {
		a.echo.Any(path, a.plain(h))
	}
	a.imageRoutes()
	for _, prefix := range []string{"/api/:version", "/apis/:group/:version"} {
		for _, watch := range []string{"", "/watch"} {
			for _, path := range []string{
				"/:resource", "/:resource/:name", "/:resource/:name/:subresource",
				"/namespaces/:namespace/:resource", "/namespaces/:namespace/:resource/:name",
				"/namespaces/:namespace/:resource/:name/:subresource",
			} {
				a.echo.Any(prefix+watch+path, a.resourceful(watch != ""))
			}
		}
	}
}

// plain serves a path that is no resource's: its verb is the method in lower case, and only reading is allowed.
func (a *API) plain(h handler) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := newRequest(c)
		return a.serve(r, func(r *request) error {
			if m := r.Request().Method; m != http.MethodGet && m != http.MethodHead {
				return methodNotAllowed()
			}
			return h(r)
		})
	}
}

// resourceful serves the path of a resource.
func (a *API) resourceful(watch bool) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := newRequest(c)
		if err := r.readPath(); err != nil {
			return err
		}
		a.resolve(r, watch)
		return a.serve(r, a.dispatch)
	}
}

// readPath fills in the parts of the path. Echo leaves them escaped where the path as sent was.
func (r *request) readPath() error {
	escaped := r.Request().URL.RawPath != ""
	values := r.ParamValues()
	for i, name := range r.ParamNames() {
		value := values[i]
		if escaped {
			var err error
			if value, err = url.PathUnescape(value); err != nil {
				return badRequest("the path is not escaped as it should be: %v", err)
			}
		}
		switch name {
		case "group":
			r.group = value
		case "version":
			r.version = value
		case "namespace":
			r.namespace = value
		case "resource":
			r.plural = value
		case "name":
			r.name = value
		case "subresource":
			r.subresource = value
		}
	}
	// A namespace is itself an object of no namespace, and its subresources look like resources in it.
	if r.group == "" && r.namespace != "" && r.name == "" && (r.plural == "status" || r.plural == "finalize") {
		r.plural, r.name, r.subresource, r.namespace = "namespaces", r.namespace, r.plural, ""
	}
	return nil
}

// resolve finds the resource and the verb, in the words that authorization and metrics use.
func (a *API) resolve(r *request, watch bool) {
	if res := a.resource(r.group, r.plural); res != nil && res.Kind.Version == r.version {
		r.resource = res
	}
	switch r.Request().Method {
	case http.MethodPost:
		r.verb = "create"
	case http.MethodPut:
		r.verb = "update"
	case http.MethodPatch:
		r.verb = "patch"
	case http.MethodDelete:
		r.verb = "delete"
		if r.name == "" {
			r.verb = "deletecollection"
		}
	case http.MethodGet, http.MethodHead:
		r.verb = "get"
		switch {
		case watch || r.name == "" && r.watches():
			r.verb = "watch"
		case r.name == "":
			r.verb = "list"
		}
	}
	r.watchPath = watch
	r.following = r.verb == "watch" || r.subresource == "log"
}
