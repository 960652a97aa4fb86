//go:build linux

package fs

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// host makes a folder of the host: names that end with a slash are folders, "name -> text" is a link, other entries are
// files with their own name as content.
func host(t *testing.T, entries ...string) string {
	t.Helper()
	root := t.TempDir()
	for _, e := range entries {
		name, text, isLink := strings.Cut(e, " -> ")
		p := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		switch {
		case isLink:
			err = os.Symlink(text, p)
		case strings.HasSuffix(name, "/"):
			err = os.MkdirAll(p, 0o755)
		default:
			err = os.WriteFile(p, []byte(filepath.Base(name)), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// root opens the root of a tree.
func root(t *testing.T, cfg Config) *Dir {
	t.Helper()
	tree, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	d := tree.OpenRoot()
	t.Cleanup(func() {
		if err := errors.Join(d.Close(), tree.Close()); err != nil {
			t.Error(err)
		}
	})
	return d
}

// content reads the file at path.
func content(d *Dir, path string) (string, error) {
	f, dir, err := d.Open(path, OpenFlags{Follow: true, Read: true})
	if err != nil {
		return "", err
	}
	if dir != nil {
		return "", errors.Join(IsDir, dir.Close())
	}
	b := make([]byte, 256)
	n, err := unix.Read(f.FD(), b)
	return string(b[:max(n, 0)]), errors.Join(err, f.Close())
}

// names lists a folder in pieces of n entries.
func names(t *testing.T, d *Dir, path string, n int) []string {
	t.Helper()
	_, sub, err := d.Open(path, OpenFlags{Directory: true, Read: true})
	if err != nil {
		t.Fatalf("open %s: %v", path, err)
	}
	defer sub.Close()
	var all []string
	cookie := uint64(0)
	for {
		got := 0
		err := sub.ReadDir(cookie, func(e Entry) bool {
			if got == n {
				return false
			}
			got++
			cookie = e.Next
			all = append(all, e.Name)
			return true
		})
		if err != nil {
			t.Fatalf("list %s: %v", path, err)
		}
		if got < n {
			slices.Sort(all)
			return all
		}
	}
}

func TestPathsAreResolvedInTheGuestsTree(t *testing.T) {
	vol := host(t, "v", "sub/w", "deep/a/b/c/x")
	d := root(t, Config{
		Root: host(t, "file", "dir/nested/inner", "rel -> dir/nested", "abs -> /dir/nested/inner", "top -> /",
			"up/back -> ../file", "up/two -> ../dir/../rel/inner", "loop -> loop", "a -> b", "b -> a", "dangling -> none",
			"intovol -> vol/sub/w", "hidden/secret", "slash -> dir/nested/", "beneath -> dir", "way -> dir"),
		Mounts: []Mount{
			{Source: vol, Target: "/vol"},
			{Source: host(t, "n"), Target: "/vol/nested/point"},
			{Source: filepath.Join(vol, "v"), Target: "/etc/single"},
			{Source: host(t), Target: "/hidden"},
			{Source: filepath.Join(vol, "v"), Target: "/beneath"},
			{Source: vol, Target: "/way/vol"},
		},
	})
	for _, c := range []struct {
		path, want string
		err        error
	}{
		{"file", "file", nil},
		{"./dir/.//nested/../nested///./inner", "inner", nil},
		{"dir/nested/../../dir/nested/inner", "inner", nil},
		{"rel/inner", "inner", nil},
		{"slash/inner", "inner", nil},
		{"abs", "inner", nil},
		{"top/top/dir/nested/inner", "inner", nil},
		{"up/back", "file", nil},
		{"up/two", "inner", nil},
		{"intovol", "w", nil},
		{"vol/v", "v", nil},
		{"vol/../vol/sub/../v", "v", nil},
		{"vol/deep/a/b/c/x", "x", nil},
		{"vol/deep/a/b/../b/c/x", "x", nil},
		{"vol/nested/point/n", "n", nil},
		{"vol/nested/point/../../v", "v", nil},
		{"etc/single", "v", nil},
		{"hidden/secret", "", NoEnt},
		{"", "", NoEnt},
		{"/file", "", Perm},
		{"..", "", Perm},
		{"dir/../../file", "", Perm},
		{"vol/../../file", "", Perm},
		{"file/", "", NotDir},
		{"file/.", "", NotDir},
		{"file/..", "", NotDir},
		{"etc/single/", "", NotDir},
		{"etc/single/x", "", NotDir},
		{"beneath", "v", nil},
		{"beneath/nested/inner", "", NotDir},
		{"way/nested/inner", "", NoEnt},
		{"way/vol/v", "v", nil},
		{"rel", "", IsDir},
		{"rel/", "", IsDir},
		{"abs/", "", NotDir},
		{"dir/nested/", "", IsDir},
		{"etc", "", IsDir},
		{"vol/nested", "", IsDir},
		{"loop", "", Loop},
		{"a/x", "", Loop},
		{"dangling", "", NoEnt},
		{"none/x", "", NoEnt},
		{"etc/none", "", NoEnt},
		{"etc/none/x", "", NoEnt},
		{"fi\x00le", "", Inval},
		{"fi\xffle", "", IlSeq},
		{strings.Repeat("x", 256), "", NameTooLong},
		{strings.Repeat("x/", 2048), "", NameTooLong},
	} {
		got, err := content(d, c.path)
		if got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%q: got %q, %v; want %q, %v", c.path, got, err, c.want, c.err)
		}
	}
}

func TestMountPointsShowUpInTheFolderAbove(t *testing.T) {
	d := root(t, Config{
		Root: host(t, "file", "data/below"),
		Mounts: []Mount{
			{Source: host(t, "v"), Target: "/data"}, {Source: host(t), Target: "/data/x/y"}, {Source: host(t), Target: "/new/one"},
		},
	})
	for path, want := range map[string][]string{
		".":      {".", "..", "data", "file", "new"},
		"data":   {".", "..", "v", "x"},
		"data/x": {".", "..", "y"},
		"new":    {".", "..", "one"},
	} {
		for _, n := range []int{1, 2, 100} {
			if diff := cmp.Diff(want, names(t, d, path, n)); diff != "" {
				t.Errorf("%s in pieces of %d: %s", path, n, diff)
			}
		}
	}
}

func TestMountPointsCannotBeTakenAway(t *testing.T) {
	vol := host(t, "v")
	d := root(t, Config{
		Root: host(t, "dir/", "file"),
		Mounts: []Mount{
			{Source: vol, Target: "/data/vol"}, {Source: filepath.Join(vol, "v"), Target: "/dir/single"},
		},
	})
	for what, err := range map[string]error{
		"rmdir mount":     d.Rmdir("data/vol"),
		"rmdir above":     d.Rmdir("data"),
		"rmdir above dir": d.Rmdir("dir"),
		"rename mount":    d.Rename("data/vol", d, "elsewhere"),
		"rename above":    d.Rename("data", d, "elsewhere"),
		"rename onto":     d.Rename("dir", d, "data"),
		"rename root":     d.Rename(".", d, "dir"),
		"unlink single":   d.Unlink("dir/single"),
	} {
		if err != Busy && err != XDev {
			t.Errorf("%s: got %v, want %v", what, err, Busy)
		}
	}
	for path, want := range map[string]Errno{".": Inval, "dir/.": Inval, "data/vol/.": Inval, "dir/..": NotEmpty, "data/vol/": Busy} {
		if err := d.Rmdir(path); err != want {
			t.Errorf("rmdir %s: got %v, want %v", path, err, want)
		}
	}
	for what, err := range map[string]error{
		"mkdir":   d.Mkdir("data/vol"),
		"mkdir .": d.Mkdir("."),
		"symlink": d.Symlink("file", "dir/single"),
		"link":    d.Link("file", d, "data"),
	} {
		if err != Exist && err != XDev {
			t.Errorf("%s: got %v, want %v", what, err, Exist)
		}
	}
}

// TestDeepPaths makes folders far deeper than a lookup keeps open, and goes there with and without going back.
func TestDeepPaths(t *testing.T) {
	d := root(t, Config{Root: host(t)})
	names := func(n int) string { return strings.TrimSuffix(strings.Repeat("a/", n), "/") }
	for i := range 3 * maxPlaces {
		if err := d.Mkdir(names(i + 1)); err != nil {
			t.Fatalf("folder %d: %v", i, err)
		}
	}
	for path, want := range map[string]error{
		names(3 * maxPlaces):                       nil,
		names(maxPlaces/2) + "/..":                 nil,
		names(3*maxPlaces) + "/..":                 NameTooLong,
		strings.Repeat("a/../", 3*maxPlaces) + "a": nil,
		names(3*maxPlaces) + "/none":               NoEnt,
	} {
		if _, err := d.StatPath(path, true); !errors.Is(err, want) {
			t.Errorf("stat of %d bytes, %.12q…%.4q: got %v, want %v", len(path), path, path[len(path)-4:], err, want)
		}
	}
	if err := d.Symlink(names(3*maxPlaces), "link"); err != nil {
		t.Fatal(err)
	}
	if st, err := d.StatPath("link/.", true); err != nil || st.Type != TypeDirectory {
		t.Errorf("behind a link: %+v, %v", st, err)
	}
}

func TestMountsThatCannotBeMadeAreErrors(t *testing.T) {
	vol := host(t, "v")
	for want, cfg := range map[string]Config{
		"not an absolute path":     {Mounts: []Mount{{Source: vol, Target: "data"}}},
		"no such file":             {Mounts: []Mount{{Source: filepath.Join(vol, "none"), Target: "/data"}}},
		"there is one already":     {Mounts: []Mount{{Source: vol, Target: "/data"}, {Source: vol, Target: "/data/"}}},
		"is not a folder":          {Mounts: []Mount{{Source: filepath.Join(vol, "v"), Target: "/"}}},
		"not a folder":             {Root: filepath.Join(vol, "v")},
		"mount above it is a file": {Mounts: []Mount{{Source: filepath.Join(vol, "v"), Target: "/f"}, {Source: vol, Target: "/f/g"}}},
		"File name too long":       {Mounts: []Mount{{Source: vol, Target: "/" + strings.Repeat("x", 300)}}},
	} {
		tree, err := New(cfg)
		if err == nil {
			t.Errorf("no error, want %q", want)
			tree.Close()
			continue
		}
		if !strings.Contains(strings.ToLower(err.Error()), strings.ToLower(want)) {
			t.Errorf("got %q, want %q", err, want)
		}
	}
}

func TestListingGoesOnWhileTheFolderChanges(t *testing.T) {
	dir := host(t)
	for i := range 500 {
		if err := os.WriteFile(filepath.Join(dir, "stay"+string(rune('a'+i%26))+strings.Repeat("x", i/26)), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	d := root(t, Config{Root: dir})
	seen := map[string]int{}
	cookie := uint64(0)
	for round := 0; ; round++ {
		got := 0
		err := d.ReadDir(cookie, func(e Entry) bool {
			if got == 7 {
				return false
			}
			got++
			cookie = e.Next
			seen[e.Name]++
			return true
		})
		if err != nil {
			t.Fatal(err)
		}
		if got < 7 {
			break
		}
		// What comes and goes must neither hide nor double what stays.
		churn := filepath.Join(dir, "churn"+string(rune('a'+round%26)))
		if round%2 == 0 {
			err = os.WriteFile(churn, nil, 0o644)
		} else {
			err = os.RemoveAll(churn)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, e := range want {
		if seen[e.Name()] != 1 {
			t.Errorf("%s was listed %d times", e.Name(), seen[e.Name()])
		}
	}
}

func TestErrnoTableIsComplete(t *testing.T) {
	for e := TooBig; e <= NotCapable; e++ {
		if e.host() == unix.ENOTRECOVERABLE && e != NotRecoverable {
			t.Errorf("errno %d has no counterpart", e)
		}
		if back := fromUnix(e.host()); back != e && e != NotCapable {
			t.Errorf("errno %d comes back as %d", e, back)
		}
	}
	if got := ErrnoOf(errors.New("strange")); got != IO {
		t.Errorf("got %v, want IO", got)
	}
}
