package registry

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"

	"edgepod/server/store"
)

// Watch returns the changes that the request asks for. Without a resourceVersion, or with "0", and with SendInitialEvents,
// the objects that exist come first, as if they had just been added.
func (r *Registry) Watch(ctx context.Context, res *Resource, req WatchRequest) (Watcher, error) {
	sel, err := newSelection(res, req.Namespace, req.Label, req.Field)
	if err != nil {
		return nil, err
	}
	after, err := parseRevision(req.ResourceVersion)
	if err != nil {
		return nil, err
	}
	if after > 0 && !req.SendInitialEvents {
		return r.watchAfter(sel, after)
	}
	if newest := r.store.Revision(); after > newest {
		return nil, tooLarge(after, newest)
	}
	for {
		w, err := r.watchAll(ctx, sel, req.SendInitialEvents)
		if apierrors.IsResourceExpired(err) && ctx.Err() == nil {
			continue // so much was written since the list that the history does not reach back to it
		}
		return w, err
	}
}

// watchAfter reads on from a revision, be it ahead of the store's.
func (r *Registry) watchAfter(sel *selection, after int64) (*watcher, error) {
	cursor, err := r.store.Watch(sel.res.GroupResource().String(), sel.namespace, min(after, r.store.Revision()))
	if err != nil {
		return nil, watchError(err, sel.res)
	}
	return &watcher{sel: sel, cursor: cursor, after: after}, nil
}

// watchAll starts with what is there now.
func (r *Registry) watchAll(ctx context.Context, sel *selection, mark bool) (Watcher, error) {
	page, err := r.store.List(ctx, store.Query{Resource: sel.res.GroupResource().String(), Namespace: sel.namespace})
	if err != nil {
		return nil, statusOf(err, sel.res, "")
	}
	objects, err := sel.filter(page.Entries, nil, 0)
	if err != nil {
		return nil, statusOf(err, sel.res, "")
	}
	w, err := r.watchAfter(sel, page.Revision)
	if err != nil {
		return nil, err
	}
	w.first = make([]Event, 0, len(objects)+1)
	for _, o := range objects {
		w.first = append(w.first, Event{Type: string(watch.Added), Object: o, Revision: o.revision})
	}
	if mark {
		w.first = append(w.first, Event{Type: string(watch.Bookmark), Revision: page.Revision})
	}
	return w, nil
}

func watchError(err error, res *Resource) error {
	if errors.Is(err, store.ErrExpired) {
		return apierrors.NewResourceExpired(textWatchExpired)
	}
	return statusOf(err, res, "")
}

// watcher shows what a cursor finds as the selection sees it.
type watcher struct {
	sel    *selection
	cursor store.Cursor
	// first are the initial events, until they are delivered.
	first []Event
	// after is the revision up to which the reader wants nothing.
	after int64
}

// Next waits for changes and returns them in order. See Watcher.
func (w *watcher) Next(ctx context.Context) ([]Event, error) {
	if len(w.first) > 0 {
		first := w.first
		w.first = nil
		return first, nil
	}
	for {
		changes, _, err := w.cursor.Next(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			return nil, watchError(err, w.sel.res)
		}
		events := make([]Event, 0, len(changes))
		for _, change := range changes {
			event, ok, err := w.see(change)
			if err != nil {
				return nil, statusOf(err, w.sel.res, "")
			}
			if ok {
				events = append(events, event)
			}
		}
		if len(events) > 0 {
			return events, nil
		}
	}
}

// Seen is the revision up to which everything was delivered.
func (w *watcher) Seen() int64 {
	if len(w.first) > 0 {
		return 0
	}
	return max(w.after, w.cursor.Seen())
}

// see translates a change for readers who know only what the selection holds:
//
//	            matches now   matches no more   deleted
//	matched     MODIFIED      DELETED (as it    DELETED
//	before                    matched last)
//	did not     ADDED         -                 -
func (w *watcher) see(change store.Event) (event Event, ok bool, err error) {
	revision := change.Entry.Revision
	if revision <= w.after || !w.sel.holds(change.Entry.Key) {
		return Event{}, false, nil
	}
	now, err := objectOf(w.sel.res, change.Entry)
	if err != nil {
		return Event{}, false, err
	}
	before, matched := (*Object)(nil), change.Prev != nil
	if matched && !w.sel.byKey {
		if before, err = objectOf(w.sel.res, change.Prev); err != nil {
			return Event{}, false, err
		}
		matched = w.sel.matches(before)
	}
	matches := !change.Deleted && w.sel.matches(now)
	switch {
	case matches && matched:
		return Event{Type: string(watch.Modified), Object: now, Revision: revision}, true, nil
	case matches:
		return Event{Type: string(watch.Added), Object: now, Revision: revision}, true, nil
	case matched && change.Deleted:
		return Event{Type: string(watch.Deleted), Object: now, Revision: revision}, true, nil
	case matched:
		return Event{Type: string(watch.Deleted), Object: before.at(revision), Revision: revision}, true, nil
	}
	return Event{}, false, nil
}
