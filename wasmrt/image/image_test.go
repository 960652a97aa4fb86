package image

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"edgepod/wasmrt/image/imagetest"
	"edgepod/wasmrt/image/module"
	"edgepod/wasmrt/sandbox"
)

// The parts of modules and layers.
var (
	wasm, sec, text, custom, component = imagetest.Module, imagetest.Section, imagetest.Text, imagetest.Custom, imagetest.Component
	gzipped, zstded                    = imagetest.Gzip, imagetest.Zstd
)

// command is the smallest module that runs, with extra sections in their places, and custom ones first.
func command(extra ...[]byte) []byte {
	all := append(extra, sec(1, 1, 0x60, 0, 0), sec(3, 1, 0), sec(7, append(append([]byte{1}, text("_start")...), 0, 0)...), sec(10, 1, 2, 0, 0x0b))
	slices.SortStableFunc(all, func(a, b []byte) int { return cmp.Compare(a[0], b[0]) })
	return wasm(all...)
}

func importing(mod, name string) []byte {
	return wasm(sec(1, 2, 0x60, 0, 0, 0x60, 1, 0x7f, 1, 0x7f), sec(2, slices.Concat([]byte{1}, text(mod), text(name), []byte{0, 1})...))
}

func offers(im module.Import) error {
	if im.Module == "wasi_snapshot_preview1" && im.Name == "proc_exit" && string(im.Params) == "\x7f" {
		return nil
	}
	return fmt.Errorf("the module imports %s.%s, which is not offered", im.Module, im.Name)
}

func openStore(t *testing.T, change func(*Config)) (*Store, string) {
	t.Helper()
	images := t.TempDir()
	cfg := Config{Dir: t.TempDir(), ImageDirs: []string{images}, Offered: offers, Limits: Limits{Pause: time.Millisecond}}
	if change != nil {
		change(&cfg)
	}
	s, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, images
}

func TestWhatIsNoCommandIsRefusedWithAReason(t *testing.T) {
	tar := make([]byte, 1024)
	copy(tar, "oci-layout")
	copy(tar[257:], "ustar")
	s, dir := openStore(t, func(c *Config) { c.Limits.Module = 1 << 16 })
	for name, tt := range map[string]struct {
		data []byte
		want string
	}{
		"empty":      {nil, "empty file"},
		"text":       {[]byte("hello, world\n"), "text file"},
		"elf":        {[]byte("\x7fELF\x02\x01\x01"), "Linux program"},
		"script":     {[]byte("#!/bin/sh\n"), "script"},
		"wat":        {[]byte("(module)"), "wat2wasm"},
		"gzip":       {[]byte("\x1f\x8b\x08"), "unpack"},
		"oci":        {tar, "container image"},
		"junk":       {[]byte{1, 2, 3, 0xff}, "unknown kind"},
		"component":  {[]byte("\x00asm\x0d\x00\x01\x00"), "component"},
		"version":    {[]byte("\x00asm\x02\x00\x00\x00"), "unknown version"},
		"header":     {[]byte("\x00asm\x01"), "cut off"},
		"cut":        {command()[:len(command())-3], "cut off"},
		"no start":   {wasm(), "_start"},
		"reactor":    {wasm(sec(7, append(append([]byte{1}, text("_initialize")...), 0, 0)...)), "reactor"},
		"import":     {importing("wasi_snapshot_preview1", "warp"), "wasi_snapshot_preview1.warp"},
		"browser":    {importing("gojs", "runtime.scheduleTimeoutEvent"), "GOOS=wasip1"},
		"emscripten": {importing("env", "emscripten_memcpy"), "Emscripten"},
		"section":    {wasm([]byte{99, 0}), "unknown kind 99"},
		"memory64":   {command(sec(5, 1, 4, 1)), "memory64"},
		"table":      {command(sec(4, 1, 0x70, 0, 0xff, 0xff, 0xff, 0xff, 0x0f)), "table"},
		"large":      {make([]byte, 1<<16+1), "larger than"},
	} {
		path := filepath.Join(dir, "m.wasm")
		if err := os.WriteFile(path, tt.data, 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := s.Resolve(t.Context(), sandbox.PullRequest{Ref: path, Policy: sandbox.PullIfNotPresent})
		var img *sandbox.ImageError
		if !errors.As(err, &img) || img.Reason != sandbox.ReasonErrImagePull || img.Ref != path || !strings.Contains(img.Message, tt.want) {
			t.Errorf("%s: %v, want an image error with %q", name, err, tt.want)
		}
	}
}

func TestReferences(t *testing.T) {
	builtins := fstest.MapFS{"hello.wasm": {Data: command()}, "hello-v2.wasm": {Data: command(custom("v", "2"))}}
	s, dir := openStore(t, func(c *Config) { c.Builtins, c.Registries.Default = builtins, "127.0.0.1:1" })
	outside := filepath.Join(t.TempDir(), "out.wasm")
	for path, data := range map[string][]byte{outside: command(), filepath.Join(dir, "app.wasm"): command(), filepath.Join(dir, "sub", "b.wasm"): command()} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(outside, filepath.Join(dir, "leads-out.wasm")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("app.wasm", filepath.Join(dir, "stays.wasm")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe.wasm"), 0o600); err != nil {
		t.Fatal(err)
	}
	for ref, want := range map[string]string{
		"./app.wasm":                         "",
		"./sub/../sub/b.wasm":                "",
		"./stays.wasm":                       "",
		filepath.Join(dir, "app.wasm"):       "",
		"file://" + dir + "/app.wasm":        "",
		"edgepod.dev/hello":                  "",
		"edgepod.dev/hello:latest":           "",
		"edgepod.dev/hello:v2":               "",
		"edgepod.dev/hello:v3":               "ErrImagePull: edgepod.dev/hello",
		"edgepod.dev/nothing":                "ErrImagePull: ships",
		"edgepod.dev/":                       "InvalidImageName: NAME",
		"edgepod.dev/../x":                   "InvalidImageName: NAME",
		"./leads-out.wasm":                   "ErrImagePull: escapes",
		filepath.Join(dir, "leads-out.wasm"): "ErrImagePull: may take images",
		outside:                              "ErrImagePull: may take images",
		"../x.wasm":                          "ErrImagePull: leads out",
		"./missing.wasm":                     "ErrImagePull: no file",
		filepath.Join(dir, "missing.wasm"):   "ErrImagePull: no file",
		"./sub":                              "ErrImagePull: folder",
		"./pipe.wasm":                        "ErrImagePull: special file",
		"file://host/app.wasm":               "InvalidImageName: file:///",
		"nginx":                              "ErrImagePull: reach the registry 127.0.0.1:1",
		"localhost:1/team/app:v1":            "ErrImagePull: reach the registry localhost:1",
		"Not An Image":                       "InvalidImageName: parse",
		"":                                   "InvalidImageName: parse",
	} {
		e, err := s.Resolve(t.Context(), sandbox.PullRequest{Ref: ref, Policy: sandbox.PullIfNotPresent})
		if want == "" {
			if err != nil || e.Size == 0 || e.Path == "" {
				t.Errorf("%q: %+v, %v", ref, e, err)
			}
			continue
		}
		reason, part, _ := strings.Cut(want, ": ")
		var img *sandbox.ImageError
		if !errors.As(err, &img) || img.Reason != reason || !strings.Contains(img.Message, part) {
			t.Errorf("%q: %v, want %s with %q", ref, err, reason, part)
		}
	}
}

func TestStoreKeepsByDigestAndSeesChanges(t *testing.T) {
	s, dir := openStore(t, nil)
	path := filepath.Join(dir, "app.wasm")
	write := func(data []byte, age time.Duration) {
		t.Helper()
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		when := time.Now().Add(-age)
		if err := os.Chtimes(path, when, when); err != nil {
			t.Fatal(err)
		}
	}
	resolve := func(policy sandbox.PullPolicy) Entry {
		t.Helper()
		e, err := s.Resolve(t.Context(), sandbox.PullRequest{Ref: "./app.wasm", Policy: policy})
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	write(command(custom("name", "\x01\x04\x01\x00\x01f"), custom(".debug_info", strings.Repeat("d", 1000))), time.Hour)
	first := resolve(sandbox.PullIfNotPresent)
	if again := resolve(sandbox.PullIfNotPresent); first.Cached || !again.Cached || again.Digest != first.Digest {
		t.Errorf("first %+v, again %+v", first, again)
	}
	slim, err := os.ReadFile(first.Path)
	if err != nil || len(slim) != len(command()) || first.NamesPath == "" {
		t.Errorf("stored module has %d bytes, %v; want %d and names", len(slim), err, len(command()))
	}
	write(command(custom("v", "2")), time.Minute)
	second := resolve(sandbox.PullIfNotPresent)
	if second.Digest == first.Digest || second.Sum != first.Sum {
		t.Errorf("after a change that stripping removes: %+v, before %+v", second, first)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if gone := resolve(sandbox.PullNever); gone.Digest != second.Digest {
		t.Errorf("after the file has gone: %+v, want %+v", gone, second)
	}
	if _, err := s.Resolve(t.Context(), sandbox.PullRequest{Ref: "./app.wasm", Policy: sandbox.PullAlways}); err == nil {
		t.Error("Always found a file that has gone")
	}
	if err := s.Drop(second.Digest); err != nil {
		t.Fatal(err)
	}
	if _, ok := s.Get(second.Digest); ok {
		t.Error("a dropped module is still there")
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Resolve(cancelled, sandbox.PullRequest{Ref: "./app.wasm", Policy: sandbox.PullIfNotPresent}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
