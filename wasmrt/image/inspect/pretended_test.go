package inspect_test

import (
	"encoding/binary"
	"strings"
	"testing"
)

// goProgram is a module with what tells a program in Go, imports of preview 1 and a piece of data.
func goProgram(data string, names ...string) []byte {
	var imported [][2]string
	for _, name := range names {
		imported = append(imported, [2]string{"wasi_snapshot_preview1", name})
	}
	piece := append(binary.AppendUvarint([]byte{1, 1}, uint64(len(data))), data...)
	return wasm(custom("go:buildid", "x"), sec(1, 1, 0x60, 0, 0), imports(imported...), sec(3, 1, 0), export("_start"),
		sec(10, 1, 2, 0, 0x0b), sec(11, piece...))
}

func TestAGoProgramWithoutSocketsIsTold(t *testing.T) {
	const fake = "net.(*fakeNetFD).accept\x00"
	for name, c := range map[string]struct {
		module []byte
		want   bool
	}{
		"no network":                   {goProgram("main.main", "fd_write"), false},
		"the pretended one":            {goProgram(fake, "sock_accept", "sock_shutdown"), true},
		"a listener that is handed on": {goProgram(fake+"net.FileListener", "sock_accept"), false},
		"calls beyond preview 1":       {goProgram(fake, "sock_accept", "sock_open"), false},
		"another language":             {wasm(custom("producers", "\x00"), sec(11, append([]byte{1, 1, byte(len(fake))}, fake...)...)), false},
	} {
		if got := strings.Contains(describe(t, c.module).Note, "edgepod build"); got != c.want {
			t.Errorf("%s: note %v, want %v", name, got, c.want)
		}
	}
	// Wherever the name is, also across the pieces in which the data is read.
	for at := 64<<10 - 2*len(fake); at < 64<<10+len(fake); at++ {
		if describe(t, goProgram(strings.Repeat(".", at)+fake+strings.Repeat(".", 70_000), "sock_accept")).Note == "" {
			t.Fatalf("a name at %d was not seen", at)
		}
	}
}
