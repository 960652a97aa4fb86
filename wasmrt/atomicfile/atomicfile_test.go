package atomicfile_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"edgepod/wasmrt/atomicfile"
)

func TestReadersSeeWholeFilesOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	texts := []string{strings.Repeat("a", 100_000), strings.Repeat("b", 50_000)}
	if err := atomicfile.Write(path, []byte(texts[0]), 0o600, false); err != nil {
		t.Fatal(err)
	}
	var writers sync.WaitGroup
	for _, text := range texts {
		writers.Go(func() {
			for range 100 {
				if err := atomicfile.Write(path, []byte(text), 0o600, false); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 200 {
		data, err := os.ReadFile(path)
		if err != nil || string(data) != texts[0] && string(data) != texts[1] {
			t.Fatalf("read %d bytes, %v", len(data), err)
		}
	}
	writers.Wait()
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("left in the folder: %v, %v; want the file alone", entries, err)
	}
}

func TestReadJSONTellsCorruptFromMissing(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(file("target", `{"a":1}`), link); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		path string
		want error
	}{
		"whole":   {file("whole", `{"a":1}`), nil},
		"empty":   {file("empty", ""), atomicfile.ErrCorrupt},
		"torn":    {file("torn", `{"a"`), atomicfile.ErrCorrupt},
		"large":   {file("large", strings.Repeat(" ", 200)+"{}"), atomicfile.ErrCorrupt},
		"link":    {link, atomicfile.ErrCorrupt},
		"folder":  {dir, atomicfile.ErrCorrupt},
		"missing": {filepath.Join(dir, "missing"), fs.ErrNotExist},
	} {
		var v map[string]int
		if err := atomicfile.ReadJSON(tt.path, &v, 100); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
	}
}

func TestWriteJSONIsReadBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := atomicfile.WriteJSON(path, map[string]int{"a": 1}, true); err != nil {
		t.Fatal(err)
	}
	var got map[string]int
	if err := atomicfile.ReadJSON(path, &got, 100); err != nil || got["a"] != 1 {
		t.Errorf("read back: %v, %v", got, err)
	}
	if err := atomicfile.WriteJSON(path, func() {}, true); err == nil {
		t.Error("a function was written as JSON")
	}
}
