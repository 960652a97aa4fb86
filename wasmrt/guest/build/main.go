// Command build makes a module of a Go program as `edgepod build` does, before there is an edgepod:
//
//	build PACKAGE MODULE [FLAGS OF GO BUILD]    a MODULE that ends in .gz is compressed
package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"edgepod/wasmrt/guest/overlay"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: build PACKAGE MODULE [FLAGS OF GO BUILD]")
		os.Exit(2)
	}
	if err := build(os.Args[1], os.Args[2], os.Args[3:]); err != nil {
		fmt.Fprintf(os.Stderr, "build %s: %v\n", os.Args[1], err)
		os.Exit(1)
	}
}

func build(program, module string, flags []string) error {
	plain, compressed := strings.CutSuffix(module, ".gz")
	if !compressed {
		return compile(program, module, flags)
	}
	dir, err := os.MkdirTemp("", "edgepod-module-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	plain = filepath.Join(dir, filepath.Base(plain))
	if err := compile(program, plain, flags); err != nil {
		return err
	}
	data, err := os.ReadFile(plain)
	if err != nil {
		return err
	}
	var small bytes.Buffer
	zipped, err := gzip.NewWriterLevel(&small, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := zipped.Write(data); err != nil {
		return err
	}
	if err := zipped.Close(); err != nil {
		return err
	}
	return os.WriteFile(module, small.Bytes(), 0o644)
}

func compile(program, module string, flags []string) error {
	return overlay.Build{
		Package: program, Output: module, Flags: append([]string{"-trimpath", "-ldflags", "-s -w"}, flags...),
		Stdout: os.Stdout, Stderr: os.Stderr,
	}.Run(context.Background())
}
