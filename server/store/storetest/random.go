package storetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"edgepod/server/store"
)

const randomOps = 3000

// model is what a store should hold: a map, and copies of it as it was.
type model struct {
	now      map[store.Key]*store.Entry
	revision int64
	past     map[int64]map[store.Key]*store.Entry
}

func testRandom(t *testing.T, open Open) {
	r, dir := random(t), t.TempDir()
	s := open(t, dir)
	m := &model{now: map[store.Key]*store.Entry{}, revision: s.Revision(), past: map[int64]map[store.Key]*store.Entry{}}
	for i := range randomOps {
		m.step(t, r, s)
		switch {
		case i%50 == 0:
			m.past[m.revision] = maps.Clone(m.now)
		case i%97 == 0:
			m.compare(t, s, r)
		case i%1009 == 0:
			if err := s.Close(); err != nil {
				t.Fatalf("close: %v", err)
			}
			s = open(t, dir)
			m.past = map[int64]map[store.Key]*store.Entry{m.revision: maps.Clone(m.now)}
			m.compare(t, s, r)
		}
	}
	m.compare(t, s, r)
	if err := s.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
}

func randomKey(r *rand.Rand) store.Key {
	key := store.Key{Resource: []string{"pods", "nodes", "deployments.apps"}[r.IntN(3)], Name: fmt.Sprintf("n%d", r.IntN(150))}
	if key.Resource != "nodes" {
		key.Namespace = []string{"a", "a-b", "b"}[r.IntN(3)]
	}
	return key
}

// step does one random write in the store and in the model.
func (m *model) step(t *testing.T, r *rand.Rand, s store.Store) {
	t.Helper()
	key := randomKey(r)
	op := write(store.Verb(1+r.IntN(3)), key, fmt.Sprint(r.Uint32()))
	op.Volatile = r.IntN(4) != 0
	have := m.now[key]
	switch {
	case op.Verb == store.Create:
	case have != nil && r.IntN(3) > 0:
		op.Expect = have.Revision
	case r.IntN(3) == 0:
		op.Expect = max(m.revision-1, 1)
	}
	if op.Verb == store.Delete && r.IntN(2) == 0 {
		op.Encode = nil
	}
	want := expected(op, have)
	got, err := s.Commit(context.Background(), op)
	if !errors.Is(err, want) || (err == nil) != (want == nil) {
		t.Fatalf("verb %d of %v, expecting %d: got error %v, want %v", op.Verb, key, op.Expect, err, want)
	}
	if err != nil {
		return
	}
	if got.Revision != m.revision+1 || got.Key != key {
		t.Fatalf("commit of %v after %d: got %v at %d", key, m.revision, got.Key, got.Revision)
	}
	m.revision = got.Revision
	if op.Verb == store.Delete {
		delete(m.now, key)
		return
	}
	m.now[key] = got
}

func expected(op store.Op, have *store.Entry) error {
	switch {
	case op.Verb == store.Create && have != nil:
		return store.ErrExists
	case op.Verb != store.Create && have == nil:
		return store.ErrNotFound
	case op.Verb != store.Create && op.Expect != 0 && op.Expect != have.Revision:
		return store.ErrConflict
	}
	return nil
}

// compare reads the store in all ways and compares with the model.
func (m *model) compare(t *testing.T, s store.Store, r *rand.Rand) {
	t.Helper()
	if got := s.Revision(); got != m.revision {
		t.Fatalf("revision: got %d, want %d", got, m.revision)
	}
	for _, resource := range []string{"pods", "nodes", "deployments.apps", "none"} {
		for _, namespace := range []string{"", "a", "a-b", "b", "c"} {
			m.compareList(t, s, store.Query{Resource: resource, Namespace: namespace}, m.now)
			m.compareList(t, s, store.Query{Resource: resource, Namespace: namespace, Limit: 1 + r.IntN(40)}, m.now)
		}
	}
	for revision, past := range m.past {
		if m.revision-revision < 500 {
			m.compareList(t, s, store.Query{Resource: "pods", At: revision, Limit: 1 + r.IntN(200)}, past)
		}
	}
	key := randomKey(r)
	got, err := s.Get(context.Background(), key)
	if want := m.now[key]; want == nil {
		wantErr(t, "get", err, store.ErrNotFound)
	} else if err != nil || got.Revision != want.Revision || string(got.Value) != string(want.Value) {
		t.Fatalf("get %v: got %v, %v, want %v", key, got, err, want)
	}
}

// compareList reads a list page by page.
func (m *model) compareList(t *testing.T, s store.Store, q store.Query, in map[store.Key]*store.Entry) {
	t.Helper()
	want := slices.SortedFunc(maps.Values(in), func(a, b *store.Entry) int {
		return cmp.Or(cmp.Compare(a.Key.Namespace, b.Key.Namespace), cmp.Compare(a.Key.Name, b.Key.Name))
	})
	want = slices.DeleteFunc(want, func(e *store.Entry) bool {
		return e.Key.Resource != q.Resource || q.Namespace != "" && e.Key.Namespace != q.Namespace
	})
	var got []*store.Entry
	for first := true; ; first = false {
		page := list(t, s, q)
		got = append(got, page.Entries...)
		if first && q.At == 0 {
			q.At = page.Revision
		}
		if page.Revision != q.At {
			t.Fatalf("list %+v: page of revision %d", q, page.Revision)
		}
		if rest := int64(len(want) - len(got)); page.Remaining != rest || page.More != (rest > 0) {
			t.Fatalf("list %+v: got remaining %d, more %v, want %d", q, page.Remaining, page.More, rest)
		}
		if !page.More {
			break
		}
		q.After = got[len(got)-1].Key
	}
	if diff := gocmp.Diff(show(want), show(got)); diff != "" {
		t.Fatalf("list %+v (-want +got):\n%s", q, diff)
	}
}
