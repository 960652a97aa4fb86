package registry

import (
	"context"
	"errors"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"edgepod/server/store"
)

// Config of a Registry.
type Config struct {
	// Store holds the objects. It stays its opener's, who closes it after the registry's last use.
	Store store.Store
	// Log is told of what the registry does unasked; nil discards.
	Log *slog.Logger
	// GarbageCollection says that something looks after dependents and takes away the finalizers foregroundDeletion and
	// orphan. Without it they are not set, whatever a deletion asks for: nobody would ever take them away.
	GarbageCollection bool
	// Now is the clock of timestamps; nil is time.Now.
	Now func() time.Time
}

func (c *Config) validate() error {
	if c.Store == nil {
		return errors.New("registry needs a store")
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return nil
}

// Registry implements Verbs over a store. Its methods may be called from any goroutine.
type Registry struct {
	store     store.Store
	log       *slog.Logger
	clock     func() time.Time
	collected bool
	resources []*Resource
	byName    map[string]*Resource
	pods      *Resource
	spaces    *Resource
}

// New returns a registry over a store, in which the namespaces that every cluster has exist from then on.
func New(c Config) (*Registry, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	r := &Registry{store: c.Store, log: c.Log, clock: c.Now, collected: c.GarbageCollection, resources: resources(), byName: map[string]*Resource{}}
	for _, res := range r.resources {
		r.byName[res.GroupResource().String()] = res
	}
	r.pods, r.spaces = r.byName["pods"], r.byName["namespaces"]
	for _, name := range systemNamespaces {
		if err := r.ensureNamespace(name); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func (r *Registry) ensureNamespace(name string) error {
	ctx := context.Background()
	_, err := r.Get(ctx, r.spaces, "", name)
	if !apierrors.IsNotFound(err) {
		return err
	}
	if _, err = r.Create(ctx, r.spaces, CreateRequest{Object: &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}}); err != nil {
		return err
	}
	r.log.Info("made a namespace that every cluster has", "namespace", name)
	return nil
}

// Resources returns every resource served, in the order of discovery. They are frozen.
func (r *Registry) Resources() []*Resource { return r.resources }

// Resource finds a resource by its group and plural name, nil for none.
func (r *Registry) Resource(group, name string) *Resource {
	if group != "" {
		name += "." + group
	}
	return r.byName[name]
}

// now is the time for objects' timestamps, which know no fractions of seconds.
func (r *Registry) now() metav1.Time { return metav1.NewTime(r.clock().Truncate(time.Second)) }
