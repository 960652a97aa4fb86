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

// change is what became of one object: before is what was told of it last, nil if nothing was; after is nil if it is gone.
// Objects with different uids are different ones, whatever their names. What is frozen in the registry is frozen here.
type change struct{ before, after *registry.Object }

// object is the newest that is known of it.
func (c change) object() *registry.Object {
	if c.after != nil {
		return c.after
	}
	return c.before
}

// follower tells a loop of every change of one resource, from the present state on. When the watch must start over, what it
// missed is told too, deletions included: what it last told of every object is all that it remembers.
//
//	watch ─► initial events ─ end of them ─► changes ─ expired ─► watch ...
//	             │ told as changes   │ told: deletions missed
type follower struct {
	verbs    registry.Verbs
	resource *registry.Resource
	log      *slog.Logger
	// handle gets the changes in order. It is called with none when the present state has been told for the first time.
	handle func([]change)
	model  model
	synced bool
}

// watchPause is how long to wait after a watch that failed for a reason of its own.
const watchPause = time.Second

// follow tells handle of the resource's changes until ctx ends.
func follow(ctx context.Context, config Config, log *slog.Logger, group, resource string, handle func([]change)) {
	f := &follower{
		verbs: config.Verbs, resource: config.Verbs.Resource(group, resource), log: log.With("resource", resource),
		handle: handle, model: model{},
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
			case <-time.After(watchPause):
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
		var changes []change
		ended := false
		for _, event := range events {
			if event.Type == string(watch.Bookmark) {
				changes = append(changes, f.model.retain(initial)...)
				initial, ended = nil, true
				continue
			}
			if initial != nil {
				initial[keyOf(event.Object)] = true
			}
			changes = append(changes, f.model.take(event)...)
		}
		if len(changes) > 0 {
			f.handle(changes)
		}
		if ended && !f.synced {
			f.synced = true
			f.handle(nil)
		}
	}
}

// model is what has been told of every object.
type model map[types.NamespacedName]*registry.Object

// take remembers the event and returns what is new in it: two changes where an object was deleted and one of its name
// created while nobody watched.
func (m model) take(event registry.Event) []change {
	key := keyOf(event.Object)
	old := m[key]
	if event.Type == string(watch.Deleted) {
		delete(m, key)
		if old == nil {
			return nil
		}
		return []change{{before: old}}
	}
	m[key] = event.Object
	switch {
	case old == nil:
		return []change{{after: event.Object}}
	case old.Meta().GetUID() != event.Object.Meta().GetUID():
		return []change{{before: old}, {after: event.Object}}
	case old.Revision() == event.Object.Revision():
		return nil
	}
	return []change{{before: old, after: event.Object}}
}

// retain forgets all but those that are there, and returns their deletions.
func (m model) retain(there map[types.NamespacedName]bool) []change {
	var changes []change
	for key, object := range m {
		if !there[key] {
			changes = append(changes, change{before: object})
			delete(m, key)
		}
	}
	return changes
}

func keyOf(object *registry.Object) types.NamespacedName {
	meta := object.Meta()
	return types.NamespacedName{Namespace: meta.GetNamespace(), Name: meta.GetName()}
}

// typed returns the change's objects in their type, nil for none.
func typed[T any](c change) (before, after *T) {
	if c.before != nil {
		before = c.before.Runtime().(any).(*T)
	}
	if c.after != nil {
		after = c.after.Runtime().(any).(*T)
	}
	return before, after
}
