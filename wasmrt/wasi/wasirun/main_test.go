//go:build linux

package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"edgepod/wasmrt/guest/guesttest"
)

// TestPrograms builds wasirun and a guest in C, and runs the guest in every way.
func TestPrograms(t *testing.T) {
	dir := t.TempDir()
	tool, guest := filepath.Join(dir, "wasirun"), filepath.Join(dir, "guest.wasm")
	if text, err := exec.Command("go", "build", "-tags", "grpcnotrace", "-o", tool, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	for path, data := range map[string][]byte{
		guest: guesttest.C(t, "testdata/guest.c"), filepath.Join(dir, "notes.txt"): []byte("hello from a file\n"),
	} {
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	other := t.TempDir()
	for _, c := range []struct {
		name          string
		args          []string
		in, out, errs string
		code          int
	}{
		{name: "arguments", args: []string{guest, "args", "a b", "--dir"}, out: "guest.wasm args a b --dir\n"},
		{name: "environment", args: []string{"--env", "A=1", "--env", "B=x=y", guest, "env"}, out: "A=1\nB=x=y\n"},
		{name: "no environment", args: []string{guest, "env"}},
		{name: "input", args: []string{guest, "cat"}, in: "in\nput", out: "in\nput"},
		{name: "exit code", args: []string{guest, "exit", "33"}, code: 33},
		{name: "no folders", args: []string{guest, "preopens"}},
		{
			name: "folders", args: []string{"--dir", dir, "--dir", other + "::work", guest, "preopens"}, out: "3 " + dir + "\n4 work\n",
		},
		{name: "root", args: []string{"--dir", dir + "::/", guest, "show", "notes.txt"}, out: "hello from a file\n"},
		{name: "named folder", args: []string{"--dir", dir + "::fs.dir", guest, "show", "fs.dir/notes.txt"}, out: "hello from a file\n"},
		{name: "trap", args: []string{guest, "trap"}, code: codeTrap, errs: "wasirun: "},
		{name: "no module", code: codeError, errs: "no module is named"},
		{name: "no such module", args: []string{dir + "/none.wasm"}, code: codeError, errs: "no such file"},
		{name: "no wasm", args: []string{dir + "/notes.txt"}, code: codeError, errs: "wasirun: "},
		{name: "no such folder", args: []string{"--dir", dir + "/none", guest, "args"}, code: codeError, errs: "no such file"},
		{name: "no such option", args: []string{"--what", guest}, code: codeError, errs: "not defined"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd := exec.Command(tool, c.args...)
			var out, errs bytes.Buffer
			cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(c.in), &out, &errs
			var exit *exec.ExitError
			if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
				t.Fatal(err)
			}
			if code := cmd.ProcessState.ExitCode(); code != c.code || out.String() != c.out || !strings.Contains(errs.String(), c.errs) {
				t.Errorf("code %d, want %d\noutput %q, want %q\nerrors %q, want %q", code, c.code, &out, c.out, &errs, c.errs)
			}
		})
	}
}
