//go:build linux

package fs

import (
	"math"
	"os"
	"path/filepath"
	"testing"
)

// FuzzListing lists a folder from any position, while files come and go and a mount shows up in it. A listing ends, names
// nothing twice, and names all that stays.
func FuzzListing(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, uint64(0))
	f.Add([]byte{20, 40, 60, 80, 100, 120}, uint64(ours))
	f.Add([]byte{255, 254, 1, 2}, uint64(ours|3))
	f.Add([]byte{9, 9, 9}, uint64(math.MaxUint64))
	f.Add([]byte{7}, uint64(math.MaxInt64))
	f.Fuzz(func(t *testing.T, program []byte, cookie uint64) {
		dir := t.TempDir()
		for _, name := range []string{"stays", "vol", "x"} {
			if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		d := root(t, Config{Root: dir, Mounts: []Mount{{Source: t.TempDir(), Target: "/vol"}, {Source: t.TempDir(), Target: "/far/away"}}})
		for _, op := range program {
			name := filepath.Join(dir, "x", string(rune('a'+op%8)))
			switch op / 8 % 4 {
			case 0:
				_ = os.WriteFile(name, nil, 0o644)
			case 1:
				_ = os.Remove(name)
			case 2:
				cookie = cookie*31 + uint64(op)
			}
			left := 4 + int(op)
			_ = d.ReadDir(cookie, func(e Entry) bool {
				cookie = e.Next
				left--
				return left > 0
			})
		}
		// A host's file system may be out of step for good after a position that it never gave: the folder is opened anew.
		_, fresh, err := d.Open(".", OpenFlags{Read: true, Directory: true})
		if err != nil {
			t.Fatal(err)
		}
		defer fresh.Close()
		seen := map[string]int{}
		if err := fresh.ReadDir(0, func(e Entry) bool { seen[e.Name]++; return len(seen) < 100 }); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{".", "..", "stays", "vol", "far", "x"} {
			if seen[name] != 1 {
				t.Errorf("%s is listed %d times", name, seen[name])
			}
		}
		if len(seen) != 6 {
			t.Errorf("listed %v", seen)
		}
	})
}
