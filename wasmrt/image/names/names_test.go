package names_test

import (
	"bytes"
	"encoding/binary"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"edgepod/wasmrt/image/names"
)

const two = "\x00\x02\x01m\x01\x09\x02\x00\x01f\x05\x03two"

func TestNamesAreFound(t *testing.T) {
	for content, want := range map[string]map[uint32]string{
		two: {0: "f", 5: "two"},
		// Cut off, with a length beyond the end, and with numbers that are none.
		two[:11]:                               {0: "f"},
		two[:9]:                                {},
		two[:3]:                                nil,
		"\x01\xff\xff\xff\x0f\x01":             {},
		"\x01\x07\x02\x00\x01f\x05\x09t":       {0: "f"},
		"\x01\x09\x02\xff\xff\xff\xff\xff\x0f": {},
		"\x01\x03\x02\x00\x01f\x05\x03two":     {},
		"":                                     nil,
	} {
		got := names.Find(strings.NewReader(content), []uint32{5, 0, 7, 5})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("names of %q: %s", content, diff)
		}
	}
}

// A container has no memory to spare for names when it ends.
func TestManyNamesTakeLittleMemory(t *testing.T) {
	const count, long = 300_000, 1 << 20
	content := binary.AppendUvarint(nil, count+1)
	for i := range uint64(count) {
		content = append(binary.AppendUvarint(content, i), "\x08function"...)
	}
	content = binary.AppendUvarint(binary.AppendUvarint(content, count), long)
	content = append(content, bytes.Repeat([]byte("n"), long)...)
	content = append(binary.AppendUvarint([]byte{1}, uint64(len(content))), content...)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got := names.Find(bytes.NewReader(content), []uint32{7, count - 1, count})
	runtime.ReadMemStats(&after)
	if got[7] != "function" || got[count-1] != "function" || got[count] != strings.Repeat("n", 1<<10) {
		t.Errorf("found %.100v", got)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 256<<10 {
		t.Errorf("%d KiB were allocated for %d KiB of names", took>>10, len(content)>>10)
	}
}

func FuzzNames(f *testing.F) {
	f.Add([]byte(two), uint32(5))
	f.Fuzz(func(_ *testing.T, content []byte, index uint32) {
		names.Find(bytes.NewReader(content), []uint32{0, index})
	})
}
