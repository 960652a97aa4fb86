package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"go.etcd.io/bbolt"
)

func testKey(name string) Key { return Key{Resource: "pods", Namespace: "default", Name: name} }

func openAt(t testing.TB, cfg Config) *Bolt {
	t.Helper()
	b, err := Open(cfg)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

func commit(t testing.TB, b *Bolt, op Op) *Entry {
	t.Helper()
	e, err := b.Commit(context.Background(), op)
	if err != nil {
		t.Fatalf("commit %s: %v", op.Key, err)
	}
	return e
}

// put creates or updates.
func put(t testing.TB, b *Bolt, name string, value []byte, volatile bool) *Entry {
	t.Helper()
	op := Op{Verb: Update, Key: testKey(name), Volatile: volatile, Encode: func(int64) ([]byte, any) { return value, nil }}
	if _, err := b.Get(context.Background(), op.Key); errors.Is(err, ErrNotFound) {
		op.Verb = Create
	}
	return commit(t, b, op)
}

func contentOf(t testing.TB, b *Bolt) map[string]string {
	t.Helper()
	page, err := b.List(context.Background(), Query{Resource: "pods"})
	if err != nil {
		t.Fatalf("list: %v", err)
	}
	content := map[string]string{}
	for _, e := range page.Entries {
		content[e.Key.String()] = fmt.Sprintf("%d %s", e.Revision, e.Value)
	}
	return content
}

// crashed copies the file of an open store, as a kill would leave it.
func crashed(t testing.TB, b *Bolt) string {
	t.Helper()
	data, err := os.ReadFile(b.cfg.Path)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "state.db")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// sample returns the bytes of a store that was closed, and what is in it.
func sample(t testing.TB) ([]byte, map[string]string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "state.db")
	b := openAt(t, Config{Path: path})
	for i := range 60 {
		put(t, b, fmt.Sprintf("pod-%d", i%40), bytes.Repeat([]byte{byte('a' + i%26)}, 300+i*10), true)
	}
	put(t, b, "big", bytes.Repeat([]byte("big "), 5000), true)
	commit(t, b, Op{Verb: Delete, Key: testKey("pod-7")})
	content := contentOf(t, b)
	if err := b.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data, content
}

// openBytes opens a store made of bytes, and, if that works, writes to it and opens it again.
func openBytes(t testing.TB, data []byte) (map[string]string, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "state.db")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	b, err := Open(Config{Path: path})
	if err != nil {
		return nil, err
	}
	content := contentOf(t, b)
	put(t, b, "another", []byte("value"), false)
	if err := b.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	again := openAt(t, Config{Path: path})
	if got, err := again.Get(context.Background(), testKey("another")); err != nil || string(got.Value) != "value" {
		t.Errorf("after opening again: got %v, %v", got, err)
	}
	return content, nil
}

func TestFlippedBitsAreFoundOrHarmless(t *testing.T) {
	data, want := sample(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	found := 0
	for i := range 400 {
		at := r.IntN(len(data))
		if i%2 == 0 { // the pages' heads are where it hurts
			at = at&^0xfff + r.IntN(64)
		}
		broken := bytes.Clone(data)
		broken[at] ^= 1 << r.IntN(8)
		got, err := openBytes(t, broken)
		if err != nil {
			if !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrNewer) {
				t.Errorf("bit at %d: got %v, want ErrDamaged", at, err)
			}
			found++
			continue
		}
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Errorf("bit at %d changed the content (-want +got):\n%s", at, diff)
		}
	}
	if found == 0 {
		t.Error("no flipped bit was found")
	}
}

func TestOpenSaysWhatIsWrong(t *testing.T) {
	data, _ := sample(t)
	foreign := filepath.Join(t.TempDir(), "foreign.db")
	db, err := bbolt.Open(foreign, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	foreignData, err := os.ReadFile(foreign)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		data []byte
		want error
		text string
	}{
		{"empty", nil, ErrDamaged, "the file is empty"},
		{"one byte", []byte{1}, ErrDamaged, "no edgepod store"},
		{"text", bytes.Repeat([]byte("not a database\n"), 3000), ErrDamaged, "no edgepod store"},
		{"zeroes", make([]byte, len(data)), ErrDamaged, "no edgepod store"},
		{"half", data[:len(data)/2], ErrDamaged, "cut short"},
		{"headers", data[:8192], ErrDamaged, "cut short"},
		{"another program's", foreignData, ErrDamaged, "another program"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := openBytes(t, test.data)
			if !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.text) {
				t.Errorf("got %v, want %v with %q", err, test.want, test.text)
			}
			if !strings.Contains(err.Error(), "restore a backup") {
				t.Errorf("got %v, want a hint", err)
			}
		})
	}
}

func TestEveryTruncationIsFound(t *testing.T) {
	data, _ := sample(t)
	meta, err := readMeta(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	for size := 0; size < int(meta.pages)*int(meta.pageSize); size += 1000 {
		if _, err := checkFile(bytes.NewReader(data[:size]), int64(size)); err == nil {
			t.Errorf("%d of %d bytes: no error", size, len(data))
		}
	}
}

func TestNewerSchemaIsRefused(t *testing.T) {
	b := openAt(t, Config{Path: filepath.Join(t.TempDir(), "state.db")})
	err := b.disk.db.Update(func(tx *bbolt.Tx) error {
		return tx.Bucket(metaBucket).Put(schemaKey, binary.BigEndian.AppendUint32(nil, schemaVersion+1))
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Config{Path: crashed(t, b)}); !errors.Is(err, ErrNewer) {
		t.Errorf("got %v, want %v", err, ErrNewer)
	}
}

func TestOpenStoreIsInUse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deep", "state.db")
	b := openAt(t, Config{Path: path})
	_, err := Open(Config{Path: path})
	if !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) {
		t.Errorf("got %v, want %v with the number of the process", err, ErrInUse)
	}
	put(t, b, "a", nil, false)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got mode %v, %v, want 0600", info.Mode(), err)
	}
}

func TestUnfinishedFirstFileIsMadeAnew(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	if err := os.WriteFile(path+".new", []byte("half of a file"), 0o600); err != nil {
		t.Fatal(err)
	}
	b := openAt(t, Config{Path: path})
	if b.Revision() != 1 {
		t.Errorf("revision of a new store: got %d, want 1", b.Revision())
	}
	if _, err := os.Stat(path + ".new"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the unfinished file: got %v, want none", err)
	}
}

func TestReadableFileIsClosedToOthers(t *testing.T) {
	data, _ := sample(t)
	path := filepath.Join(t.TempDir(), "state.db")
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	openAt(t, Config{Path: path})
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got mode %v, %v, want 0600", info.Mode(), err)
	}
}

func TestConfigIsChecked(t *testing.T) {
	for _, cfg := range []Config{
		{},
		{Path: "x", HistoryEvents: -1},
		{Path: "x", HistoryBytes: -1},
		{Path: "x", RevisionBlock: -1},
	} {
		if _, err := Open(cfg); err == nil {
			t.Errorf("%+v was taken", cfg)
		}
	}
}

func FuzzOpen(f *testing.F) {
	data, _ := sample(f)
	f.Add(0, []byte{})
	f.Add(16, []byte{0xed})
	f.Add(8192, []byte{0xff, 0xff, 0xff})
	f.Add(len(data)-1, []byte{1})
	f.Fuzz(func(t *testing.T, at int, patch []byte) {
		broken := bytes.Clone(data)
		at = max(at, 0) % len(broken)
		copy(broken[at:], patch)
		_, _ = openBytes(t, broken)
	})
}

func FuzzOpenForeign(f *testing.F) {
	data, _ := sample(f)
	f.Add(data[:16384])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) { _, _ = openBytes(t, data) })
}
