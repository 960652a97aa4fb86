package storetest

import (
	"context"
	"fmt"
	"sync"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"edgepod/server/store"
)

// expireTries bounds how many writes may be needed to push an event out of the history.
const expireTries = 1_000_000

func testPages(t *testing.T, open Open) {
	s := start(t, open)
	for i := range 200 {
		op := write(store.Create, pod("default", fmt.Sprintf("p%03d", i)), "first")
		op.Volatile = true
		must(t, s, op)
	}
	first := list(t, s, store.Query{Resource: "pods"})
	stop := make(chan struct{})
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			for i := w; ; i += 4 {
				select {
				case <-stop:
					return
				default:
				}
				key := pod("default", fmt.Sprintf("p%03d", i%250))
				for _, verb := range []store.Verb{store.Create, store.Update, store.Delete} {
					// Which of them work does not matter here.
					_, _ = s.Commit(context.Background(), write(verb, key, "later"))
				}
			}
		})
	}
	q := store.Query{Resource: "pods", At: first.Revision, Limit: 7}
	var got []*store.Entry
	for {
		page := list(t, s, q)
		got = append(got, page.Entries...)
		if !page.More {
			break
		}
		q.After = got[len(got)-1].Key
	}
	close(stop)
	writers.Wait()
	if diff := gocmp.Diff(show(first.Entries), show(got)); diff != "" {
		t.Errorf("pages while others write (-first +got):\n%s", diff)
	}
}

func testListBack(t *testing.T, open Open) {
	s := start(t, open)
	key := pod("default", "a")
	empty := s.Revision()
	created := must(t, s, write(store.Create, key, "one"))
	updated := must(t, s, write(store.Update, key, "two"))
	deleted := must(t, s, store.Op{Verb: store.Delete, Key: key})
	again := must(t, s, write(store.Create, key, "three"))
	for _, test := range []struct {
		at   int64
		want []*store.Entry
	}{
		{empty, nil},
		{created.Revision, []*store.Entry{created}},
		{updated.Revision, []*store.Entry{updated}},
		{deleted.Revision, nil},
		{again.Revision, []*store.Entry{again}},
	} {
		page := list(t, s, store.Query{Resource: "pods", At: test.at})
		if diff := gocmp.Diff(show(test.want), show(page.Entries)); diff != "" || page.Revision != test.at {
			t.Errorf("list at %d says revision %d (-want +got):\n%s", test.at, page.Revision, diff)
		}
	}
	_, err := s.List(context.Background(), store.Query{Resource: "pods", At: again.Revision + 1})
	wantErr(t, "list of the future", err, store.ErrFuture)
	expire(t, s, created.Revision)
	_, err = s.List(context.Background(), store.Query{Resource: "pods", At: created.Revision})
	wantErr(t, "list of the forgotten past", err, store.ErrExpired)
	if page := list(t, s, store.Query{Resource: "pods", Namespace: "default"}); len(page.Entries) != 1 {
		t.Errorf("list of now after the history was trimmed: got %v", show(page.Entries))
	}
}

// expire writes until a watch of pods can no longer start after the revision.
func expire(t *testing.T, s store.Store, revision int64) {
	t.Helper()
	op := write(store.Create, pod("churn", "churn"), "x")
	for range expireTries {
		op.Volatile = true
		must(t, s, op)
		op.Verb = store.Update
		if _, err := s.Watch("pods", "", revision); err != nil {
			wantErr(t, "watch of old", err, store.ErrExpired)
			return
		}
	}
	t.Fatalf("%d events did not fill the history", expireTries)
}

func testNamespaces(t *testing.T, open Open) {
	s := start(t, open)
	for _, ns := range []string{"a", "ab", "a-b", "b", ""} {
		for _, name := range []string{"x", "x-1", "x.1"} {
			must(t, s, write(store.Create, pod(ns, name), "v"))
		}
	}
	for ns, want := range map[string]int{"": 15, "a": 3, "ab": 3, "a-b": 3, "b": 3, "c": 0, "A": 0} {
		got := list(t, s, store.Query{Resource: "pods", Namespace: ns})
		if len(got.Entries) != want {
			t.Errorf("namespace %q: got %v, want %d", ns, show(got.Entries), want)
		}
	}
	got := list(t, s, store.Query{Resource: "pods", After: pod("a", "x-1"), Limit: 2})
	names := []string{}
	for _, e := range got.Entries {
		names = append(names, e.Key.Namespace+"/"+e.Key.Name)
	}
	if diff := gocmp.Diff([]string{"a/x.1", "a-b/x"}, names); diff != "" {
		t.Errorf("page after a/x-1 (-want +got):\n%s", diff)
	}
}

func testRefused(t *testing.T, open Open) {
	s := start(t, open)
	ctx, key := context.Background(), pod("default", "a")
	_, err := s.Get(ctx, key)
	wantErr(t, "get", err, store.ErrNotFound)
	_, err = s.Commit(ctx, write(store.Update, key, "v"))
	wantErr(t, "update of nothing", err, store.ErrNotFound)
	_, err = s.Commit(ctx, store.Op{Verb: store.Delete, Key: key})
	wantErr(t, "delete of nothing", err, store.ErrNotFound)
	first := must(t, s, write(store.Create, key, "v"))
	second := must(t, s, write(store.Update, key, "v"))
	before := s.Revision()
	_, err = s.Commit(ctx, write(store.Create, key, "v"))
	wantErr(t, "second create", err, store.ErrExists)
	stale := write(store.Update, key, "v")
	stale.Expect = first.Revision
	_, err = s.Commit(ctx, stale)
	wantErr(t, "stale update", err, store.ErrConflict)
	_, err = s.Commit(ctx, store.Op{Verb: store.Delete, Key: key, Expect: first.Revision})
	wantErr(t, "stale delete", err, store.ErrConflict)
	for _, bad := range []store.Key{{Resource: "pods"}, {Name: "a"}, pod("default", "a\x00b"), pod("a\x00", "b")} {
		if _, err := s.Commit(ctx, write(store.Create, bad, "v")); err == nil {
			t.Errorf("create of %q worked", bad)
		}
	}
	if _, err := s.Commit(ctx, store.Op{Verb: store.Create, Key: pod("default", "b")}); err == nil {
		t.Error("create without Encode worked")
	}
	got, err := s.Get(ctx, key)
	if err != nil || got.Revision != second.Revision || s.Revision() != before {
		t.Errorf("after refusals: got %v, %v at %d, want revision %d at %d", got, err, s.Revision(), second.Revision, before)
	}
}

// testReads checks that what one read has seen, or a commit has acknowledged, is seen by all reads that start later.
func testReads(t *testing.T, open Open) {
	s := start(t, open)
	const writers, rounds = 4, 60
	key := pod("default", "counter")
	newest := must(t, s, write(store.Create, key, "0")).Revision
	var mu sync.Mutex
	// check runs a read, which must return what was the newest when it began, or newer.
	check := func(what string, read func() (int64, error)) {
		mu.Lock()
		least := newest
		mu.Unlock()
		got, err := read()
		if err != nil || got < least {
			t.Errorf("%s: got revision %d, %v, want at least %d", what, got, err, least)
		}
		mu.Lock()
		newest = max(newest, got)
		mu.Unlock()
	}
	ctx := context.Background()
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			for i := range rounds {
				check("commit", func() (int64, error) {
					op := write(store.Update, key, fmt.Sprint(i))
					op.Volatile = (w+i)%2 == 0
					e, err := s.Commit(ctx, op)
					if err != nil {
						return 0, err
					}
					return e.Revision, nil
				})
			}
		})
		group.Go(func() {
			for range rounds * 10 {
				check("get", func() (int64, error) {
					e, err := s.Get(ctx, key)
					if err != nil {
						return 0, err
					}
					return e.Revision, nil
				})
				check("list", func() (int64, error) {
					page, err := s.List(ctx, store.Query{Resource: "pods"})
					if err != nil {
						return 0, err
					}
					return page.Entries[0].Revision, nil
				})
				check("revision", func() (int64, error) { return s.Revision(), nil })
			}
		})
	}
	group.Wait()
}
