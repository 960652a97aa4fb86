// Package imagetest makes the bytes of modules and layers for tests, sound ones and others.
package imagetest

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"slices"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// Header begins every core module.
const Header = "\x00asm\x01\x00\x00\x00"

// Module is a core module of sections.
func Module(sections ...[]byte) []byte { return append([]byte(Header), slices.Concat(sections...)...) }

// Section is one section with its header.
func Section(id byte, payload ...byte) []byte {
	return append(binary.AppendUvarint([]byte{id}, uint64(len(payload))), payload...)
}

// Text is a name with its length before it.
func Text(s string) []byte { return append(binary.AppendUvarint(nil, uint64(len(s))), s...) }

// Custom is a custom section.
func Custom(name, content string) []byte { return Section(0, append(Text(name), content...)...) }

// Component wraps core modules.
func Component(modules ...[]byte) []byte {
	out := []byte("\x00asm\x0d\x00\x01\x00")
	for _, m := range modules {
		out = append(out, Section(1, m...)...)
	}
	return out
}

// Gzip packs data.
func Gzip(t testing.TB, data []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// Zstd packs data.
func Zstd(t testing.TB, data []byte) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = w.Close() }()
	return w.EncodeAll(data, nil)
}
