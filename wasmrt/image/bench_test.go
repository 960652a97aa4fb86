package image

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"edgepod/wasmrt/sandbox"
)

// BenchmarkPull pulls images of a module of 20 MiB from a registry in this process into an empty store: alone, and among files
// that are packed.
func BenchmarkPull(b *testing.B) {
	h := newHub(b)
	noise := make([]byte, 20<<20)
	for i := range noise {
		noise[i] = byte(rand.N(64))
	}
	// One passive segment.
	wasm := command(sec(11, slices.Concat([]byte{1, 1}, binary.AppendUvarint(nil, uint64(len(noise))), noise)...))
	h.artifact("module", "v1", ConfigType, ModuleType, wasm)
	files := map[string]string{"m.wasm": string(wasm)}
	for i := range 1000 {
		files[fmt.Sprintf("lib/python/file%d.py", i)] = string(bytes.Repeat([]byte("print('hello')\n"), 300))
	}
	h.picture("files", "v1", picture{config: v1.ConfigFile{OS: "wasi", Architecture: "wasm"}, layers: [][]byte{gzipped(b, tarOf(b, files))}})
	for _, repo := range []string{"module", "files"} {
		b.Run(repo, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(wasm)))
			for b.Loop() {
				s, err := Open(Config{Dir: b.TempDir(), Offered: offers})
				if err != nil {
					b.Fatal(err)
				}
				if _, err := s.Resolve(b.Context(), sandbox.PullRequest{Ref: h.ref("%s:v1", repo), Policy: sandbox.PullIfNotPresent}); err != nil {
					b.Fatal(err)
				}
				if err := s.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkPresent resolves an image that is here, as each start of a container does.
func BenchmarkPresent(b *testing.B) {
	h := newHub(b)
	h.artifact("app", "v1", ConfigType, ModuleType, command())
	s, err := Open(Config{Dir: b.TempDir(), Offered: offers})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Resolve(b.Context(), sandbox.PullRequest{Ref: h.ref("app:v1"), Policy: sandbox.PullIfNotPresent}); err != nil {
			b.Fatal(err)
		}
	}
}
