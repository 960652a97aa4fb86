package store

import (
	"cmp"
	"slices"
)

// tree is an immutable set of entries in key order: a list of chunks, of which a change copies one. Whoever holds a tree
// can read it for as long as he likes, without a lock.
type tree struct {
	chunks [][]*Entry
	size   int
}

// chunkMax entries make a chunk split; a chunk of fewer than chunkMin tries to join its neighbour.
const (
	chunkMax = 128
	chunkMin = chunkMax / 4
)

// treeOf makes a tree of entries that are in order already.
func treeOf(entries []*Entry) tree {
	t := tree{size: len(entries)}
	for c := range slices.Chunk(entries, chunkMax*3/4) {
		t.chunks = append(t.chunks, slices.Clip(c))
	}
	return t
}

// compareKeys orders keys of one resource by namespace and name.
func compareKeys(a, b Key) int {
	if c := cmp.Compare(a.Namespace, b.Namespace); c != 0 {
		return c
	}
	return cmp.Compare(a.Name, b.Name)
}

func compareEntry(e *Entry, key Key) int { return compareKeys(e.Key, key) }

// find returns the chunk in which the key is or would be, and its place there.
func (t tree) find(key Key) (chunk, place int, found bool) {
	chunk, found = slices.BinarySearchFunc(t.chunks, key, func(c []*Entry, key Key) int {
		return compareEntry(c[0], key)
	})
	if found {
		return chunk, 0, true
	}
	if chunk > 0 {
		chunk--
	}
	if chunk < len(t.chunks) {
		place, found = slices.BinarySearchFunc(t.chunks[chunk], key, compareEntry)
	}
	return chunk, place, found
}

// get returns the entry of the key, or nil.
func (t tree) get(key Key) *Entry {
	chunk, place, found := t.find(key)
	if !found {
		return nil
	}
	return t.chunks[chunk][place]
}

// with returns a tree in which e stands at its key.
func (t tree) with(e *Entry) tree {
	chunk, place, found := t.find(e.Key)
	if found {
		c := slices.Clone(t.chunks[chunk])
		c[place] = e
		return t.replace(chunk, t.size, c)
	}
	if len(t.chunks) == 0 {
		return tree{chunks: [][]*Entry{{e}}, size: 1}
	}
	old := t.chunks[chunk]
	c := make([]*Entry, len(old)+1)
	copy(c, old[:place])
	c[place] = e
	copy(c[place+1:], old[place:])
	if len(c) <= chunkMax {
		return t.replace(chunk, t.size+1, c)
	}
	half := len(c) / 2
	return t.replace(chunk, t.size+1, slices.Clip(c[:half]), slices.Clip(c[half:]))
}

// without returns a tree that lacks the key.
func (t tree) without(key Key) tree {
	chunk, place, found := t.find(key)
	if !found {
		return t
	}
	old := t.chunks[chunk]
	if len(old) == 1 {
		return t.replace(chunk, t.size-1)
	}
	c := make([]*Entry, len(old)-1)
	copy(c, old[:place])
	copy(c[place:], old[place+1:])
	if next := chunk + 1; len(c) < chunkMin && next < len(t.chunks) && len(c)+len(t.chunks[next]) < chunkMax {
		c = append(c, t.chunks[next]...)
		t = t.replace(next, t.size)
	}
	return t.replace(chunk, t.size-1, c)
}

// replace returns a tree with other chunks in the place of one.
func (t tree) replace(chunk, size int, with ...[]*Entry) tree {
	chunks := make([][]*Entry, 0, len(t.chunks)-1+len(with))
	chunks = append(chunks, t.chunks[:chunk]...)
	chunks = append(chunks, with...)
	chunks = append(chunks, t.chunks[chunk+1:]...)
	return tree{chunks: chunks, size: size}
}

// rank counts the entries before the key.
func (t tree) rank(key Key) int {
	chunk, place, _ := t.find(key)
	for _, c := range t.chunks[:chunk] {
		place += len(c)
	}
	return place
}

// slice returns the entries from one rank up to another.
func (t tree) slice(from, to int) []*Entry {
	if from >= to {
		return nil
	}
	list := make([]*Entry, 0, to-from)
	for _, c := range t.chunks {
		if from < len(c) {
			list = append(list, c[from:min(to, len(c))]...)
		}
		from, to = max(from-len(c), 0), to-len(c)
		if to <= 0 {
			break
		}
	}
	return list
}
