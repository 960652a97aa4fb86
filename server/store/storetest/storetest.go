// Package storetest is the conformance suite of store.Store.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"edgepod/server/store"
)

// Open opens the store that lives in a folder, or fails the test. The suite closes it.
type Open func(t *testing.T, dir string) store.Store

// Run tests an implementation. The history of the stores that open returns should be a few thousand events long at most, or
// the tests of its end take their time. SEED repeats the random choices of an earlier run.
//
// The crash test runs the test binary again, with only the test that called Run: open must need nothing but its folder.
func Run(t *testing.T, open Open) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, Open)
	}{
		{"RandomOperationsMatchAMap", testRandom},
		{"PagesAreOfOneRevision", testPages},
		{"ListGoesBackInHistory", testListBack},
		{"ListSelectsNamespace", testNamespaces},
		{"WatchSeesEachCommitOnceInOrder", testWatch},
		{"WatchStartsWhereTold", testWatchStart},
		{"SlowCursorExpires", testSlowCursor},
		{"SeenMovesOnWithoutEvents", testSeen},
		{"OneOfManyUpdatesWins", testRace},
		{"ReadsNeverGoBack", testReads},
		{"RefusedWritesChangeNothing", testRefused},
		{"DeletionHoldsTheLastState", testDeletion},
		{"VolatileWritesAreSeenAtOnce", testVolatile},
		{"ReopenedStoreGoesOn", testReopen},
		{"CancelledCallsReturn", testCancelled},
		{"ClosedStoreRefuses", testClosed},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, open) })
	}
	t.Run("KilledWriterLosesNothing", func(t *testing.T) { testCrash(t, open) })
}

// random returns a source whose seed is in the test's log.
func random(t *testing.T) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	if s := os.Getenv("SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatalf("SEED: %v", err)
		}
	}
	t.Logf("SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// start opens a new store that is closed with the test.
func start(t *testing.T, open Open) store.Store {
	t.Helper()
	s := open(t, t.TempDir())
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

func pod(namespace, name string) store.Key {
	return store.Key{Resource: "pods", Namespace: namespace, Name: name}
}

// valueOf is an Encode that stores a text and the revision.
func valueOf(text string) func(int64) ([]byte, any) {
	return func(revision int64) ([]byte, any) { return []byte(fmt.Sprintf("%s@%d", text, revision)), text }
}

func write(verb store.Verb, key store.Key, text string) store.Op {
	return store.Op{Verb: verb, Key: key, Encode: valueOf(text)}
}

// must commits or fails the test.
func must(t *testing.T, s store.Store, op store.Op) *store.Entry {
	t.Helper()
	e, err := s.Commit(context.Background(), op)
	if err != nil {
		t.Fatalf("commit %+v: %v", op.Key, err)
	}
	return e
}

func wantErr(t *testing.T, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Fatalf("%s: got error %v, want %v", what, got, want)
	}
}

func list(t *testing.T, s store.Store, q store.Query) store.Page {
	t.Helper()
	page, err := s.List(context.Background(), q)
	if err != nil {
		t.Fatalf("list %+v: %v", q, err)
	}
	return page
}

// read returns a cursor's next events or fails the test.
func read(t *testing.T, c store.Cursor) ([]store.Event, int64) {
	t.Helper()
	events, seen, err := c.Next(t.Context())
	if err != nil {
		t.Fatalf("next: %v", err)
	}
	return events, seen
}

// show writes entries as text that can be compared.
func show(entries []*store.Entry) []string {
	lines := []string{}
	for _, e := range entries {
		lines = append(lines, fmt.Sprintf("%s/%s %d %s", e.Key.Namespace, e.Key.Name, e.Revision, e.Value))
	}
	return lines
}
