package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"go.etcd.io/bbolt"
)

// limitFiles makes every write of this process beyond a place in a file fail, until it is called again with a negative.
func limitFiles(t *testing.T, size int64) {
	t.Helper()
	signal.Ignore(syscall.SIGXFSZ)
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
	limit.Cur = limit.Max
	if size >= 0 {
		limit.Cur = uint64(size)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
}

func TestFullDiskFailsTheWriteAndNothingElse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	b := openAt(t, Config{Path: path})
	put(t, b, "a", []byte("before"), false)
	put(t, b, "beat", []byte("one"), true)
	want, revision := contentOf(t, b), b.Revision()
	defer limitFiles(t, -1)
	for i, size := range []int{100, 200_000, 100, 200_000} {
		limit := int64(i) * 4096
		limitFiles(t, limit)
		value := bytes.Repeat([]byte("x"), size)
		for _, op := range []Op{{Verb: Update, Key: testKey("a")}, {Verb: Create, Key: testKey("new")}} {
			op.Encode = func(int64) ([]byte, any) { return value, nil }
			if _, err := b.Commit(context.Background(), op); err == nil || !strings.Contains(err.Error(), syscall.EFBIG.Error()) {
				t.Errorf("write of %d bytes with files limited to %d: got %v, want %v", size, limit, err, syscall.EFBIG)
			}
		}
		if diff := gocmp.Diff(want, contentOf(t, b)); diff != "" || b.Revision() != revision {
			t.Errorf("after failed writes at revision %d, before %d (-want +got):\n%s", b.Revision(), revision, diff)
		}
		limitFiles(t, -1)
		e := put(t, b, "a", fmt.Append(nil, "after ", limit), false)
		if e.Revision <= revision+2 {
			t.Errorf("revision %d was given again after %d and two failed writes", e.Revision, revision)
		}
		want, revision = contentOf(t, b), b.Revision()
	}
	if got := b.Stats().FailedCommits; got != 8 {
		t.Errorf("failed commits: got %d, want 8", got)
	}
	if err := b.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	again := openAt(t, Config{Path: path})
	if diff := gocmp.Diff(want, contentOf(t, again)); diff != "" || again.Revision() != revision {
		t.Errorf("opened again at %d, closed at %d (-want +got):\n%s", again.Revision(), revision, diff)
	}
}

// A transaction whose last sync fails may be in the file nevertheless: the next one must undo it.
func TestFailedWriteThatReachedTheFileIsUndone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	b := openAt(t, Config{Path: path})
	put(t, b, "a", []byte("before"), false)
	put(t, b, "b", []byte("before"), false)
	begin := b.Revision()
	encode := func(int64) ([]byte, any) { return []byte("failed"), nil }
	failed := b.prepare([]*write{
		{op: Op{Verb: Update, Key: testKey("a"), Encode: encode}},
		{op: Op{Verb: Delete, Key: testKey("b")}},
		{op: Op{Verb: Create, Key: testKey("c"), Encode: encode}},
	})
	c := b.pendingChanges()
	for _, ev := range failed.events {
		c.add(ev, false)
	}
	c.state.last = failed.next - 1
	if _, err := b.disk.write(c); err != nil {
		t.Fatal(err)
	}
	b.disown(failed)
	next := put(t, b, "d", []byte("next"), false)
	want := contentOf(t, b)
	again := openAt(t, Config{Path: crashed(t, b)})
	if diff := gocmp.Diff(want, contentOf(t, again)); diff != "" {
		t.Errorf("after a crash (-want +got):\n%s", diff)
	}
	cursor, err := again.Watch("pods", "", begin)
	if err != nil {
		t.Fatal(err)
	}
	events, _, err := cursor.Next(t.Context())
	if err != nil || len(events) != 1 || events[0].Entry.Revision != next.Revision {
		t.Errorf("history after a crash: got %v, %v, want the event at %d alone", events, err, next.Revision)
	}
}

func TestCrashLosesVolatileWritesButNoRevision(t *testing.T) {
	b := openAt(t, Config{Path: filepath.Join(t.TempDir(), "state.db"), RevisionBlock: 50})
	first := put(t, b, "a", []byte("durable"), false)
	last := put(t, b, "b", []byte("durable"), false)
	commits := b.Stats().Commits
	beat := put(t, b, "beat", []byte("volatile"), true)
	put(t, b, "beat", []byte("volatile"), true)
	if got := b.Stats().Commits; got != commits {
		t.Errorf("volatile writes made %d transactions", got-commits)
	}
	again := openAt(t, Config{Path: crashed(t, b), RevisionBlock: 50})
	if _, err := again.Get(context.Background(), testKey("beat")); !errors.Is(err, ErrNotFound) {
		t.Errorf("volatile write after a crash: got %v, want %v", err, ErrNotFound)
	}
	now := again.Revision()
	if now <= b.Revision() {
		t.Errorf("revision after a crash: got %d, before %d", now, b.Revision())
	}
	for after, want := range map[int64]error{
		first.Revision: nil, last.Revision: nil,
		beat.Revision: ErrExpired, b.Revision(): ErrExpired, now - 1: ErrExpired,
		now: nil, now + 1: ErrFuture,
	} {
		if _, err := again.Watch("pods", "", after); !errors.Is(err, want) {
			t.Errorf("watch after %d (durable up to %d, now %d): got %v, want %v", after, last.Revision, now, err, want)
		}
		if _, err := again.List(context.Background(), Query{Resource: "pods", At: after}); !errors.Is(err, want) {
			t.Errorf("list at %d: got %v, want %v", after, err, want)
		}
	}
	if e := put(t, again, "c", nil, false); e.Revision != now+1 {
		t.Errorf("first revision after a crash: got %d, want %d", e.Revision, now+1)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	third := openAt(t, Config{Path: again.cfg.Path})
	if _, err := third.Watch("pods", "", beat.Revision); !errors.Is(err, ErrExpired) {
		t.Errorf("watch after a lost revision, one opening later: got %v, want %v", err, ErrExpired)
	}
}

// Of several volatile writes of a key the file's history gets the last, so that it cannot tell the states between.
func TestCoalescedHistoryIsNotServed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	b := openAt(t, Config{Path: path})
	begin := put(t, b, "a", []byte("one"), false)
	put(t, b, "a", []byte("two"), true)
	put(t, b, "a", []byte("three"), true)
	node := Key{Resource: "nodes", Name: "n"}
	commit(t, b, Op{Verb: Create, Key: node, Volatile: true, Encode: func(int64) ([]byte, any) { return nil, nil }})
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	again := openAt(t, Config{Path: path})
	if _, err := again.Watch("pods", "", begin.Revision); !errors.Is(err, ErrExpired) {
		t.Errorf("watch of pods: got %v, want %v", err, ErrExpired)
	}
	if _, err := again.Watch("pods", "", begin.Revision+2); err != nil {
		t.Errorf("watch of pods from the last write: %v", err)
	}
	if _, err := again.Watch("nodes", "", begin.Revision); err != nil {
		t.Errorf("watch of nodes: %v", err)
	}
}

func TestIdleClusterWritesLittle(t *testing.T) {
	const nodes, beats = 5, 24 * 3600 / 10
	b := openAt(t, Config{Path: filepath.Join(t.TempDir(), "state.db")})
	before := b.Stats().WrittenBytes
	value := bytes.Repeat([]byte("l"), 500)
	for i := range nodes * beats {
		put(t, b, fmt.Sprintf("lease-%d", i%nodes), value, true)
	}
	if got := b.Stats().WrittenBytes - before; got > 1<<20 {
		t.Errorf("a day of %d leases wrote %d bytes", nodes, got)
	}
}

func TestHistoryIsBoundedInMemoryAndInTheFile(t *testing.T) {
	const events, size = 320, 64 << 10
	path := filepath.Join(t.TempDir(), "state.db")
	b := openAt(t, Config{Path: path, HistoryEvents: events, HistoryBytes: 100 * size})
	for i := range 6 * events {
		put(t, b, fmt.Sprint(i%10), bytes.Repeat([]byte{'x'}, 100), i%8 != 0)
	}
	if got := b.Stats().HistoryEvents; got != events {
		t.Errorf("small events: got %d in the history, want %d", got, events)
	}
	for i := range 2 * events {
		put(t, b, "big", bytes.Repeat([]byte{'x'}, size), i%4 != 0)
	}
	if got := b.Stats().HistoryBytes; got > 100*size || got < 90*size {
		t.Errorf("big events: got %d bytes in the history, want about %d", got, 100*size)
	}
	logged := 0
	err := b.disk.db.View(func(tx *bbolt.Tx) error {
		return tx.Bucket(logBucket).ForEach(func(_, v []byte) error { logged += len(v); return nil })
	})
	if err != nil || logged > 120*size {
		t.Errorf("log in the file: got %d bytes, %v, want at most about %d", logged, err, 100*size)
	}
	if got := b.Stats().FileBytes; got > 8*100*size {
		t.Errorf("file: got %d bytes for %d of history", got, 100*size)
	}
}

func TestMostlyFreeFileIsRewritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	cfg := Config{Path: path, HistoryBytes: 1 << 20}
	b := openAt(t, cfg)
	for i := range 1000 {
		put(t, b, fmt.Sprint(i), bytes.Repeat([]byte{'x'}, 40_000), true)
	}
	put(t, b, "kept", []byte("value"), false)
	for i := range 1000 {
		commit(t, b, Op{Verb: Delete, Key: testKey(fmt.Sprint(i)), Volatile: true})
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	grown := fileSize(path)
	b = openAt(t, cfg)
	if got := b.Stats().FileBytes; got > grown/2 || got > compactMin {
		t.Errorf("file: got %d bytes after opening, %d before", got, grown)
	}
	put(t, b, "kept", []byte("next"), false)
	if err := b.Compact(t.Context()); err != nil {
		t.Fatalf("compact: %v", err)
	}
	put(t, b, "kept", []byte("value"), false)
	want := contentOf(t, b)
	again := openAt(t, Config{Path: crashed(t, b)})
	if diff := gocmp.Diff(want, contentOf(t, again)); diff != "" {
		t.Errorf("after rewriting and a crash (-want +got):\n%s", diff)
	}
	if _, err := Open(cfg); !errors.Is(err, ErrInUse) {
		t.Errorf("opened twice after rewriting: got %v, want %v", err, ErrInUse)
	}
}

func TestWritersShareTransactions(t *testing.T) {
	b := openAt(t, Config{Path: filepath.Join(t.TempDir(), "state.db")})
	const writers, rounds = 64, 20
	before := b.Stats()
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			for i := range rounds {
				put(t, b, fmt.Sprint(w), fmt.Append(nil, i), false)
			}
		})
	}
	group.Wait()
	after := b.Stats()
	if got := after.Commits - before.Commits; got > writers*rounds/4 {
		t.Errorf("%d writes made %d transactions", writers*rounds, got)
	}
	if after.Writes-before.Writes != writers*rounds || after.LargestBatch < 8 || after.Entries != writers {
		t.Errorf("stats: got %+v", after)
	}
}

func TestPanicInEncodeFailsThatWriteAlone(t *testing.T) {
	b := openAt(t, Config{Path: filepath.Join(t.TempDir(), "state.db")})
	op := Op{Verb: Create, Key: testKey("a"), Encode: func(int64) ([]byte, any) { panic("mine") }}
	if _, err := b.Commit(context.Background(), op); err == nil {
		t.Error("a write whose Encode panics worked")
	}
	put(t, b, "a", []byte("value"), false)
}

func TestCancelledWriterLeavesTheQueue(t *testing.T) {
	b := openAt(t, Config{Path: filepath.Join(t.TempDir(), "state.db")})
	b.lead <- struct{}{} // somebody leads, for long
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	op := Op{Verb: Create, Key: testKey("a"), Encode: func(int64) ([]byte, any) { return nil, nil }}
	if _, err := b.Commit(ctx, op); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want %v", err, context.DeadlineExceeded)
	}
	<-b.lead
	put(t, b, "b", nil, false)
	if _, err := b.Get(context.Background(), op.Key); !errors.Is(err, ErrNotFound) {
		t.Errorf("withdrawn write: got %v, want %v", err, ErrNotFound)
	}
}

func TestOldHistoryForgetsDecodedForms(t *testing.T) {
	b := openAt(t, Config{Path: filepath.Join(t.TempDir(), "state.db")})
	decoded := 0
	decode := func(v []byte) (any, error) { decoded++; return string(v), nil }
	encode := func(revision int64) ([]byte, any) { return []byte("text"), "text" }
	old := commit(t, b, Op{Verb: Create, Key: testKey("a"), Volatile: true, Encode: encode})
	for range 3 * coldAfter {
		commit(t, b, Op{Verb: Update, Key: testKey("a"), Volatile: true, Encode: encode})
	}
	now, err := b.Get(context.Background(), testKey("a"))
	if err != nil {
		t.Fatal(err)
	}
	for want, e := range []*Entry{now, old} {
		if o, err := e.Object(decode); err != nil || o != "text" || decoded != want {
			t.Errorf("object at %d: got %v, %v, decoded %d times, want %d", e.Revision, o, err, decoded, want)
		}
	}
}
