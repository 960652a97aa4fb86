package podlog_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"edgepod/server/agent/podlog"
)

// openRoot makes a folder with the files given and returns it as a root.
func openRoot(t testing.TB, files map[string]string) *os.Root {
	t.Helper()
	dir := t.TempDir()
	for name, data := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return root
}

func record(second int, stream, tag, text string) string {
	return fmt.Sprintf("2026-01-02T12:00:%02d.000000001Z %s %s %s\n", second, stream, tag, text)
}

func number(n int64) *int64 { return &n }

func TestCopyPrintsWhatIsAskedFor(t *testing.T) {
	root := openRoot(t, map[string]string{
		"c/0.log.2": record(1, "stdout", "F", "one"),
		"c/0.log.1": record(2, "stdout", "F", "two") + record(3, "stderr", "F", "three"),
		"c/0.log":   record(4, "stdout", "P", "fo") + record(5, "stdout", "F", "ur") + "rubbish\n\n" + record(6, "stdout", "F", ""),
		"c/1.log":   record(1, "stdout", "F", "whole") + "2026-01-02T12:00:02Z stdout F cut of",
		"c/2.log":   "",
	})
	for name, tt := range map[string]struct {
		file    string
		options podlog.Options
		want    string
	}{
		"all":               {"c/0.log", podlog.Options{}, "one\ntwo\nthree\nfour\n\n"},
		"timestamps":        {"c/0.log.2", podlog.Options{Timestamps: true}, "2026-01-02T12:00:01.000000001Z one\n"},
		"timestamps, parts": {"c/0.log", podlog.Options{Timestamps: true, TailLines: number(5)}, "2026-01-02T12:00:04.000000001Z four\n2026-01-02T12:00:06.000000001Z \n"},
		"since":             {"c/0.log", podlog.Options{Since: time.Date(2026, 1, 2, 12, 0, 3, 0, time.UTC)}, "three\nfour\n\n"},
		"stderr":            {"c/0.log", podlog.Options{Stream: "stderr"}, "three\n"},
		"limit":             {"c/0.log", podlog.Options{LimitBytes: number(6)}, "one\ntw"},
		"tail none":         {"c/0.log", podlog.Options{TailLines: number(0)}, ""},
		"tail one":          {"c/0.log", podlog.Options{TailLines: number(1)}, "\n"},
		"tail in the past":  {"c/0.log", podlog.Options{TailLines: number(6)}, "three\nfour\n\n"},
		"tail of too many":  {"c/0.log", podlog.Options{TailLines: number(100)}, "one\ntwo\nthree\nfour\n\n"},
		"cut off":           {"c/1.log", podlog.Options{}, "whole\ncut of\n"},
		"empty":             {"c/2.log", podlog.Options{TailLines: number(3)}, ""},
		"missing":           {"c/9.log", podlog.Options{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if err := podlog.Copy(t.Context(), &out, root, tt.file, tt.options); err != nil || out.String() != tt.want {
				t.Errorf("got %q, %v; want %q", out.String(), err, tt.want)
			}
		})
	}
}

func TestTailAgreesWithAllLines(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		files := map[string]string{}
		var lines []string
		for i := 3; i >= 0; i-- {
			var text strings.Builder
			for range r.IntN(400) {
				line := strings.Repeat("x", r.IntN(400)) + fmt.Sprint(len(lines))
				lines = append(lines, line)
				text.WriteString(record(1, "stdout", "F", line))
			}
			name := "0.log"
			if i > 0 {
				name = fmt.Sprintf("0.log.%d", i)
			}
			files[name] = text.String()
		}
		root := openRoot(t, files)
		n := r.IntN(len(lines) + 5)
		want := strings.Join(append(lines[max(0, len(lines)-n):], ""), "\n")
		var out bytes.Buffer
		if err := podlog.Copy(t.Context(), &out, root, "0.log", podlog.Options{TailLines: number(int64(n))}); err != nil || out.String() != want {
			t.Fatalf("the last %d of %d lines: got %d bytes, %v; want %d", n, len(lines), out.Len(), err, len(want))
		}
	}
}

// safeBuffer can be read while it is written.
type safeBuffer struct {
	mu   sync.Mutex
	data bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.data.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.data.String()
}

func TestFollowLosesAndDoublesNothingOverRotations(t *testing.T) {
	usual := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(usual)
	// With one processor the reader falls behind by many rotations at a time.
	for round := range 10 {
		runtime.GOMAXPROCS(1 + round%2*(usual-1))
		followRotations(t)
	}
}

// followRotations follows a log whose files are rotated as fast as that goes.
func followRotations(t *testing.T) {
	t.Helper()
	root := openRoot(t, nil)
	path := filepath.Join(root.Name(), "0.log")
	var out safeBuffer
	done := make(chan struct{})
	ended := make(chan error, 1)
	go func() { ended <- podlog.Copy(t.Context(), &out, root, "0.log", podlog.Options{Follow: done}) }()
	var want strings.Builder
	for turn := range 40 {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 50 {
			line := fmt.Sprintf("%d-%d", turn, i)
			want.WriteString(line + "\n")
			if _, err := f.WriteString(record(1, "stdout", "F", line)); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		// A writer that keeps many files rotates as fast as it likes; nothing that is still there is missed.
		for i := 45; i >= 0; i-- {
			from := path
			if i > 0 {
				from = fmt.Sprintf("%s.%d", path, i)
			}
			if err := os.Rename(from, fmt.Sprintf("%s.%d", path, i+1)); err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
		}
	}
	close(done)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if out.String() != want.String() {
		t.Errorf("got %d bytes, want %d", len(out.String()), want.Len())
	}
}

func TestFollowEndsWithItsReader(t *testing.T) {
	root := openRoot(t, map[string]string{"0.log": record(1, "stdout", "F", "one")})
	ctx, cancel := context.WithCancel(t.Context())
	var out safeBuffer
	ended := make(chan error, 1)
	go func() { ended <- podlog.Copy(ctx, &out, root, "0.log", podlog.Options{Follow: make(chan struct{})}) }()
	cancel()
	if err := <-ended; err == nil {
		t.Error("no error after the reader went away")
	}
}

func TestLinksAndOtherThanPlainFilesAreNotRead(t *testing.T) {
	root := openRoot(t, map[string]string{"secret": record(1, "stdout", "F", "secret"), "d/0.log": record(1, "stdout", "F", "secret")})
	for name, target := range map[string]string{"link.log": "secret", "linked": "d"} {
		if err := os.Symlink(target, filepath.Join(root.Name(), name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"link.log", "linked/0.log", "d", "../x"} {
		var out bytes.Buffer
		if err := podlog.Copy(t.Context(), &out, root, name, podlog.Options{}); err == nil || out.Len() > 0 {
			t.Errorf("%s: %q, %v; want an error alone", name, out.String(), err)
		}
	}
}

func FuzzCopyTakesAnyBytes(f *testing.F) {
	f.Add([]byte(record(1, "stdout", "F", "x")), int64(1))
	f.Add([]byte("\n\n  \n F P"), int64(2))
	f.Fuzz(func(t *testing.T, data []byte, lines int64) {
		root := openRoot(t, map[string]string{"0.log": string(data)})
		var out bytes.Buffer
		if err := podlog.Copy(t.Context(), &out, root, "0.log", podlog.Options{TailLines: &lines, Timestamps: true}); err != nil {
			t.Errorf("copy: %v", err)
		}
	})
}
