package store_test

import (
	"context"
	"path/filepath"
	"testing"

	"edgepod/server/store"
	"edgepod/server/store/storetest"
)

// open opens a store with a short history and few revisions in reserve, so that both come to their ends in the tests.
func open(t *testing.T, dir string) store.Store {
	t.Helper()
	b, err := store.Open(store.Config{Path: filepath.Join(dir, "state.db"), HistoryEvents: 2000, RevisionBlock: 100})
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return b
}

func TestBoltIsAStore(t *testing.T) { storetest.Run(t, open) }

// hasty answers before it has written.
type hasty struct{ store.Store }

func (h hasty) Commit(ctx context.Context, op store.Op) (*store.Entry, error) {
	go func() { _, _ = h.Store.Commit(ctx, op) }()
	return &store.Entry{Key: op.Key, Revision: h.Revision()}, nil
}

func TestCrashSeesTheLossesOfAHastyStore(t *testing.T) {
	openHasty := func(t *testing.T, dir string) store.Store { return hasty{open(t, dir)} }
	losses := storetest.Crash(t, openHasty, storetest.Disk{Dir: t.TempDir()}, 3)
	if len(losses) == 0 {
		t.Error("a store that answers before it writes lost nothing")
	}
}
