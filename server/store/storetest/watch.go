package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"edgepod/server/store"
)

// commit is what a writer knows of an event.
type commit struct {
	Namespace, Name string
	Revision        int64
	Deleted         bool
}

func commitOf(ev store.Event) commit {
	return commit{ev.Entry.Key.Namespace, ev.Entry.Key.Name, ev.Entry.Revision, ev.Deleted}
}

func testWatch(t *testing.T, open Open) {
	s := start(t, open)
	const writers, rounds = 6, 40
	begin := s.Revision()
	var mu sync.Mutex
	acked := map[int64]commit{}
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			for i := range rounds {
				key := pod([]string{"a", "b"}[w%2], fmt.Sprintf("w%d", w))
				verbs := []store.Verb{store.Create, store.Update, store.Update, store.Delete}
				op := write(verbs[i%4], key, fmt.Sprint(i))
				op.Volatile = i%3 == 0
				e, err := s.Commit(context.Background(), op)
				if err != nil {
					t.Errorf("commit: %v", err)
					return
				}
				other := write(store.Create, store.Key{Resource: "nodes", Name: fmt.Sprintf("w%d-%d", w, i)}, "x")
				other.Volatile = true
				if _, err := s.Commit(context.Background(), other); err != nil {
					t.Errorf("commit: %v", err)
				}
				mu.Lock()
				acked[e.Revision] = commit{key.Namespace, key.Name, e.Revision, op.Verb == store.Delete}
				mu.Unlock()
			}
		})
	}
	var readers sync.WaitGroup
	seen := make([]map[int64]commit, 4)
	for i := range seen {
		readers.Go(func() { seen[i] = follow(t, s, []string{"", "a"}[i%2], begin, writers*rounds/(1+i%2)) })
	}
	group.Wait()
	readers.Wait()
	for i, got := range seen {
		want := map[int64]commit{}
		for revision, c := range acked {
			if i%2 == 0 || c.Namespace == "a" {
				want[revision] = c
			}
		}
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Errorf("reader %d (-acknowledged +seen):\n%s", i, diff)
		}
	}
}

// revisionOf is 0 for no entry.
func revisionOf(e *store.Entry) int64 {
	if e == nil {
		return 0
	}
	return e.Revision
}

// follow reads so many events, checking that they are in order and that each knows what was there before it.
func follow(t *testing.T, s store.Store, namespace string, after int64, count int) map[int64]commit {
	seen := map[int64]commit{}
	c, err := s.Watch("pods", namespace, after)
	if err != nil {
		t.Errorf("watch: %v", err)
		return seen
	}
	last, place := map[store.Key]*store.Entry{}, after
	for len(seen) < count {
		events, up, err := c.Next(t.Context())
		if err != nil {
			t.Errorf("next: %v", err)
			return seen
		}
		for _, ev := range events {
			key := ev.Entry.Key
			if ev.Entry.Revision <= place || revisionOf(ev.Prev) != revisionOf(last[key]) {
				t.Errorf("event %v after %d: before it was %v, want %v", commitOf(ev), place, ev.Prev, last[key])
			}
			place, last[key] = ev.Entry.Revision, ev.Entry
			if ev.Deleted {
				last[key] = nil
			}
			seen[place] = commitOf(ev)
		}
		if up < place || c.Seen() < up {
			t.Errorf("seen up to %d by Next and %d by Seen, after an event at %d", up, c.Seen(), place)
		}
		place = up
	}
	return seen
}

func testWatchStart(t *testing.T, open Open) {
	s := start(t, open)
	key := pod("default", "a")
	must(t, s, write(store.Create, key, "one"))
	second := must(t, s, write(store.Update, key, "two"))
	third := must(t, s, store.Op{Verb: store.Delete, Key: key})
	c, err := s.Watch("pods", "", second.Revision)
	if err != nil {
		t.Fatalf("watch: %v", err)
	}
	events, seen := read(t, c)
	if len(events) != 1 || commitOf(events[0]) != (commit{"default", "a", third.Revision, true}) || seen != third.Revision {
		t.Errorf("after %d: got %v up to %d, want the deletion at %d", second.Revision, events, seen, third.Revision)
	}
	_, err = s.Watch("pods", "", third.Revision+1)
	wantErr(t, "watch of the future", err, store.ErrFuture)
	expire(t, s, second.Revision)
	_, err = s.Watch("pods", "", second.Revision)
	wantErr(t, "watch of the forgotten past", err, store.ErrExpired)
	if _, err := s.Watch("pods", "", s.Revision()); err != nil {
		t.Errorf("watch from now: %v", err)
	}
}

func testSlowCursor(t *testing.T, open Open) {
	s := start(t, open)
	must(t, s, write(store.Create, pod("default", "a"), "one"))
	at := s.Revision()
	slow, err := s.Watch("pods", "", at)
	if err != nil {
		t.Fatalf("watch: %v", err)
	}
	quick, err := s.Watch("pods", "default", at)
	if err != nil {
		t.Fatalf("watch: %v", err)
	}
	must(t, s, write(store.Update, pod("default", "a"), "two"))
	if events, _ := read(t, quick); len(events) != 1 {
		t.Errorf("quick reader: got %d events, want 1", len(events))
	}
	expire(t, s, at)
	_, _, err = slow.Next(t.Context())
	wantErr(t, "slow reader", err, store.ErrExpired)
	if got := slow.Seen(); got != at {
		t.Errorf("slow reader has seen up to %d, want %d", got, at)
	}
}

func testSeen(t *testing.T, open Open) {
	s := start(t, open)
	c, err := s.Watch("pods", "a", s.Revision())
	if err != nil {
		t.Fatalf("watch: %v", err)
	}
	must(t, s, write(store.Create, pod("b", "x"), "v"))
	other := must(t, s, write(store.Create, store.Key{Resource: "nodes", Name: "n"}, "v"))
	if got := c.Seen(); got != other.Revision {
		t.Errorf("after commits that do not concern it: seen %d, want %d", got, other.Revision)
	}
	own := must(t, s, write(store.Create, pod("a", "x"), "v"))
	must(t, s, write(store.Create, pod("b", "y"), "v"))
	if got := c.Seen(); got >= own.Revision {
		t.Errorf("before the event at %d was read: seen %d", own.Revision, got)
	}
	events, seen := read(t, c)
	if len(events) != 1 || seen != s.Revision() || c.Seen() != s.Revision() {
		t.Errorf("got %v up to %d, want one event up to %d", events, seen, s.Revision())
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, _, err := c.Next(ctx)
		done <- err
	}()
	must(t, s, write(store.Update, pod("b", "y"), "v"))
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("waiting without events: got %v, want cancelled", err)
	}
}
