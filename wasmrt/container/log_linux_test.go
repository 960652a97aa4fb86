package container

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"edgepod/wasmrt/sandbox"
)

func openTestLog(t *testing.T, spec sandbox.Log) (*Log, string) {
	t.Helper()
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	l, err := OpenLog(root, "0.log", spec)
	if err != nil {
		t.Fatal(err)
	}
	return l, filepath.Join(dir, "0.log")
}

// content joins a log's records of a stream again, oldest file first.
func content(t *testing.T, path, stream string, files int) string {
	t.Helper()
	var b strings.Builder
	for i := files; i >= 0; i-- {
		name := path
		if i > 0 {
			name = fmt.Sprintf("%s.%d", path, i)
		}
		data, err := os.ReadFile(name)
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(data)) {
			f := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 4)
			if len(f) != 4 || f[2] != "F" && f[2] != "P" || len(f[3]) > maxLine {
				t.Fatalf("record %.80q is not in the CRI format", line)
			}
			if f[1] != stream {
				continue
			}
			b.WriteString(f[3])
			if f[2] == "F" {
				b.WriteByte('\n')
			}
		}
	}
	return b.String()
}

func TestLogKeepsEveryByteHoweverItIsWritten(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		l, path := openTestLog(t, sandbox.Log{MaxBytes: 60_000, MaxFiles: 100})
		want := map[string]*strings.Builder{"stdout": {}, "stderr": {}}
		for range 200 {
			stream := []string{"stdout", "stderr"}[r.IntN(2)]
			text := strings.Repeat(string(rune('a'+r.IntN(26))), r.IntN(400))
			if r.IntN(20) == 0 {
				text = strings.Repeat("x", maxLine+r.IntN(3)-1)
			}
			if r.IntN(2) == 0 {
				text += "\n"
			}
			want[stream].WriteString(text)
			if n, err := io.WriteString(l.Stream(stream), text); n != len(text) || err != nil {
				t.Fatalf("write: %d, %v", n, err)
			}
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		for stream, b := range want {
			if got := content(t, path, stream, 100); got != b.String() {
				t.Fatalf("seed %d, %s: %d bytes, want %d", seed, stream, len(got), b.Len())
			}
		}
	}
}

func TestLogNeverGrowsPastItsBound(t *testing.T) {
	l, path := openTestLog(t, sandbox.Log{MaxBytes: 10_000, MaxFiles: 3})
	var writers sync.WaitGroup
	for range 4 {
		writers.Go(func() {
			for i := range 500 {
				fmt.Fprintf(l.Stream("stdout"), "line %d %s\n", i, strings.Repeat("y", i%300))
			}
		})
	}
	writers.Wait()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(path + "*")
	if err != nil || len(files) != 3 {
		t.Errorf("files: %v, %v; want 3", files, err)
	}
	for _, f := range files {
		if info, err := os.Stat(f); err != nil || info.Size() > 10_000 {
			t.Errorf("%s has %d bytes, %v; want at most 10000", f, info.Size(), err)
		}
	}
}

func TestLogTailIsBounded(t *testing.T) {
	l, _ := openTestLog(t, sandbox.Log{})
	for i := range 1000 {
		fmt.Fprintf(l.Stream("stderr"), "%d\n", i)
	}
	tail := l.Tail()
	if lines := strings.Count(tail, "\n"); lines != tailLines || len(tail) > tailBytes || !strings.HasSuffix(tail, "998\n999\n") {
		t.Errorf("tail of %d lines: %q", lines, tail)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(l.Stream("stdout"), "after its end\n"); err != nil {
		t.Errorf("write to a closed log: %v", err)
	}
}
