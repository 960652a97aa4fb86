package layer

import (
	"archive/tar"
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// model is what layers without links should unpack to: files with their content, folders with a slash.
type model map[string]string

// remove takes away a path and all below it.
func (m model) remove(name string) {
	for at := range m {
		if at == name || strings.HasPrefix(at, name+"/") {
			delete(m, at)
		}
	}
}

// parents makes the folders on the way to a path.
func (m model) parents(name string) {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		delete(m, dir)
		m[dir+"/"] = ""
	}
}

// apply puts one layer over what is there. Whiteouts act on what was there before it, as if they came first.
func (m model) apply(entries []tar.Header) {
	for _, h := range entries {
		dir, base := path.Split(h.Name)
		switch {
		case base == opaqueName:
			m.remove(path.Clean(dir))
		case strings.HasPrefix(base, whiteoutPrefix):
			m.remove(path.Join(dir, strings.TrimPrefix(base, whiteoutPrefix)))
		}
	}
	for _, h := range entries {
		name := path.Clean(h.Name)
		base := path.Base(name)
		if strings.HasPrefix(base, whiteoutPrefix) {
			if parent := path.Dir(name); parent != "." {
				m.parents(name)
			}
			continue
		}
		m.parents(name)
		if h.Typeflag == tar.TypeDir {
			delete(m, name)
			m[name+"/"] = ""
			continue
		}
		m.remove(name)
		m[name] = h.Linkname
	}
}

func TestRandomLayersUnpackAsTheModelSays(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	for range 100 {
		p, m := newPlace(t), model{}
		var told []string
		for n := range 1 + r.IntN(4) {
			entries := randomLayer(r, n)
			for _, h := range entries {
				told = append(told, fmt.Sprintf("%d: %c %s %s", n, h.Typeflag, h.Name, h.Linkname))
			}
			if _, err := Apply(t.Context(), p.root, bytes.NewReader(pack(t, entries...)), budget()); err != nil {
				t.Fatalf("seed %d: %v\n%s", seed, err, strings.Join(told, "\n"))
			}
			m.apply(entries)
		}
		if diff := cmp.Diff(map[string]string(m), p.tree(t)); diff != "" {
			t.Fatalf("seed %d: %s\n%s", seed, diff, strings.Join(told, "\n"))
		}
		p.check(t)
	}
}

// randomLayer has folders before what is in them, no name twice, and no whiteout of what it has itself: what layers look like
// that builders make.
func randomLayer(r *rand.Rand, n int) []tar.Header {
	names := []string{"a", "b", "c"}
	used := map[string]tar.Header{}
	for range r.IntN(8) {
		var parts []string
		for range 1 + r.IntN(3) {
			parts = append(parts, names[r.IntN(len(names))])
		}
		name := strings.Join(parts, "/")
		switch r.IntN(5) {
		case 0:
			used[name] = folder(name)
		case 1:
			dir, base := path.Split(name)
			used[dir+whiteoutPrefix+base] = file(dir+whiteoutPrefix+base, "")
		case 2:
			used[name+"/"+opaqueName] = file(name+"/"+opaqueName, "")
		default:
			used[name] = file(name, fmt.Sprint("layer ", n))
		}
	}
	keys := map[string]bool{}
	for name := range used {
		keys[name] = true
	}
	return consistent(used, keys)
}

// consistent leaves out what contradicts something else in the layer, and sorts.
func consistent(used map[string]tar.Header, keys map[string]bool) []tar.Header {
	for name := range keys {
		for at := path.Dir(name); at != "."; at = path.Dir(at) {
			dir, base := path.Split(at)
			if h, ok := used[at]; ok && h.Typeflag == tar.TypeReg || keys[dir+whiteoutPrefix+base] {
				delete(used, name)
			}
		}
		dir, base := path.Split(name)
		if keys[dir+whiteoutPrefix+base] && !strings.HasPrefix(base, whiteoutPrefix) {
			delete(used, name)
		}
	}
	var out []tar.Header
	for _, name := range slices.Sorted(maps.Keys(used)) {
		out = append(out, used[name])
	}
	return out
}
