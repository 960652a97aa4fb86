package controller

import (
	"context"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"edgepod/server/registry"
)

// eventLife is how long an Event is kept after it last happened, as kube-apiserver keeps them (--event-ttl).
const eventLife = time.Hour

// Events deletes Events that last happened an hour ago.
type Events struct {
	config Config
	log    *slog.Logger
}

// NewEvents returns the loop.
func NewEvents(config Config) *Events {
	return &Events{config: config, log: config.logger("events")}
}

// Run implements Loop.
func (e *Events) Run(ctx context.Context) error {
	tick := time.NewTicker(5 * time.Minute)
	defer tick.Stop()
	for {
		if err := e.sweep(ctx, time.Now()); err != nil && ctx.Err() == nil {
			e.log.Warn("sweep events", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (e *Events) sweep(ctx context.Context, now time.Time) error {
	resource := e.config.Verbs.Resource("", "events")
	list, err := e.config.Verbs.List(ctx, resource, registry.ListRequest{})
	if err != nil {
		return err
	}
	for _, object := range list.Items {
		event, ok := object.Runtime().(*corev1.Event)
		if !ok || now.Sub(lastSeen(event)) < eventLife {
			continue
		}
		version := event.ResourceVersion
		_, err := e.config.Verbs.Delete(ctx, resource, registry.DeleteRequest{
			Namespace: event.Namespace, Name: event.Name,
			Options: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &version}},
		})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return err
		}
	}
	return nil
}

// lastSeen is when an event last happened, in whichever of its fields tells it.
func lastSeen(event *corev1.Event) time.Time {
	last := event.CreationTimestamp.Time
	for _, at := range []time.Time{event.EventTime.Time, event.FirstTimestamp.Time, event.LastTimestamp.Time} {
		if at.After(last) {
			last = at
		}
	}
	if event.Series != nil && event.Series.LastObservedTime.After(last) {
		last = event.Series.LastObservedTime.Time
	}
	return last
}
