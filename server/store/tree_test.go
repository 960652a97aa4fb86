package store

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestTreeMatchesASortedSlice(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	var now tree
	model := map[Key]*Entry{}
	var olds []tree
	var oldModels []map[Key]*Entry
	for i := range 20_000 {
		key := Key{Namespace: fmt.Sprint(r.IntN(3)), Name: fmt.Sprint(r.IntN(2000))}
		if r.IntN(100) < 30+i/300 {
			now = now.without(key)
			delete(model, key)
		} else {
			e := &Entry{Key: key, Revision: int64(i)}
			now, model[key] = now.with(e), e
		}
		if i%2500 == 0 {
			olds, oldModels = append(olds, now), append(oldModels, maps.Clone(model))
		}
	}
	for i, old := range append(olds, now) {
		checkTree(t, old, append(oldModels, model)[i])
	}
}

func checkTree(t *testing.T, got tree, model map[Key]*Entry) {
	t.Helper()
	want := slices.SortedFunc(maps.Values(model), func(a, b *Entry) int { return compareKeys(a.Key, b.Key) })
	if got.size != len(want) || !slices.Equal(got.slice(0, got.size), want) {
		t.Fatalf("got %d entries, want %d, or in another order", got.size, len(want))
	}
	if !slices.Equal(treeOf(want).slice(0, len(want)), want) {
		t.Error("tree made of a slice differs from it")
	}
	for i, e := range want {
		if got.get(e.Key) != e || got.rank(e.Key) != i {
			t.Fatalf("entry %d of %d: got %v at %d", i, len(want), got.get(e.Key), got.rank(e.Key))
		}
	}
	for _, c := range got.chunks {
		if len(c) == 0 || len(c) > chunkMax {
			t.Errorf("chunk of %d entries", len(c))
		}
	}
	for i := 0; i+7 < len(want); i += 13 {
		if !slices.Equal(got.slice(i, i+7), want[i:i+7]) {
			t.Errorf("slice from %d differs", i)
		}
	}
}
