//go:build linux

package fs

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// TestOperationsAreTheHosts does the same random operations in a tree and, by the host's own paths, in a second folder.
// Both must answer the same and look the same, but for paths that lead out, which end the round. Where the tree has mounts
// the second folder has folders in their place; what a tree refuses for a mount's sake is not done there.
func TestOperationsAreTheHosts(t *testing.T) {
	for _, mounted := range []bool{false, true} {
		total, refused := 0, 0
		end := time.Now().Add(testTime(t, time.Second))
		for seed := uint64(0); seed < 30 || time.Now().Before(end); seed++ {
			n, r := playRound(t, seed, mounted)
			total, refused = total+n, refused+r
		}
		if total < 3000 || mounted && refused < 50 {
			t.Errorf("mounts %v: only %d operations were compared, and %d refused", mounted, total, refused)
		}
	}
}

// playRound compares operations until a path leads out.
func playRound(t *testing.T, seed uint64, mounted bool) (total, refused int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 7))
	// Paths of the host's side may lead out, but not farther than the test's own folder.
	theirs := filepath.Join(t.TempDir(), strings.Repeat("up/", 12), "root")
	cfg := Config{Root: t.TempDir()}
	err := os.MkdirAll(theirs, 0o755)
	if mounted {
		cfg.Mounts = []Mount{{Source: t.TempDir(), Target: "/b"}, {Source: t.TempDir(), Target: "/c/a"}}
		err = errors.Join(err, os.Mkdir(filepath.Join(cfg.Root, "c"), 0o755), os.MkdirAll(filepath.Join(theirs, "c/a"), 0o755),
			os.Mkdir(filepath.Join(theirs, "b"), 0o755))
	}
	if err != nil {
		t.Fatal(err)
	}
	d := root(t, cfg)
	for i := range 400 {
		op := randomOperation(rng)
		got := op.inTree(d)
		switch {
		case got.errno == Perm:
			return total, refused
		case mounted && (got.errno == Busy || got.errno == XDev):
			refused++
		default:
			total++
			if want := op.onHost(theirs); got != want {
				t.Fatalf("seed %d, operation %d, %v: got %v, want %v\n%s", seed, i, op, got, want, describe(t, theirs, ""))
			}
		}
		ours := describe(t, cfg.Root, "")
		for _, m := range cfg.Mounts {
			ours = append(ours, describe(t, m.Source, m.Target)...)
		}
		slices.Sort(ours)
		if diff := cmp.Diff(describe(t, theirs, ""), ours); diff != "" {
			t.Fatalf("seed %d, operation %d, %v: %s", seed, i, op, diff)
		}
	}
	return total, refused
}

// operation is one call.
type operation struct {
	what     string
	from, to string
	flags    OpenFlags
	// nanos is a time, or what is written.
	nanos uint64
}

func (op operation) String() string {
	return fmt.Sprintf("%s %q %q %+v %d", op.what, op.from, op.to, op.flags, op.nanos)
}

// outcome is what an operation answers.
type outcome struct {
	errno Errno
	text  string
}

func failed(err error) outcome { return outcome{errno: ErrnoOf(err)} }

func randomOperation(rng *rand.Rand) operation {
	whats := []string{
		"mkdir", "mkdir", "rmdir", "unlink", "rename", "link", "symlink", "open", "open", "open", "stat", "lstat", "readlink", "times",
		"ltimes", "write", "read", "list",
	}
	yes := func() bool { return rng.IntN(3) == 0 }
	op := operation{what: whats[rng.IntN(len(whats))], from: randomPath(rng), to: randomPath(rng), nanos: rng.Uint64N(1e18)}
	switch op.what {
	case "open":
		op.flags = OpenFlags{Create: rng.IntN(2) == 0, Exclusive: yes(), Truncate: yes(), Directory: yes(), Read: true, Write: yes()}
	case "write":
		op.flags = OpenFlags{Create: true, Write: true, Append: yes(), Truncate: yes()}
	case "read", "list":
		op.flags = OpenFlags{Read: true, Directory: op.what == "list"}
	}
	op.flags.Follow = rng.IntN(2) == 0
	return op
}

// randomPath goes back no farther than it went, as far as its names tell.
func randomPath(rng *rand.Rand) string {
	var names []string
	depth := 0
	for range rng.IntN(4) {
		if depth > 0 && rng.IntN(4) == 0 {
			names = append(names, "..")
			depth--
			continue
		}
		names = append(names, []string{"a", "b", "c", "."}[rng.IntN(4)])
		if names[len(names)-1] != "." {
			depth++
		}
	}
	path := strings.Join(append(names, []string{"a", "b", "c"}[rng.IntN(3)]), []string{"/", "/", "/", "//", "/./"}[rng.IntN(5)])
	return path + []string{"", "", "", "", "", "", "/", "/.", "//", "/.."}[rng.IntN(10)]
}

// inTree does the operation in a tree.
func (op operation) inTree(d *Dir) outcome {
	switch op.what {
	case "mkdir":
		return failed(d.Mkdir(op.from))
	case "rmdir":
		return failed(d.Rmdir(op.from))
	case "unlink":
		return failed(d.Unlink(op.from))
	case "rename":
		return failed(d.Rename(op.from, d, op.to))
	case "link":
		return failed(d.Link(op.from, d, op.to))
	case "symlink":
		return failed(d.Symlink(op.from, op.to))
	case "times", "ltimes":
		return failed(d.SetTimesPath(op.from, op.what == "times", Times{Mtim: Time{Nanos: op.nanos, How: Set}}))
	case "readlink":
		text, err := d.Readlink(op.from)
		return outcome{ErrnoOf(err), text}
	case "stat", "lstat":
		st, err := d.StatPath(op.from, op.what == "stat")
		return described(st, err)
	}
	f, sub, err := d.Open(op.from, op.flags)
	switch {
	case f != nil:
		return op.use(f.FD(), f.Close)
	case sub != nil && op.what == "list":
		var names []string
		err := sub.ReadDir(0, func(e Entry) bool {
			names = append(names, fmt.Sprint(e.Name, " ", e.Type))
			return true
		})
		slices.Sort(names)
		return outcome{ErrnoOf(errors.Join(err, sub.Close())), strings.Join(names, ",")}
	case sub != nil:
		err = sub.Close()
	}
	return failed(err)
}

// use reads or writes an open file, and closes it.
func (op operation) use(fd int, closeFile func() error) outcome {
	buf, n := make([]byte, 64), 0
	var err error
	switch op.what {
	case "read":
		n, err = unix.Read(fd, buf)
	case "write":
		_, err = unix.Write(fd, strconv.AppendUint(nil, op.nanos, 10))
	}
	return outcome{ErrnoOf(errors.Join(err, closeFile())), string(buf[:max(n, 0)])}
}

// described is the outcome of describing a file; a folder's size and links depend on the host's file system.
func described(st Stat, err error) outcome {
	if err != nil {
		return failed(err)
	}
	if st.Type == TypeDirectory {
		st.Size, st.Nlink = 0, 0
	}
	return outcome{text: fmt.Sprint(st.Type, st.Size, st.Nlink)}
}

// onHost does it beneath a folder of the host.
func (op operation) onHost(root string) outcome {
	from, to := root+"/"+op.from, root+"/"+op.to
	switch op.what {
	case "mkdir":
		return failed(unix.Mkdir(from, 0o777))
	case "rmdir":
		return failed(unix.Rmdir(from))
	case "unlink":
		return failed(unix.Unlink(from))
	case "rename":
		return failed(unix.Rename(from, to))
	case "link":
		return made(unix.Link(from, to), to)
	case "symlink":
		return made(unix.Symlink(op.from, to), to)
	case "times", "ltimes":
		flags := map[string]int{"ltimes": unix.AT_SYMLINK_NOFOLLOW}[op.what]
		times := []unix.Timespec{{Nsec: unix.UTIME_OMIT}, unix.NsecToTimespec(int64(op.nanos))}
		return failed(unix.UtimesNanoAt(unix.AT_FDCWD, from, times, flags))
	case "readlink":
		buf := make([]byte, 100)
		n, err := unix.Readlink(from, buf)
		return outcome{ErrnoOf(err), string(buf[:max(n, 0)])}
	case "stat", "lstat":
		var st unix.Stat_t
		flags := map[string]int{"lstat": unix.AT_SYMLINK_NOFOLLOW}[op.what]
		if err := unix.Fstatat(unix.AT_FDCWD, from, &st, flags); err != nil {
			return described(Stat{}, err)
		}
		return described(statOf(&st), nil)
	}
	return op.openOnHost(from)
}

// made is the outcome of making something other than a folder. The host says that there is a file where the path ends
// with a slash behind one; a tree says what POSIX does, that it is no folder.
func made(err error, path string) outcome {
	var st unix.Stat_t
	if err == unix.EEXIST && strings.HasSuffix(path, "/") {
		if err := unix.Lstat(strings.TrimRight(path, "/"), &st); err == nil && st.Mode&unix.S_IFMT != unix.S_IFDIR {
			return failed(NotDir)
		}
	}
	return failed(err)
}

func (op operation) openOnHost(path string) outcome {
	flags := op.flags.host()
	if op.flags.Follow {
		flags &^= unix.O_NOFOLLOW
	}
	fd, err := unix.Open(path, flags, 0o666)
	if err != nil {
		return failed(err)
	}
	closeFile := func() error { return unix.Close(fd) }
	st, err := fstat(fd)
	switch {
	case err == nil && st.Type != TypeDirectory:
		return op.use(fd, closeFile)
	case err != nil || op.what != "list":
		return failed(errors.Join(err, closeFile()))
	}
	entries, err := os.ReadDir(path)
	names := []string{". 3", ".. 3"}
	for _, e := range entries {
		st, errStat := lstat(fd, e.Name())
		err = errors.Join(err, errStat)
		names = append(names, fmt.Sprint(e.Name(), " ", st.Type))
	}
	slices.Sort(names)
	return outcome{ErrnoOf(errors.Join(err, closeFile())), strings.Join(names, ",")}
}

// describe lists a folder with all that is in it, beneath a path of the guest.
func describe(t *testing.T, dir, at string) []string {
	t.Helper()
	var lines []string
	err := filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		text, _ := os.Readlink(p)
		mtim := ""
		var st unix.Stat_t
		// Only times that an operation has set are comparable.
		if unix.Lstat(p, &st) == nil && st.Mtim.Nano() < 1e18 {
			mtim = fmt.Sprint(st.Mtim.Nano())
		}
		lines = append(lines, fmt.Sprint(at+strings.TrimPrefix(p, dir), " ", e.Type(), " ", text, " ", mtim))
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	slices.Sort(lines)
	return lines
}
