package api

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime/debug"
	"strings"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// guard refuses what no client of the API sends: requests that a web page makes a browser send, or that were led here under
// another name.
type guard struct {
	hosts map[string]bool
	cross *http.CrossOriginProtection
}

func newGuard(hosts []string) *guard {
	g := &guard{cross: http.NewCrossOriginProtection()}
	for _, host := range hosts {
		if g.hosts == nil {
			g.hosts = map[string]bool{}
		}
		g.hosts[strings.ToLower(strings.Trim(host, "[]"))] = true
	}
	return g
}

func (g *guard) check(r *http.Request) error {
	if g.hosts != nil && !g.hosts[hostname(r.Host)] {
		return &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusMisdirectedRequest, Reason: "MisdirectedRequest",
			Message: fmt.Sprintf("this server does not answer for the host %q: reach it under a name that it was started with", r.Host),
		}}
	}
	if err := g.cross.Check(r); err != nil {
		return apierrors.NewForbidden(groupless, "", err)
	}
	return nil
}

func hostname(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
}

// The values of headers that every answer has; shared, and so never appended to.
var (
	headerNoSniff = []string{"nosniff"}
	headerPrivate = []string{"no-cache, private"}
	headerDeny    = []string{"DENY"}
	headerPolicy  = []string{"default-src 'none'; frame-ancestors 'none'"}
)

// guarded is what happens to each request before its route is sought.
func (a *API) guarded(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) (err error) {
		defer a.recoverPanic(c)
		r, header := c.Request(), c.Response().Header()
		header["Audit-Id"] = []string{auditID(r)}
		header["Cache-Control"] = headerPrivate
		header["X-Content-Type-Options"] = headerNoSniff
		header["X-Frame-Options"] = headerDeny
		header["Content-Security-Policy"] = headerPolicy
		if err := a.guard.check(r); err != nil {
			return err
		}
		if n := len(r.URL.Path); n > 1 && r.URL.Path[n-1] == '/' {
			r.URL.Path = r.URL.Path[:n-1]
			r.URL.RawPath = strings.TrimSuffix(r.URL.RawPath, "/")
		}
		return next(c)
	}
}

// auditID is the client's own name for the request, or a new one.
func auditID(r *http.Request) string {
	if id := r.Header.Get("Audit-Id"); id != "" && len(id) <= 64 {
		return id
	}
	var id uuid.UUID
	binary.NativeEndian.PutUint64(id[:8], rand.Uint64())
	binary.NativeEndian.PutUint64(id[8:], rand.Uint64())
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return id.String()
}

// recoverPanic turns a panic into an answer where none was begun, and else breaks the connection off, so that no client
// takes half an answer for a whole one.
func (a *API) recoverPanic(c echo.Context) {
	value := recover()
	if value == nil {
		return
	}
	if value == http.ErrAbortHandler {
		panic(value)
	}
	a.Log.Error("a handler panicked", "path", c.Request().URL.Path, "err", fmt.Sprint(value), "stack", string(debug.Stack()))
	a.metrics.panics.Inc()
	if c.Response().Committed {
		panic(http.ErrAbortHandler)
	}
	a.writeError(newRequest(c), apierrors.NewInternalError(fmt.Errorf("this request caused a fault in the server, which its log tells of")))
}
