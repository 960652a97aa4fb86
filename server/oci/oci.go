// Package oci is the cluster's own registry of images: the OCI distribution specification 1.1 over HTTP, below /v2/. A
// repository is NAMESPACE/NAME, in a namespace of the API.
//
// Who sent a request, and that somebody did, is known before it comes here. What is kept, and how, is the business of
// package depot.
package oci

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"edgepod/server/oci/depot"
	"edgepod/server/registry"
	"edgepod/wasmrt/sandbox"
)

// Host is the name under which the cluster's nodes and commands know the registry, wherever it is.
const Host = sandbox.ClusterRegistry

// Config is what the registry needs. Dir, Objects and Allowed must be set.
type Config struct {
	// Dir is the folder that holds the images.
	Dir string
	// Objects tells which namespaces there are, and which images the pods use.
	Objects registry.Verbs
	// Allowed tells whether the sender of the request with this context may do what the verb says in the namespace; in all
	// of them where that is "".
	Allowed func(ctx context.Context, verb Verb, namespace string) bool
	// Quota is what the images of a namespace may take together, in bytes: 2 GiB. The annotation QuotaAnnotation of a
	// namespace goes before it.
	Quota int64
	// Blob is the largest content that is taken, in bytes: 1 GiB.
	Blob int64
	// Reads and Writes are how many requests are served at once: 256 and 64. More are answered with 429.
	Reads, Writes int
	// Pace is the time in which each 64 KiB must come or go: 30 s.
	Pace time.Duration
	// Sweep is the time between two searches for what nobody needs: 5 minutes.
	Sweep time.Duration
	// Log gets what went wrong; nil discards.
	Log *slog.Logger
}

func (c *Config) validate() error {
	if c.Objects == nil || c.Allowed == nil {
		return errors.New("the image registry is not told of namespaces and callers")
	}
	defaultTo(&c.Quota, 2<<30)
	defaultTo(&c.Blob, 1<<30)
	defaultTo(&c.Reads, 256)
	defaultTo(&c.Writes, 64)
	defaultTo(&c.Pace, 30*time.Second)
	defaultTo(&c.Sweep, 5*time.Minute)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return nil
}

func defaultTo[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Verb is what somebody wants to do with images.
type Verb string

// The verbs.
const (
	Pull   Verb = "pull"
	Push   Verb = "push"
	Delete Verb = "delete"
)

// Registry is an http.Handler that serves the paths below /v2/.
type Registry struct {
	config        Config
	depot         *depot.Depot
	reads, writes chan struct{}

	pulls, pushes, bytesOut atomic.Int64
}

// New opens the registry. It starts nothing.
func New(config Config) (*Registry, error) {
	if err := config.validate(); err != nil {
		return nil, err
	}
	g := &Registry{config: config, reads: make(chan struct{}, config.Reads), writes: make(chan struct{}, config.Writes)}
	var err error
	g.depot, err = depot.Open(depot.Config{Dir: config.Dir, InUse: g.imagesInUse, Log: config.Log})
	return g, err
}

// Stats are the registry's figures.
type Stats struct {
	depot.Stats
	// Pulls and Pushes are manifests handed out and taken in, BytesOut what was sent of blobs, since the start.
	Pulls, Pushes, BytesOut int64
}

// Stats returns the present figures.
func (g *Registry) Stats() Stats {
	return Stats{Stats: g.depot.Stats(), Pulls: g.pulls.Load(), Pushes: g.pushes.Load(), BytesOut: g.bytesOut.Load()}
}

// Run removes what nobody needs any more, from time to time, until ctx ends.
func (g *Registry) Run(ctx context.Context) error {
	for ticker := time.NewTicker(g.config.Sweep); ; {
		if err := g.sweep(ctx); err != nil && ctx.Err() == nil {
			g.config.Log.Warn("images that nobody needs are not all removed", "err", err)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			ticker.Stop()
			return nil
		}
	}
}

func (g *Registry) sweep(ctx context.Context) error {
	var errs []error
	for _, namespace := range g.depot.Namespaces() {
		_, err := g.config.Objects.Get(ctx, g.config.Objects.Resource("", "namespaces"), "", namespace)
		if apierrors.IsNotFound(err) {
			err = g.Release(ctx, namespace)
		}
		errs = append(errs, err)
	}
	return errors.Join(append(errs, g.depot.Collect(ctx, time.Now()))...)
}

// Release removes the repositories of a namespace that is going.
func (g *Registry) Release(ctx context.Context, namespace string) error {
	if err := g.depot.Drop(ctx, namespace); err != nil {
		return fmt.Errorf("images of namespace %s: %w", namespace, err)
	}
	return nil
}
