package api

import (
	"fmt"
	"net/http"
	goruntime "runtime"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/version"
)

// check is one part of the server's health.
type check struct {
	name string
	run  func() error
}

// health serves /livez, /readyz and /healthz: a word when all is well, with ?verbose or in trouble a line for each check.
// /livez/NAME is one check.
func (a *API) health(r *request) error {
	path := strings.TrimPrefix(r.Request().URL.Path, "/")
	kind, name, single := strings.Cut(path, "/")
	checks := []check{{"ping", func() error { return nil }}}
	if kind != "livez" {
		checks = append(checks, check{"ready", a.Ready})
	}
	if single {
		i := slices.IndexFunc(checks, func(c check) bool { return c.name == name })
		if i < 0 {
			return a.notFound(r)
		}
		checks = checks[i : i+1]
	}
	r.Response().Header().Set("Cache-Control", "no-cache, no-store, must-revalidate")
	excluded := r.query()["exclude"]
	var lines strings.Builder
	failed := false
	for _, c := range checks {
		switch err := c.run(); {
		case slices.Contains(excluded, c.name):
			fmt.Fprintf(&lines, "[+]%s excluded: ok\n", c.name)
		case err == nil:
			fmt.Fprintf(&lines, "[+]%s ok\n", c.name)
		default:
			failed = true
			a.Log.Warn("a health check failed", "check", c.name, "err", err)
			fmt.Fprintf(&lines, "[-]%s failed: reason withheld\n", c.name)
		}
	}
	if failed {
		return r.String(http.StatusInternalServerError, fmt.Sprintf("%s%s check failed\n", &lines, kind))
	}
	if _, verbose := r.query()["verbose"]; verbose {
		return r.String(http.StatusOK, fmt.Sprintf("%s%s check passed\n", &lines, kind))
	}
	return r.String(http.StatusOK, "ok")
}

// Version is what the server says of itself: the Kubernetes whose API it speaks, and that it is another program.
func Version() version.Info {
	return version.Info{
		Major: "1", Minor: "37", EmulationMajor: "1", EmulationMinor: "37", MinCompatibilityMajor: "1", MinCompatibilityMinor: "36",
		GitVersion: "v1.37.2+edgepod", GitTreeState: "clean", GoVersion: goruntime.Version(), Compiler: goruntime.Compiler,
		Platform: goruntime.GOOS + "/" + goruntime.GOARCH,
	}
}

func (a *API) version(r *request) error {
	return r.JSONPretty(http.StatusOK, Version(), "  ")
}
