package wazero_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"edgepod/wasmrt/engine"
	"edgepod/wasmrt/engine/wazero"
)

// saveVariable names a module: this program saves it then, and ends.
const saveVariable = "EDGEPOD_TEST_SAVE"

func TestMain(m *testing.M) {
	if module := os.Getenv(saveVariable); module != "" {
		if err := saveFile(module, os.Getenv("TMPDIR")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func saveFile(module, dir string) error {
	wasm, err := os.ReadFile(module)
	if err != nil {
		return err
	}
	return wazero.Save(context.Background(), wasm, nil, dir)
}

// modules are those that others have built, where the Makefile has fetched them, and one of this project's examples.
func modules(b *testing.B) (files []string) {
	b.Helper()
	for _, pattern := range []string{"../../../examples/hello/*.wasm", "../../../.cache/modules/*.wasm"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			b.Fatal(err)
		}
		files = append(files, found...)
	}
	if len(files) == 0 {
		b.Skip("no modules are here: make examples modules")
	}
	return files
}

// BenchmarkSave measures what compiling a module takes, in a process of its own.
func BenchmarkSave(b *testing.B) {
	for _, file := range modules(b) {
		b.Run(strings.TrimSuffix(filepath.Base(file), ".wasm"), func(b *testing.B) {
			var cpu, peak float64
			for range b.N {
				cmd := exec.Command(os.Args[0])
				cmd.Env = append(os.Environ(), saveVariable+"="+file, "TMPDIR="+b.TempDir())
				if out, err := cmd.CombinedOutput(); err != nil {
					b.Fatalf("%v %s", err, out)
				}
				cpu += (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
				peak = max(peak, float64(cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss)/1024)
			}
			b.ReportMetric(cpu*1000/float64(b.N), "ms-CPU")
			b.ReportMetric(peak, "MB-peak")
		})
	}
}

// BenchmarkLoad measures taking up saved code.
func BenchmarkLoad(b *testing.B) {
	for _, file := range modules(b) {
		b.Run(strings.TrimSuffix(filepath.Base(file), ".wasm"), func(b *testing.B) {
			dir := b.TempDir()
			if err := saveFile(file, dir); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				e, _, err := wazero.Load(b.Context(), engine.Config{}, dir)
				if err != nil {
					b.Fatal(err)
				}
				if err := e.Close(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
