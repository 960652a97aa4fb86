package api

import (
	"context"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"edgepod/server/registry"
)

// Images serves the paths below /v2/, as registries of images do. The context of its requests tells CallerFrom who sent
// them; anonymous ones are turned away before. What the API allows of them, and how long, is its own business: they may
// be long and large.
type Images interface {
	http.Handler
	// Refuse answers in the registry's form what the API turns away.
	Refuse(w http.ResponseWriter, status int, message string)
}

const imagesPath = "/v2"

// ofImages tells whether a path is one of the registry of images.
func (a *API) ofImages(path string) bool {
	rest, ok := strings.CutPrefix(path, imagesPath)
	return a.Images != nil && ok && (rest == "" || rest[0] == '/')
}

// imageRoutes are those of the registry of images, if there is one.
func (a *API) imageRoutes() {
	if a.Images != nil {
		a.echo.Any(imagesPath, a.serveImages)
		a.echo.Any(imagesPath+"/*", a.serveImages)
	}
}

// serveImages lets the registry of images answer, once it is known who asks. Its clients send a token as a password, too,
// with any user's name.
func (a *API) serveImages(c echo.Context) error {
	r := newRequest(c)
	if _, password, ok := r.Request().BasicAuth(); ok {
		asToken := r.Request().Clone(r.Request().Context())
		asToken.Header.Set("Authorization", "Bearer "+password)
		r.SetRequest(asToken)
	}
	r.following = true // it takes as long as it takes
	err := a.admitImages(r)
	if err != nil {
		a.writeError(r, err)
	}
	a.finish(r, err)
	return nil
}

func (a *API) admitImages(r *request) error {
	caller, err := a.authenticate(r)
	if err != nil {
		return err
	}
	if r.caller, err = impersonate(caller, r.Request().Header); err != nil {
		return err
	}
	if r.caller.Name == userAnonymous {
		return apierrors.NewUnauthorized("authentication is needed: any user's name, and a token of the cluster as the password")
	}
	a.metrics.longRunning(r, 1)
	defer a.metrics.longRunning(r, -1)
	r.SetRequest(r.Request().WithContext(context.WithValue(r.Request().Context(), senderKey{}, r.caller)))
	a.Images.ServeHTTP(r.Response(), r.Request())
	return nil
}

type senderKey struct{}

// CallerFrom returns who sent the request of the context, in a handler that the API has called.
func CallerFrom(ctx context.Context) registry.Caller {
	caller, _ := ctx.Value(senderKey{}).(registry.Caller)
	return caller
}
