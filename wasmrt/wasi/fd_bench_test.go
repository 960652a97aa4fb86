//go:build linux

package wasi

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	guestfs "edgepod/wasmrt/fs"
)

// BenchmarkFileCallsOfGuests does the same on the same folder in a guest and natively, by turns, and reports the time of
// one in a guest (ns/op, as for any benchmark), natively, and their ratio. Starting the guest is not counted.
func BenchmarkFileCallsOfGuests(b *testing.B) {
	wasm := buildC(b, "filecalls")
	dir := benchFolder(b)
	for _, c := range nativeCalls(b, dir) {
		b.Run(c.kind, func(b *testing.B) {
			guest, native := time.Duration(0), time.Duration(0)
			const turns = 4
			for range turns {
				n := b.N/turns + 1
				guest += runCalls(b, wasm, dir, c.kind, n) / time.Duration(n)
				start := time.Now()
				for range n {
					if err := c.call(); err != nil {
						b.Fatal(err)
					}
				}
				native += time.Since(start) / time.Duration(n)
			}
			b.ReportMetric(float64(guest)/turns, "ns/op")
			b.ReportMetric(float64(native)/turns, "native-ns/op")
			b.ReportMetric(float64(guest)/float64(native), "ratio")
		})
	}
}

// benchFolder makes a folder with a file, one three folders deep, and a folder of 10,000.
func benchFolder(b *testing.B) string {
	b.Helper()
	dir := b.TempDir()
	content := make([]byte, 4096)
	err := errors.Join(os.MkdirAll(filepath.Join(dir, "a/b/c"), 0o755), os.Mkdir(filepath.Join(dir, "many"), 0o755),
		os.WriteFile(filepath.Join(dir, "file"), content, 0o644), os.WriteFile(filepath.Join(dir, "a/b/c/file"), content, 0o644))
	for i := range 10000 {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, "many", "entry-"+strconv.Itoa(i)), nil, 0o644))
	}
	if err != nil {
		b.Fatal(err)
	}
	return dir
}

// nativeCall is one kind of call done natively.
type nativeCall struct {
	kind string
	call func() error
}

func nativeCalls(b *testing.B, dir string) []nativeCall {
	b.Helper()
	f, err := os.OpenFile(filepath.Join(dir, "file"), os.O_RDWR, 0)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = f.Close() })
	buf := make([]byte, 4096)
	open := func(name string) func() error {
		return func() error {
			f, err := os.Open(filepath.Join(dir, name))
			if err != nil {
				return err
			}
			return f.Close()
		}
	}
	stat := func(name string) func() error {
		return func() error {
			_, err := os.Stat(filepath.Join(dir, name))
			return err
		}
	}
	return []nativeCall{
		{"open", open("file")},
		{"open-deep", open("a/b/c/file")},
		{"read", func() error { _, err := f.ReadAt(buf, 0); return err }},
		{"write", func() error { _, err := f.WriteAt(buf, 0); return err }},
		{"stat", stat("file")},
		{"stat-deep", stat("a/b/c/file")},
		{"stat-missing", func() error {
			if err := stat("none")(); !errors.Is(err, fs.ErrNotExist) {
				return errors.New("there is such a file")
			}
			return nil
		}},
		{"readdir", func() error { _, err := os.ReadDir(filepath.Join(dir, "many")); return err }},
	}
}

// runCalls runs the guest and returns how long its calls took.
func runCalls(b *testing.B, wasm []byte, dir, kind string, n int) time.Duration {
	b.Helper()
	var out, errs bytes.Buffer
	h := newHost(b, Config{Args: []string{"filecalls", kind, strconv.Itoa(n)}, Stdout: &out, Stderr: &errs}, guestfs.Config{Root: dir})
	if code, _, err := ExitCode(start(b, wasm, h)()); code != 0 || err != nil {
		b.Fatalf("code %d, %v: %s", code, err, &errs)
	}
	took, err := strconv.ParseInt(out.String(), 10, 64)
	if err != nil {
		b.Fatal(err)
	}
	return time.Duration(took)
}
