// Command files uses files, clocks and goroutines as a Go program does, and prints what it finds.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

func main() {
	if err := errors.Join(files(), folders(), links(), waits(), input()); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("all well")
	os.Exit(9)
}

func check(ok bool, format string, args ...any) error {
	if ok {
		return nil
	}
	return fmt.Errorf(format, args...)
}

func files() error {
	wd, err := os.Getwd()
	if err != nil || wd != "/dir" {
		return fmt.Errorf("working folder is %q, %v", wd, err)
	}
	inner, err := os.ReadFile("inner")
	if err != nil || string(inner) != "dir/inner" {
		return fmt.Errorf("relative file: %q, %v", inner, err)
	}
	if err := os.WriteFile("/new", []byte("hello"), 0o644); err != nil {
		return err
	}
	f, err := os.OpenFile("../new", os.O_APPEND|os.O_RDWR, 0)
	if err != nil {
		return err
	}
	_, werr := f.WriteString(" world")
	b := make([]byte, 5)
	_, rerr := f.ReadAt(b, 6)
	st, serr := f.Stat()
	if err := errors.Join(werr, rerr, serr, f.Sync(), f.Truncate(3), f.Close()); err != nil {
		return err
	}
	when := time.Unix(12345, 678)
	if err := os.Chtimes("/new", when, when); err != nil {
		return err
	}
	after, err := os.Stat("/new")
	if err != nil {
		return err
	}
	return errors.Join(
		check(string(b) == "world" && st.Size() == 11, "read %q of %d bytes", b, st.Size()),
		check(after.Size() == 3 && after.ModTime().Equal(when), "%d bytes at %v", after.Size(), after.ModTime()),
	)
}

func folders() error {
	if err := os.MkdirAll("/a/b/c", 0o755); err != nil {
		return err
	}
	for i := range 200 {
		if err := os.WriteFile(fmt.Sprintf("/a/b/file%d", i), nil, 0o644); err != nil {
			return err
		}
	}
	entries, err := os.ReadDir("/a/b")
	if err != nil {
		return err
	}
	var walked []string
	err = filepath.WalkDir("/", func(p string, _ fs.DirEntry, err error) error {
		if !strings.HasPrefix(p, "/a/b/file") {
			walked = append(walked, p)
		}
		return err
	})
	want := "/ /a /a/b /a/b/c /dir /dir/inner /file /new /vol /vol/one"
	return errors.Join(err,
		check(len(entries) == 201, "%d entries", len(entries)),
		check(strings.Join(walked, " ") == want, "walked %v", walked),
		os.Rename("/a/b/file1", "/dir/file1"), os.Remove("/dir/file1"), os.RemoveAll("/a"),
		check(errors.Is(os.Rename("/new", "/vol/new"), syscall.EXDEV), "moved to another mount"),
	)
}

func links() error {
	if err := os.Symlink("../new", "link"); err != nil {
		return err
	}
	text, err := os.Readlink("link")
	if err != nil || text != "../new" {
		return fmt.Errorf("link is %q, %v", text, err)
	}
	b, err := os.ReadFile("link")
	if err != nil || string(b) != "hel" {
		return fmt.Errorf("through a link: %q, %v", b, err)
	}
	if err := errors.Join(os.Remove("link"), os.Symlink("../../../etc/passwd", "out")); err != nil {
		return err
	}
	_, err = os.ReadFile("out")
	return errors.Join(check(errors.Is(err, syscall.EPERM), "through a link that leads out: %v", err), os.Remove("out"))
}

func waits() error {
	var wg sync.WaitGroup
	start := time.Now()
	for i := range 20 {
		wg.Go(func() { time.Sleep(time.Duration(i) * 100 * time.Microsecond) })
	}
	wg.Wait()
	return check(time.Since(start) >= 1900*time.Microsecond, "slept %v", time.Since(start))
}

func input() error {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		fmt.Fprintln(os.Stderr, "read", lines.Text())
	}
	return lines.Err()
}
