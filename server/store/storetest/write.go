package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"edgepod/server/store"
)

func testRace(t *testing.T, open Open) {
	s := start(t, open)
	const rounds, racers = 10, 12
	e := must(t, s, write(store.Create, pod("default", "a"), "start"))
	for range rounds {
		var won, lost atomic.Int64
		var group sync.WaitGroup
		for i := range racers {
			group.Go(func() {
				op := write(store.Update, e.Key, fmt.Sprint(i))
				op.Expect, op.Volatile = e.Revision, i%4 == 0
				_, err := s.Commit(context.Background(), op)
				switch {
				case err == nil:
					won.Add(1)
				case errors.Is(err, store.ErrConflict):
					lost.Add(1)
				default:
					t.Errorf("commit: %v", err)
				}
			})
		}
		group.Wait()
		if won.Load() != 1 || lost.Load() != racers-1 {
			t.Fatalf("%d updates of one revision: %d won, %d met a conflict", racers, won.Load(), lost.Load())
		}
		var err error
		if e, err = s.Get(context.Background(), e.Key); err != nil {
			t.Fatalf("get: %v", err)
		}
	}
}

func testDeletion(t *testing.T, open Open) {
	s := start(t, open)
	key := pod("default", "a")
	c, err := s.Watch("pods", "", s.Revision())
	if err != nil {
		t.Fatalf("watch: %v", err)
	}
	must(t, s, write(store.Create, key, "one"))
	plain := must(t, s, store.Op{Verb: store.Delete, Key: key})
	must(t, s, write(store.Create, key, "two"))
	last := must(t, s, write(store.Delete, key, "last"))
	if got := string(plain.Value); got != fmt.Sprintf("one@%d", plain.Revision-1) {
		t.Errorf("deletion without Encode: got %q, want the value before", got)
	}
	if got := string(last.Value); got != fmt.Sprintf("last@%d", last.Revision) {
		t.Errorf("deletion with Encode: got %q, want what it returned", got)
	}
	var got []*store.Entry
	for len(got) < 4 {
		events, _ := read(t, c)
		for _, ev := range events {
			got = append(got, ev.Entry)
		}
	}
	if diff := gocmp.Diff(show([]*store.Entry{plain, last}), show([]*store.Entry{got[1], got[3]})); diff != "" {
		t.Errorf("deletions watched (-want +got):\n%s", diff)
	}
	undecodable := func([]byte) (any, error) { return nil, errors.New("not decoded") }
	for i, want := range []string{"one", "one", "two", "last"} {
		if o, err := got[i].Object(undecodable); err != nil || o != want {
			t.Errorf("object of event %d: got %v, %v, want %s as handed over", i, o, err, want)
		}
	}
}

func testVolatile(t *testing.T, open Open) {
	dir := t.TempDir()
	s := open(t, dir)
	c, err := s.Watch("pods", "", s.Revision())
	if err != nil {
		t.Fatalf("watch: %v", err)
	}
	var entries []*store.Entry
	for i := range 20 {
		op := write(store.Update, pod("default", "beat"), fmt.Sprint(i))
		op.Volatile = true
		if i == 0 {
			op.Verb = store.Create
		}
		entries = append(entries, must(t, s, op))
		got, err := s.Get(context.Background(), op.Key)
		if err != nil || got.Revision != entries[i].Revision {
			t.Fatalf("get after volatile write: got %v, %v, want revision %d", got, err, entries[i].Revision)
		}
		if i%7 == 6 {
			must(t, s, write(store.Create, pod("default", fmt.Sprint(i)), "durable"))
		}
	}
	for beats := 0; beats < len(entries); {
		events, _ := read(t, c)
		for _, ev := range events {
			if ev.Entry.Key.Name == "beat" && ev.Entry.Revision != entries[beats].Revision {
				t.Fatalf("event %d: got revision %d, want %d", beats, ev.Entry.Revision, entries[beats].Revision)
			}
			if ev.Entry.Key.Name == "beat" {
				beats++
			}
		}
	}
	gone := store.Op{Verb: store.Delete, Key: pod("default", "6"), Volatile: true}
	must(t, s, gone)
	revision := s.Revision()
	if err := s.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	s = open(t, dir)
	defer s.Close()
	last := entries[len(entries)-1]
	got, err := s.Get(context.Background(), last.Key)
	if err != nil || string(got.Value) != string(last.Value) || s.Revision() != revision {
		t.Errorf("after Close: got %v, %v at %d, want %s at %d", got, err, s.Revision(), last.Value, revision)
	}
	_, err = s.Get(context.Background(), gone.Key)
	wantErr(t, "get of what was deleted by a volatile write before Close", err, store.ErrNotFound)
}

func testReopen(t *testing.T, open Open) {
	dir := t.TempDir()
	s := open(t, dir)
	begin := s.Revision()
	key := pod("default", "a")
	want := []commit{}
	for i, verb := range []store.Verb{store.Create, store.Update, store.Delete, store.Create, store.Update} {
		e := must(t, s, write(verb, key, fmt.Sprint(i)))
		want = append(want, commit{"default", "a", e.Revision, verb == store.Delete})
	}
	at := map[int64][]string{}
	for r := begin; r <= s.Revision(); r++ {
		at[r] = show(list(t, s, store.Query{Resource: "pods", At: r}).Entries)
	}
	for range 2 {
		if err := s.Close(); err != nil {
			t.Fatalf("close: %v", err)
		}
		s = open(t, dir)
		c, err := s.Watch("pods", "", begin)
		if err != nil {
			t.Fatalf("watch after reopening: %v", err)
		}
		got := []commit{}
		for len(got) < len(want) {
			events, _ := read(t, c)
			for _, ev := range events {
				got = append(got, commitOf(ev))
			}
		}
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Errorf("history after reopening (-want +got):\n%s", diff)
		}
		for r, want := range at {
			if diff := gocmp.Diff(want, show(list(t, s, store.Query{Resource: "pods", At: r}).Entries)); diff != "" {
				t.Errorf("list at %d after reopening (-want +got):\n%s", r, diff)
			}
		}
	}
	if e := must(t, s, write(store.Update, key, "next")); e.Revision != want[len(want)-1].Revision+1 {
		t.Errorf("first commit after reopening: got revision %d, want %d", e.Revision, want[len(want)-1].Revision+1)
	}
	if err := s.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
}

func testCancelled(t *testing.T, open Open) {
	s := start(t, open)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := s.Commit(ctx, write(store.Create, pod("default", "a"), "v"))
	wantErr(t, "commit", err, context.Canceled)
	_, err = s.Get(context.Background(), pod("default", "a"))
	wantErr(t, "get of what was cancelled before it began", err, store.ErrNotFound)
	c, err := s.Watch("pods", "", s.Revision())
	if err != nil {
		t.Fatalf("watch: %v", err)
	}
	_, _, err = c.Next(ctx)
	wantErr(t, "next", err, context.Canceled)
	must(t, s, write(store.Create, pod("default", "a"), "v"))
}

func testClosed(t *testing.T, open Open) {
	s := open(t, t.TempDir())
	must(t, s, write(store.Create, pod("default", "a"), "v"))
	c, err := s.Watch("pods", "", s.Revision())
	if err != nil {
		t.Fatalf("watch: %v", err)
	}
	waiting := make(chan error, 1)
	go func() {
		_, _, err := c.Next(context.Background())
		waiting <- err
	}()
	if err := s.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	wantErr(t, "next that waited", <-waiting, store.ErrClosed)
	if err := s.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
	_, err = s.Commit(context.Background(), write(store.Create, pod("default", "b"), "v"))
	wantErr(t, "commit", err, store.ErrClosed)
	_, err = s.Get(context.Background(), pod("default", "a"))
	wantErr(t, "get", err, store.ErrClosed)
	_, err = s.List(context.Background(), store.Query{Resource: "pods"})
	wantErr(t, "list", err, store.ErrClosed)
	_, err = s.Watch("pods", "", 1)
	wantErr(t, "watch", err, store.ErrClosed)
}
