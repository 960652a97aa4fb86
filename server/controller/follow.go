package controller

import (
	"context"
	"log/slog"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"edgepod/server/registry"
)

// follower tells a loop of every change of one resource, from the present state on. When the watch must start over, the
// deletions that it missed are told too: what it last told of every object is all that it remembers.
type follower struct {
	verbs    registry.Verbs
	resource *registry.Resource
	log      *slog.Logger
	// handle gets the changes in order, never a BOOKMARK. It is called with no changes when the present state has been told
	// for the first time.
	handle func([]registry.Event)
	known  map[types.NamespacedName]*registry.Object
	synced bool
}

// follow tells handle of the resource's changes until ctx ends.
func follow(ctx context.Context, config Config, log *slog.Logger, group, resource string, handle func([]registry.Event)) {
	f := &follower{
		verbs: config.Verbs, resource: config.Verbs.Resource(group, resource), log: log.With("resource", resource),
		handle: handle, known: map[types.NamespacedName]*registry.Object{},
	}
	for ctx.Err() == nil {
		err := f.watch(ctx)
		if ctx.Err() != nil {
			return
		}
		if !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
			f.log.Warn("watch ended", "err", err)
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
	}
}

func (f *follower) watch(ctx context.Context) error {
	watcher, err := f.verbs.Watch(ctx, f.resource, registry.WatchRequest{SendInitialEvents: true})
	if err != nil {
		return err
	}
	initial := map[types.NamespacedName]bool{}
	for {
		events, err := watcher.Next(ctx)
		if err != nil {
			return err
		}
		events, ended := f.take(events, initial)
		if ended {
			events = append(events, f.missed(initial)...)
			initial = nil
		}
		if len(events) > 0 {
			f.handle(events)
		}
		if ended && !f.synced {
			f.synced = true
			f.handle(nil)
		}
	}
}

// take remembers the events, drops those that tell nothing new, and tells whether the initial ones ended among them.
func (f *follower) take(events []registry.Event, initial map[types.NamespacedName]bool) (fresh []registry.Event, ended bool) {
	for _, event := range events {
		if event.Type == string(watch.Bookmark) {
			ended = true
			continue
		}
		key := keyOf(event.Object)
		if initial != nil && !ended {
			initial[key] = true
		}
		old := f.known[key]
		if event.Type == string(watch.Deleted) {
			delete(f.known, key)
		} else {
			f.known[key] = event.Object
			if old != nil && old.Revision() == event.Object.Revision() {
				continue
			}
		}
		fresh = append(fresh, event)
	}
	return fresh, ended
}

// missed returns the deletion of what is known but was not among the initial events.
func (f *follower) missed(initial map[types.NamespacedName]bool) []registry.Event {
	var events []registry.Event
	for key, object := range f.known {
		if !initial[key] {
			events = append(events, registry.Event{Type: string(watch.Deleted), Object: object, Revision: object.Revision()})
			delete(f.known, key)
		}
	}
	return events
}

func keyOf(object *registry.Object) types.NamespacedName {
	meta := object.Meta()
	return types.NamespacedName{Namespace: meta.GetNamespace(), Name: meta.GetName()}
}
