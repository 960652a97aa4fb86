// Package api speaks the Kubernetes API over HTTP: one generic set of handlers over the registry's list of resources.
package api

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/serializer"

	"edgepod/server/registry"
)

// Config is what the API needs. Registry and Authenticator must be set; the other fields have useful zero values.
type Config struct {
	// Registry is the door to the objects.
	Registry registry.Verbs
	// Authenticator tells who asks.
	Authenticator Authenticator
	// Nodes reaches the agents, for the logs of their pods; without it every log is answered with 503.
	Nodes NodeDialer
	// Ready tells what keeps the server from being ready; nil is always ready.
	Ready func() error
	// Images is the registry of images below /v2/; nil: there is none.
	Images Images
	// Metrics are gathered for /metrics beside the API's own.
	Metrics prometheus.Gatherer
	// Hosts are the names and addresses, without port, that requests may be made to. None means any.
	Hosts []string
	// Log gets each request at level debug and each fault of the server at level error; nil discards.
	Log *slog.Logger
	// Limits bound what a client may ask for; its zero fields take defaults.
	Limits Limits
}

// Limits bound requests. A zero field takes the default that its comment names.
type Limits struct {
	// Mutating and Reading requests being served at once; more are answered with 429. 200 and 400. Watches and followed
	// logs do not count.
	Mutating, Reading int
	// Streams is how many watches and logs one user may have open: 10,000.
	Streams int
	// Body of a request in bytes: 3 MiB.
	Body int64
	// Request is the time that a request other than a watch or a log may take: 60 s.
	Request time.Duration
	// Upload is the time that a client may take to send a body: 30 s.
	Upload time.Duration
	// Bookmark is the time between two bookmarks of a watch: a minute.
	Bookmark time.Duration
}

// NodeDialer reaches the agent of a node: requests go to base through the round tripper. The error is a status error.
type NodeDialer interface {
	Node(ctx context.Context, name string) (base *url.URL, rt http.RoundTripper, err error)
}

// API is an http.Handler that serves the Kubernetes API.
type API struct {
	Config
	echo      *echo.Echo
	resources []*registry.Resource
	reviews   map[*registry.Resource]review
	discovery *discovery
	openapi   *openapiDocuments
	metrics   *metrics
	gate      *gate
	guard     *guard
	// deleteCodecs decode DeleteOptions, which clients send as of any group that is served.
	deleteCodecs serializer.CodecFactory
}

// New returns the API. It starts nothing.
func New(config Config) (*API, error) {
	if err := config.validate(); err != nil {
		return nil, err
	}
	a := &API{Config: config, echo: echo.New(), metrics: newMetrics(), guard: newGuard(config.Hosts)}
	a.gate = newGate(config.Limits)
	a.metrics.watchInFlight(a.gate)
	a.reviews = reviews()
	a.resources = Resources(config.Registry.Resources())
	a.deleteCodecs = serializer.NewCodecFactory(optionsScheme(a.resources))
	var err error
	if a.discovery, err = newDiscovery(a.resources); err != nil {
		return nil, err
	}
	if a.openapi, err = newOpenAPI(); err != nil {
		return nil, err
	}
	a.routes()
	return a, nil
}

// Resources returns the resources that the API serves: the registry's, with those that only ask the API itself.
func Resources(stored []*registry.Resource) []*registry.Resource {
	return append(append([]*registry.Resource{}, stored...), reviewResources...)
}

// ServeHTTP serves one request.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.echo.ServeHTTP(w, r) }

func (c *Config) validate() error {
	if c.Registry == nil {
		return errors.New("the API has no registry")
	}
	if c.Authenticator == nil {
		return errors.New("the API has no authenticator")
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Ready == nil {
		c.Ready = func() error { return nil }
	}
	c.Limits.setDefaults()
	return nil
}

func (l *Limits) setDefaults() {
	if l.Mutating == 0 {
		l.Mutating = 200
	}
	if l.Reading == 0 {
		l.Reading = 400
	}
	if l.Streams == 0 {
		l.Streams = 10_000
	}
	if l.Body == 0 {
		l.Body = 3 << 20
	}
	if l.Request == 0 {
		l.Request = time.Minute
	}
	if l.Upload == 0 {
		l.Upload = 30 * time.Second
	}
	if l.Bookmark == 0 {
		l.Bookmark = time.Minute
	}
}
