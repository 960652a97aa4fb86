package process

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"testing"
)

func TestProgramIsTheConfiguredOneElseTheEmbeddedElseThisOne(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "bin")
	if got, err := program("/some/program", dir); err != nil || got != "/some/program" {
		t.Errorf("configured: %q, %v", got, err)
	}
	got, err := program("", dir)
	if err != nil {
		t.Fatal(err)
	}
	zipped, err := embedded.ReadFile("embed/child.gz")
	if err != nil {
		if got != self {
			t.Errorf("without an embedded program: %q, want %q", got, self)
		}
		return
	}
	r, err := gzip.NewReader(bytes.NewReader(zipped))
	if err != nil {
		t.Fatal(err)
	}
	want, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(got)
	if err != nil || filepath.Dir(got) != dir || !bytes.Equal(data, want) {
		t.Errorf("embedded: %q with %d bytes, %v; want %d bytes beneath %s", got, len(data), err, len(want), dir)
	}
	if again, err := program("", dir); err != nil || again != got {
		t.Errorf("second time: %q, %v; want %q", again, err, got)
	}
}

func TestPagesLeaveRoomForTheEngine(t *testing.T) {
	const mib = 1 << 20
	for _, tt := range []struct {
		memory, code int64
		want         uint32
	}{
		{memory: 1, want: 1},
		{memory: 8 * mib, want: 64},
		{memory: 64 * mib, want: 56 * 16},
		{memory: 64 * mib, code: 9 * mib, want: 38 * 16},
		{memory: 1 << 40, want: maxPages},
	} {
		if got := pages(tt.memory, tt.code); got != tt.want {
			t.Errorf("pages(%d MiB, %d MiB) = %d, want %d", tt.memory/mib, tt.code/mib, got, tt.want)
		}
	}
}

func TestIDsThatAreNoFileNamesAreRefused(t *testing.T) {
	for id, want := range map[string]bool{
		"c-0": true, "a.b_C": true, "": false, ".": false, "..": false, ".x": false, "a/b": false, "a b": false, "a\x00": false, "ä": false,
	} {
		if got := validID(id); got != want {
			t.Errorf("validID(%q) = %v, want %v", id, got, want)
		}
	}
}
