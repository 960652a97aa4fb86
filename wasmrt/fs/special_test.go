//go:build linux

package fs

import (
	"errors"
	"net"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestFilesThatAreNone(t *testing.T) {
	dir := host(t, "file")
	if err := unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, "socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	d := root(t, Config{Root: dir, Mounts: []Mount{
		{Source: "/dev/null", Target: "/null"}, {Source: "/dev", Target: "/dev", ReadOnly: true},
	}})
	for _, c := range []struct {
		path string
		typ  FileType
		err  error
	}{
		// A pipe is opened without a writer, and does not wait for one.
		{"pipe", TypeUnknown, nil},
		{"null", TypeCharacterDevice, nil},
		{"file", TypeRegular, nil},
		{"socket", 0, NxIO},
		{"dev/null", 0, Acces},
	} {
		f, _, err := d.Open(c.path, OpenFlags{Read: true})
		if !errors.Is(err, c.err) {
			t.Errorf("open %s: got %v, want %v", c.path, err, c.err)
		}
		if err != nil {
			continue
		}
		if f.Type() != c.typ {
			t.Errorf("%s has type %d, want %d", c.path, f.Type(), c.typ)
		}
		st, err := f.Stat()
		if err = errors.Join(err, f.Sync(), f.DataSync(), f.Close()); err != nil || st.Type != c.typ {
			t.Errorf("%s: type %d, %v", c.path, st.Type, err)
		}
	}
	types := map[string]FileType{}
	if err := d.ReadDir(0, func(e Entry) bool { types[e.Name] = e.Type; return true }); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]FileType{
		"pipe": TypeUnknown, "socket": TypeSocketStream, "null": TypeCharacterDevice, "dev": TypeDirectory, "file": TypeRegular,
	} {
		if types[name] != want {
			t.Errorf("%s is listed with type %d, want %d", name, types[name], want)
		}
	}
}

func TestTreeWithoutRoot(t *testing.T) {
	d := root(t, Config{Mounts: []Mount{{Source: host(t, "v"), Target: "/a/b"}}})
	now := Times{Mtim: Time{How: Now}}
	for what, err := range map[string]error{
		"mkdir": d.Mkdir("new"), "mkdir inside": d.Mkdir("a/new"), "symlink": d.Symlink("x", "new"), "unlink": d.Unlink("a/none"),
		"times": d.SetTimes(now), "times of a": d.SetTimesPath("a", false, now),
	} {
		if err != ROFS {
			t.Errorf("%s: got %v, want %v", what, err, ROFS)
		}
	}
	_, _, err := d.Open("new", OpenFlags{Create: true, Write: true})
	if err != ROFS {
		t.Errorf("create: got %v, want %v", err, ROFS)
	}
	if _, err := d.Readlink("none"); err != NoEnt {
		t.Errorf("readlink: got %v, want %v", err, NoEnt)
	}
	st, err := d.Stat()
	if err != nil || st.Type != TypeDirectory || st.Ino == 0 {
		t.Errorf("root is %+v, %v", st, err)
	}
	if err := errors.Join(d.Mkdir("a/b/new"), d.Sync(), d.Rmdir("a/b/new")); err != nil {
		t.Error(err)
	}
}
