//go:build linux

package guesttest

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"edgepod/wasmrt/guest/overlay"
)

// packages are what a Debian machine needs to build guests.
const packages = "clang lld wasi-libc libclang-rt-dev-wasm32 rustc libstd-rust-dev-wasm32 wabt"

// C compiles a program in C into a module; further flags come after the usual ones, so that they count.
func C(t testing.TB, source string, flags ...string) []byte {
	t.Helper()
	command := []string{"clang", "--target=wasm32-wasi", "--sysroot=/usr", "-Os", "-Wall", "-Werror", "-o", "OUT"}
	return Build(t, append(append(command, flags...), source)...)
}

// Rust compiles a program in Rust into a module. It takes Debian's compiler, which has a library for that.
func Rust(t testing.TB, source string, flags ...string) []byte {
	t.Helper()
	command := []string{"/usr/bin/rustc", "--target=wasm32-wasi", "-Copt-level=s", "-o", "OUT"}
	return Build(t, append(append(command, flags...), source)...)
}

// Go compiles a package into a module, with plain Go.
func Go(t testing.TB, program string) []byte {
	t.Helper()
	return Build(t, "go", "build", "-ldflags=-s -w", "-o", "OUT", program)
}

// GoWithSockets compiles a package into a module as `edgepod build` does, with a package net that has sockets.
func GoWithSockets(t testing.TB, program string, flags ...string) []byte {
	t.Helper()
	out := filepath.Join(t.TempDir(), "module.wasm")
	build := overlay.Build{
		Package: program, Output: out, Flags: append([]string{"-ldflags=-s -w"}, flags...), Stdout: os.Stderr, Stderr: os.Stderr,
	}
	if err := build.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	return read(t, out)
}

func read(t testing.TB, module string) []byte {
	t.Helper()
	wasm, err := os.ReadFile(module)
	if err != nil {
		t.Fatal(err)
	}
	return wasm
}

// Build runs a compiler, with the path of its result in place of OUT, and returns the result.
func Build(t testing.TB, command ...string) []byte {
	t.Helper()
	out := filepath.Join(t.TempDir(), "module.wasm")
	command = slices.Clone(command)
	for i := range command {
		if command[i] == "OUT" {
			command[i] = out
		}
	}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "GOFLAGS=")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s\nGuests need the Debian packages %s", strings.Join(command, " "), err, text, packages)
	}
	return read(t, out)
}
