package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// importPrefix begins the name of a copy that is being written.
const importPrefix = ".import-"

// wasmMagic begins every WebAssembly binary.
const wasmMagic = "\x00asm"

// importModule makes a local module usable by the node: it is copied to the folder under the digest of its bytes, and
// the image reference of the copy is returned. What is no path of a local file is taken for an image reference as it is.
func importModule(module, folder string) (image string, err error) {
	source, err := os.Open(module)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !looksLikePath(module):
		return module, nil
	case err != nil:
		return "", fmt.Errorf("module: %w", err)
	}
	defer source.Close()
	if info, err := source.Stat(); err != nil || !info.Mode().IsRegular() {
		return "", errors.Join(fmt.Errorf("module %s is not a file", module), err)
	}
	if err := checkMagic(source, module); err != nil {
		return "", err
	}
	return copyModule(source, folder)
}

// looksLikePath tells a path from an image reference, for a file that does not exist.
func looksLikePath(module string) bool {
	return filepath.IsAbs(module) || strings.HasPrefix(module, ".") || strings.HasSuffix(module, ".wasm") && !strings.Contains(module, "://")
}

// checkMagic reads the file's first bytes and goes back to its start.
func checkMagic(source io.ReadSeeker, module string) error {
	head := make([]byte, len(wasmMagic))
	n, err := io.ReadFull(source, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return err
	}
	if !bytes.Equal(head[:n], []byte(wasmMagic)) {
		return fmt.Errorf("%s is not a WebAssembly module: it begins with %q, not with %q; build it for wasm32-wasi (Go: GOOS=wasip1 GOARCH=wasm go build)", module, head[:n], wasmMagic)
	}
	_, err = source.Seek(0, io.SeekStart)
	return err
}

// copyModule writes the source into the folder under its digest, completely or not at all.
func copyModule(source io.Reader, folder string) (path string, err error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", err
	}
	temporary, err := os.CreateTemp(folder, importPrefix+"*")
	if err != nil {
		return "", err
	}
	defer os.Remove(temporary.Name())
	digest := sha256.New()
	_, err = io.Copy(io.MultiWriter(temporary, digest), source)
	if err = errors.Join(err, temporary.Close()); err != nil {
		return "", fmt.Errorf("copy the module: %w", err)
	}
	path = filepath.Join(folder, hex.EncodeToString(digest.Sum(nil))+".wasm")
	return path, os.Rename(temporary.Name(), path)
}
