// Package guest ships the modules that the binary holds, which pods name as edgepod.dev/NAME.
//
//	hello    prints a greeting, its pod's name and its arguments
//	pause    waits for the request to stop
//	toolbox  small commands, by argv[0] or as the first argument: run it without any for a list
//	web      serves files over HTTP; in Go, so it is built before edgepod is (make build), and compressed
package guest

import (
	"bytes"
	"compress/gzip"
	"embed"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"
)

//go:generate sh build.sh
//go:generate go run ./build ./web embed/web.wasm.gz -tags nethttpomithttp2

//go:embed *.wasm
var plain embed.FS

//go:embed embed
var packed embed.FS

// built are the modules that are in the binary only if they were built before it.
var built = []string{"web.wasm"}

// Modules returns the modules by file name: NAME.wasm. Opening one that this binary was built without is an error that says
// so, and not that there is none of its name.
func Modules() fs.FS { return modules{} }

type modules struct{}

// Open implements fs.FS.
func (modules) Open(name string) (fs.File, error) {
	if !slices.Contains(built, name) {
		return plain.Open(name)
	}
	data, err := unpack(name)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return &file{name: name, size: int64(len(data)), Reader: bytes.NewReader(data)}, nil
}

// ReadDir implements fs.ReadDirFS.
func (modules) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := plain.ReadDir(name)
	if err != nil || name != "." {
		return entries, err
	}
	for _, name := range built {
		small, err := packed.ReadFile("embed/" + name + ".gz")
		if err == nil { // else it was left out
			entries = append(entries, fs.FileInfoToDirEntry(&file{name: name, size: unpackedSize(small)}))
		}
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, nil
}

// unpackedSize reads the size of what was compressed, which comes last.
func unpackedSize(small []byte) int64 {
	if len(small) < 4 {
		return 0
	}
	return int64(binary.LittleEndian.Uint32(small[len(small)-4:]))
}

func unpack(name string) ([]byte, error) {
	small, err := packed.ReadFile("embed/" + name + ".gz")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("this edgepod was built without the module %s: build it with `make build`", strings.TrimSuffix(name, ".wasm"))
	}
	if err != nil {
		return nil, err
	}
	zipped, err := gzip.NewReader(bytes.NewReader(small))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(zipped)
}

// file is an unpacked module, and what is told of it. It has no time, as no embedded file has.
type file struct {
	*bytes.Reader
	name string
	size int64
}

func (f *file) Stat() (fs.FileInfo, error) { return f, nil }
func (f *file) Close() error               { return nil }
func (f *file) Name() string               { return f.name }
func (f *file) Size() int64                { return f.size }
func (f *file) Mode() fs.FileMode          { return 0o444 }
func (f *file) ModTime() time.Time         { return time.Time{} }
func (f *file) IsDir() bool                { return false }
func (f *file) Sys() any                   { return nil }
