//go:build linux

package fs

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestOperationsAreTheHosts does the same random operations in a tree and, by the host's own paths, in a second folder.
// Both must answer the same and look the same, but for paths that lead out, which end the round.
func TestOperationsAreTheHosts(t *testing.T) {
	total := 0
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 7))
		ours := t.TempDir()
		// Paths of the host's side may lead out, but not farther than the test's own folder.
		theirs := filepath.Join(t.TempDir(), strings.Repeat("up/", 12), "root")
		if err := os.MkdirAll(theirs, 0o755); err != nil {
			t.Fatal(err)
		}
		d := root(t, Config{Root: ours})
		for i := range 400 {
			op := randomOperation(rng)
			got := op.inTree(d)
			if got == Perm {
				break
			}
			total++
			if want := op.onHost(theirs); got != want {
				t.Fatalf("seed %d, operation %d, %v: got %v, want %v\n%s", seed, i, op, got, want, describe(t, theirs))
			}
			if a, b := describe(t, ours), describe(t, theirs); a != b {
				t.Fatalf("seed %d, operation %d, %v: got\n%s\nwant\n%s", seed, i, op, a, b)
			}
		}
	}
	if total < 3000 {
		t.Errorf("only %d operations were compared", total)
	}
}

// operation is one call.
type operation struct {
	what     string
	from, to string
	flags    OpenFlags
}

func (op operation) String() string {
	return fmt.Sprintf("%s %q %q %+v", op.what, op.from, op.to, op.flags)
}

func randomOperation(rng *rand.Rand) operation {
	whats := []string{"mkdir", "mkdir", "rmdir", "unlink", "rename", "link", "symlink", "open", "open", "open", "stat", "lstat", "readlink"}
	yes := func() bool { return rng.IntN(3) == 0 }
	return operation{
		what: whats[rng.IntN(len(whats))], from: randomPath(rng), to: randomPath(rng),
		flags: OpenFlags{
			Follow: rng.IntN(2) == 0, Create: rng.IntN(2) == 0, Exclusive: yes(), Truncate: yes(), Directory: yes(), Read: true, Write: yes(),
		},
	}
}

// randomPath ends in a name, and goes back no farther than it went, as far as its names tell.
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
	return strings.Join(append(names, []string{"a", "b", "c"}[rng.IntN(3)]), "/")
}

// inTree does the operation in a tree.
func (op operation) inTree(d *Dir) Errno {
	var err error
	switch op.what {
	case "mkdir":
		err = d.Mkdir(op.from)
	case "rmdir":
		err = d.Rmdir(op.from)
	case "unlink":
		err = d.Unlink(op.from)
	case "rename":
		err = d.Rename(op.from, d, op.to)
	case "link":
		err = d.Link(op.from, d, op.to)
	case "symlink":
		err = d.Symlink(op.from, op.to)
	case "stat", "lstat":
		_, err = d.StatPath(op.from, op.what == "stat")
	case "readlink":
		_, err = d.Readlink(op.from)
	case "open":
		var f *File
		var sub *Dir
		f, sub, err = d.Open(op.from, op.flags)
		switch {
		case f != nil:
			err = f.Close()
		case sub != nil:
			err = sub.Close()
		}
	}
	return ErrnoOf(err)
}

// onHost does it beneath a folder of the host.
func (op operation) onHost(root string) Errno {
	from, to := root+"/"+op.from, root+"/"+op.to
	var err error
	switch op.what {
	case "mkdir":
		err = unix.Mkdir(from, 0o777)
	case "rmdir":
		err = unix.Rmdir(from)
	case "unlink":
		err = unix.Unlink(from)
	case "rename":
		err = unix.Rename(from, to)
	case "link":
		err = unix.Link(from, to)
	case "symlink":
		err = unix.Symlink(op.from, to)
	case "stat":
		err = unix.Stat(from, new(unix.Stat_t))
	case "lstat":
		err = unix.Lstat(from, new(unix.Stat_t))
	case "readlink":
		_, err = unix.Readlink(from, make([]byte, 100))
	case "open":
		flags := op.flags.host()
		if op.flags.Follow {
			flags &^= unix.O_NOFOLLOW
		}
		var fd int
		if fd, err = unix.Open(from, flags, 0o666); err == nil {
			err = unix.Close(fd)
		}
	}
	return ErrnoOf(err)
}

// describe lists a folder with all that is in it.
func describe(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		text, _ := os.Readlink(p)
		fmt.Fprintln(&b, strings.TrimPrefix(p, dir), e.Type(), text)
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return b.String()
}
