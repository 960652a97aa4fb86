package store

import (
	"bytes"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

func FuzzKey(f *testing.F) {
	f.Add("pods", "default", "a", "a-b")
	f.Add("nodes", "", "n", "")
	f.Add("p\x00", "\x00", "\xff", "a")
	f.Fuzz(func(t *testing.T, resource, namespace, name, other string) {
		a, b := Key{resource, namespace, name}, Key{resource, namespace, other}
		c := Key{resource, other, name}
		if a.validate() != nil || b.validate() != nil || c.validate() != nil {
			return
		}
		for _, k := range []Key{a, b, c} {
			got, err := decodeKey(encodeKey(k))
			if err != nil || got != k {
				t.Fatalf("got %+v, %v, want %+v", got, err, k)
			}
		}
		for _, k := range []Key{b, c} {
			if got, want := bytes.Compare(encodeKey(a), encodeKey(k)), compareKeys(a, k); got != want {
				t.Fatalf("order of %+v and %+v: got %d as bytes, want %d", a, k, got, want)
			}
		}
	})
}

func FuzzRecord(f *testing.F) {
	f.Add(int64(5), byte(flagPrev), "a", int64(3), []byte("old"), []byte("new"))
	f.Add(int64(1), byte(flagDeleted|flagValue), "b", int64(0), []byte{}, []byte("last"))
	f.Fuzz(func(t *testing.T, revision int64, flags byte, name string, prevRevision int64, prev, value []byte) {
		want := record{revision, flags & flagsKnown &^ flagRestart, testKey(name), prevRevision, prev, value}
		if want.key.validate() != nil {
			return
		}
		key, sealed := encodeRecord(want)
		got, err := decodeRecord(key, sealed)
		if err != nil {
			t.Fatalf("decode %+v: %v", want, err)
		}
		same := gocmp.Comparer(func(a, b []byte) bool { return bytes.Equal(a, b) })
		if diff := gocmp.Diff(want, got, gocmp.AllowUnexported(record{}), same); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		for i := range sealed {
			sealed[i] ^= 0x10
			if _, err := decodeRecord(key, sealed); err == nil {
				t.Errorf("flipped bit in byte %d was not found", i)
			}
			sealed[i] ^= 0x10
		}
	})
}

func FuzzDecode(f *testing.F) {
	key, sealed := encodeRecord(record{revision: 7, flags: flagPrev, key: testKey("a"), prevRevision: 3, prev: []byte("old")})
	f.Add(key, sealed[crcSize:])
	f.Add(encodeKey(testKey("a")), []byte("12345678value"))
	f.Fuzz(func(t *testing.T, key, content []byte) {
		sealed := seal(key, append(make([]byte, crcSize), content...))
		_, _ = decodeRecord(key, sealed)
		_, _ = decodeObject(key, sealed)
	})
}
