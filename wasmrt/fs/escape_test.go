//go:build linux

package fs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// canary is what no guest may read.
const canary = "canary: outside of every mount"

// outside makes a folder that a guest must neither read nor change, with a mount in it, and returns both.
func outside(t *testing.T, entries ...string) (dir, mount string) {
	t.Helper()
	dir = t.TempDir()
	mount = filepath.Join(dir, "mount")
	for name, text := range map[string]string{"secret": canary, "etc/passwd": canary} {
		p := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	inner := host(t, entries...)
	if err := os.CopyFS(mount, os.DirFS(inner)); err != nil {
		t.Fatal(err)
	}
	return dir, mount
}

// snapshot describes every file of a folder but those under except.
func snapshot(t *testing.T, dir, except string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if p == except {
			return fs.SkipDir
		}
		var st unix.Stat_t
		if err := unix.Lstat(p, &st); err != nil {
			return err
		}
		text := ""
		if e.Type().IsRegular() {
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			text = string(b)
		}
		all[p] = fmt.Sprintf("%v, %d links, changed at %v: %s", e.Type(), st.Nlink, st.Ctim, text)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// attack does everything that a guest can do with a path.
func attack(d *Dir, p string) []error {
	now := Times{Atim: Time{How: Now}, Mtim: Time{How: Now}}
	errs := []error{
		d.Mkdir(p + "/made"), d.Symlink("x", p+"/link"), d.Rename(p, d, "stolen"), d.Link(p, d, "linked"),
		d.Rename("victim", d, p+"/moved"), d.Link("victim", d, p+"/linked"), d.Unlink(p + "/secret"), d.Rmdir(p + "/etc"),
		d.SetTimesPath(p, true, now), d.SetTimesPath(p+"/", true, now), d.SetTimesPath(p+"/secret", false, now),
	}
	for _, o := range []OpenFlags{
		{Read: true},
		{Read: true, Follow: true},
		{Write: true, Follow: true},
		{Write: true, Truncate: true, Follow: true},
		{Write: true, Create: true, Follow: true},
		{Truncate: true, Follow: true},
		{Directory: true, Follow: true, Read: true},
	} {
		for _, path := range []string{p, p + "/", p + "/.", p + "/secret", p + "/etc/passwd", p + "/new", p + "/../secret"} {
			f, sub, err := d.Open(path, o)
			errs = append(errs, err)
			switch {
			case f != nil:
				_, _ = unix.Write(f.FD(), []byte("overwritten"))
				_ = f.Close()
			case sub != nil:
				_ = sub.Close()
			}
		}
	}
	return errs
}

// links are texts of links that lead out of the mount when they are followed by the host.
var links = []string{
	"..", "../", "../secret", "../etc", "../etc/passwd", "./../secret", "inner/../../secret", "../mount/../secret",
	"../../../../../../../../../../etc/passwd", "/etc/passwd", "/etc", "/proc/self/root/etc", "/proc/self/cwd",
	"inner/chain1", "chain1", "chain2/",
}

func TestLinksDoNotLeadOut(t *testing.T) {
	for _, way := range []string{"planted", "made by the guest"} {
		for _, readOnly := range []bool{false, true} {
			for _, text := range links {
				if way == "made by the guest" && readOnly {
					continue
				}
				name := strings.Join([]string{way, text, map[bool]string{true: "ro", false: "rw"}[readOnly]}, " ")
				t.Run(strings.ReplaceAll(name, "/", "|"), func(t *testing.T) {
					dir, mount := outside(t, "victim", "inner/")
					before := snapshot(t, dir, mount)
					plant(t, mount, text, way == "planted")
					d := root(t, Config{Root: mount, RootReadOnly: readOnly})
					if way != "planted" {
						if err := d.Symlink(text, "link"); err != nil && text[0] != '/' {
							t.Fatal(err)
						}
					}
					attack(d, "link")
					for _, p := range []string{"link", "link/", "link/secret", "link/etc/passwd", "link/passwd"} {
						if got, _ := content(d, p); strings.Contains(got, "canary") || strings.Contains(got, "root:") {
							t.Errorf("read %q through %s -> %s", got, p, text)
						}
					}
					if diff := cmp.Diff(before, snapshot(t, dir, mount)); diff != "" {
						t.Errorf("the host changed: %s", diff)
					}
				})
			}
		}
	}
}

// plant puts chains of links, and link itself if asked, into a mount.
func plant(t *testing.T, mount, text string, link bool) {
	t.Helper()
	err := errors.Join(
		os.Symlink("chain2", filepath.Join(mount, "chain1")),
		os.Symlink("inner/chain3", filepath.Join(mount, "chain2")),
		os.Symlink("../..", filepath.Join(mount, "inner/chain3")),
		os.Symlink("../chain1", filepath.Join(mount, "inner/chain1")),
	)
	if link {
		err = errors.Join(err, os.Symlink(text, filepath.Join(mount, "link")))
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestReadOnlyMountsRefuseEveryChange(t *testing.T) {
	vol := host(t, "file", "victim", "dir/inner", "link -> file", "empty/")
	before := snapshot(t, vol, "")
	single := filepath.Join(vol, "file")
	d := root(t, Config{Root: host(t, "victim", "sub/"), Mounts: []Mount{
		{Source: vol, Target: "/ro", ReadOnly: true},
		{Source: vol, Target: "/rw"},
		{Source: single, Target: "/single", ReadOnly: true},
	}})
	_, ro, err := d.Open("ro", OpenFlags{Directory: true})
	if err != nil {
		t.Fatal(err)
	}
	defer ro.Close()
	now := Times{Atim: Time{How: Now}, Mtim: Time{Nanos: 1, How: Set}}
	for what, got := range map[string]error{
		"mkdir": ro.Mkdir("new"), "rmdir": ro.Rmdir("empty"), "unlink": ro.Unlink("file"), "symlink": ro.Symlink("a", "new"),
		"rename": ro.Rename("file", ro, "new"), "rename over": ro.Rename("file", ro, "victim"), "link": ro.Link("file", ro, "new"),
		"times": ro.SetTimesPath("file", true, now), "times of link": ro.SetTimesPath("link", false, now),
		"times of folder": ro.SetTimes(now), "times of single": d.SetTimesPath("single", true, now),
	} {
		if got != ROFS {
			t.Errorf("%s: got %v, want %v", what, got, ROFS)
		}
	}
	for what, got := range map[string]error{
		"move out": ro.Rename("file", d, "stolen"), "move in": d.Rename("victim", ro, "new"), "link out": ro.Link("file", d, "new"),
		"link in": d.Link("victim", ro, "new"), "link to the same folder": d.Link("rw/file", ro, "new"),
		"link from the same folder": ro.Link("file", d, "rw/new"), "move to the same folder": d.Rename("ro/file", d, "rw/new"),
		"link single": d.Link("single", d, "new"), "move single": d.Rename("victim", d, "single"),
	} {
		if got != XDev {
			t.Errorf("%s: got %v, want %v", what, got, XDev)
		}
	}
	openings(t, d, now)
	if diff := cmp.Diff(before, snapshot(t, vol, "")); diff != "" {
		t.Errorf("the host changed: %s", diff)
	}
}

// openings opens a read-only file with every combination of flags, and does what it can with what it gets.
func openings(t *testing.T, d *Dir, now Times) {
	t.Helper()
	for bits := range 1 << 8 {
		on := func(i int) bool { return bits>>i&1 != 0 }
		o := OpenFlags{
			Follow: on(0), Create: on(1), Exclusive: on(2), Truncate: on(3), Read: on(4), Write: on(5), Append: on(6), Directory: on(7),
		}
		for _, p := range []string{"ro/file", "ro/link", "single", "ro/new", "ro/dir", "ro/dir/inner"} {
			f, sub, err := d.Open(p, o)
			if err == nil && (o.Write || o.Truncate || o.Create && o.Exclusive) {
				t.Errorf("open %s with %+v: no error", p, o)
			}
			switch {
			case sub != nil:
				_ = sub.Close()
			case f != nil:
				for what, err := range map[string]error{
					"size": f.SetSize(0), "allocate": f.Allocate(0, 1<<20), "times": f.SetTimes(now),
				} {
					if err != ROFS {
						t.Errorf("%s of %s opened with %+v: got %v, want %v", what, p, o, err, ROFS)
					}
				}
				if _, err := unix.Write(f.FD(), []byte("x")); err != unix.EBADF {
					t.Errorf("write to %s opened with %+v: got %v", p, o, err)
				}
				_ = f.Close()
			}
		}
	}
}

// TestSwappedLinksAreNeverFollowedOut lets the host swap folders and files for links while a guest uses the paths.
func TestSwappedLinksAreNeverFollowedOut(t *testing.T) {
	dir, mount := outside(t, "a/b/c/secret", "a/b/c/etc/passwd", "victim", "spare/")
	before := snapshot(t, dir, mount)
	d := root(t, Config{Root: mount})
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var swaps []func()
	for i, swapped := range []string{"a", "a/b", "a/b/c", "a/b/c/secret"} {
		// The folder is held, because the one who swaps must not be led out either.
		folder, err := unix.Open(filepath.Join(mount, filepath.Dir(swapped)), unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(folder)
		spare := filepath.Join(mount, "spare", filepath.Base(swapped))
		if err := os.Symlink([]string{"..", "../..", dir, "../../../../secret"}[i], spare); err != nil {
			t.Fatal(err)
		}
		swaps = append(swaps, func() { swap(stop, folder, filepath.Base(swapped), spare) })
	}
	for _, f := range swaps {
		wg.Go(f)
	}
	for end := time.Now().Add(testTime(t, 2*time.Second)); time.Now().Before(end); {
		for _, p := range []string{"a/b/c/secret", "a/b/c/etc/passwd", "a/b/c/../c/secret", "a/secret", "a/b/c", "a/"} {
			lookAround(t, d, p, dir)
			_ = d.SetTimesPath(p, true, Times{Mtim: Time{Nanos: 5, How: Set}})
			_ = d.Unlink(p + "/victim")
			_ = d.Link(p, d, "linked")
			_ = d.Link(p+"/secret", d, "second")
			_ = d.Rename(p+"/etc", d, "moved")
			_ = d.Mkdir(p + "/new")
			_ = d.Rmdir(p + "/new")
			if f, _, err := d.Open(p, OpenFlags{Follow: true, Write: true, Truncate: true, Create: true}); err == nil && f != nil {
				_, _ = unix.Write(f.FD(), []byte("secret"))
				_ = f.Close()
			}
			for _, made := range []string{"linked", "second", "moved"} {
				lookAround(t, d, made, dir)
				_ = d.Unlink(made)
			}
			// Back it goes, so that the next round finds it; where is up to the one who swaps.
			_ = d.Rename("moved", d, "a/b/c/etc")
		}
	}
	close(stop)
	wg.Wait()
	if diff := cmp.Diff(before, snapshot(t, dir, mount)); diff != "" {
		t.Errorf("the host changed: %s", diff)
	}
}

// lookAround reads, describes and lists what is at path, none of which may be of the folder outside.
func lookAround(t *testing.T, d *Dir, path, outside string) {
	t.Helper()
	if got, _ := content(d, path); strings.Contains(got, "canary") {
		t.Errorf("read the canary through %s", path)
	}
	for _, name := range []string{".", "secret", "etc", "etc/passwd"} {
		var secret unix.Stat_t
		if err := unix.Lstat(filepath.Join(outside, name), &secret); err != nil {
			t.Fatal(err)
		}
		if st, err := d.StatPath(path, true); err == nil && st.Ino == secret.Ino && st.Dev == secret.Dev {
			t.Errorf("described %s of the host through %s", name, path)
		}
	}
	_, sub, err := d.Open(path, OpenFlags{Follow: true, Directory: true, Read: true})
	if err != nil {
		return
	}
	defer sub.Close()
	_ = sub.ReadDir(0, func(e Entry) bool {
		if e.Name == "mount" {
			t.Errorf("listed the folder outside through %s", path)
		}
		return true
	})
}

// swap exchanges the entry name of a folder and the file other in one step, again and again.
func swap(stop chan struct{}, folder int, name, other string) {
	for {
		select {
		case <-stop:
			return
		default:
			_ = unix.Renameat2(folder, name, unix.AT_FDCWD, other, unix.RENAME_EXCHANGE)
		}
	}
}

// TestSwappedFilesKeepTheirTimes lets the host swap a file for a link that leads out while a guest sets times.
func TestSwappedFilesKeepTheirTimes(t *testing.T) {
	dir, mount := outside(t, "file", "spare/")
	before := snapshot(t, dir, mount)
	d := root(t, Config{Root: mount})
	folder, err := unix.Open(mount, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(folder)
	other := filepath.Join(mount, "spare/link")
	if err := os.Symlink("../secret", other); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { swap(stop, folder, "file", other) })
	end := time.Now().Add(testTime(t, time.Second))
	for i := uint64(0); i < 1000 || time.Now().Before(end); i++ {
		_ = d.SetTimesPath("file", i%2 == 0, Times{Mtim: Time{Nanos: i, How: Set}})
	}
	close(stop)
	wg.Wait()
	if diff := cmp.Diff(before, snapshot(t, dir, mount)); diff != "" {
		t.Errorf("the host changed: %s", diff)
	}
}

func TestLinksAreDescribedThemselves(t *testing.T) {
	d := root(t, Config{Root: host(t, "file", "link -> file", "out -> ../secret")})
	for _, c := range []struct {
		path   string
		follow bool
		want   FileType
		err    error
	}{
		{"link", false, TypeSymlink, nil},
		{"link", true, TypeRegular, nil},
		{"out", false, TypeSymlink, nil},
		{"out", true, 0, Perm},
		{"link/", false, 0, NotDir},
	} {
		st, err := d.StatPath(c.path, c.follow)
		if !errors.Is(err, c.err) || err == nil && st.Type != c.want {
			t.Errorf("%s, follow %v: type %d, %v; want %d, %v", c.path, c.follow, st.Type, err, c.want, c.err)
		}
	}
}

// FuzzPaths opens any path, and makes a link of any text, in a mount with links of every kind.
func FuzzPaths(f *testing.F) {
	for _, text := range links {
		f.Add("link", text)
		f.Add(text, "..")
		f.Add("inner/"+text, text+"/secret")
	}
	f.Fuzz(func(t *testing.T, path, text string) {
		dir := t.TempDir()
		mount := filepath.Join(dir, "mount")
		err := errors.Join(os.MkdirAll(filepath.Join(mount, "inner"), 0o755), os.WriteFile(filepath.Join(dir, "secret"), []byte(canary), 0o644))
		if err != nil {
			t.Fatal(err)
		}
		plant(t, mount, "../secret", true)
		d := root(t, Config{Root: mount, Mounts: []Mount{{Source: filepath.Join(mount, "inner"), Target: "/vol"}}})
		_ = d.Symlink(text, "made")
		for _, p := range []string{path, "made", "made/" + path, "vol/" + path, path + "/made"} {
			if got, _ := content(d, p); strings.Contains(got, "canary") {
				t.Errorf("read the canary through %q, link to %q", p, text)
			}
			if f, _, err := d.Open(p, OpenFlags{Create: true, Write: true, Follow: true}); err == nil && f != nil {
				_ = f.Close()
			}
			_ = d.Mkdir(p)
			_ = d.Rename("inner", d, p)
		}
		entries, err := os.ReadDir(dir)
		if err != nil || len(entries) != 2 {
			t.Errorf("%d entries beside the mount, %v", len(entries), err)
		}
	})
}
