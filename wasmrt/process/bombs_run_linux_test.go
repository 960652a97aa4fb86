package process_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"edgepod/wasmrt/engine/enginetest"
	"edgepod/wasmrt/process"
	"edgepod/wasmrt/sandbox"
)

func TestGuestsThatNeverEndAreStoppedAtOnce(t *testing.T) {
	modules := busyModules(t)
	r := open(t, t.TempDir(), offering(t, modules))
	s := create(t, r, "pod1")
	for name := range modules {
		c := spec(t, r, strings.TrimSuffix(name, ".wasm"), name)
		c.Limits.CPUMilli = 100
		start(t, s, c)
	}
	// All of them run while each is stopped: a request is heard beside any of them.
	for name := range modules {
		id := strings.TrimSuffix(name, ".wasm")
		if err := s.Stop(t.Context(), id, time.Minute); err != nil {
			t.Fatal(err)
		}
		if exit := await(t, s, id); exit.Code != 143 || exit.Signal != 15 {
			t.Errorf("%s: %+v, want 143", id, exit)
		}
	}
}

func TestMemoryThatIsNotTouchedTakesNone(t *testing.T) {
	r := open(t, t.TempDir())
	s := create(t, r, "pod1")
	c := spec(t, r, "c", "guest.wasm", "hold")
	c.Limits.Memory = 2 << 30
	st := start(t, s, c)
	awaitOutput(t, c.Log.Path, "holds 32624 pages\n")
	const most = 20 << 10
	if got := statusKB(t, st.PID, "VmHWM"); got > most {
		t.Errorf("%d KB were resident while it grew its memory to 2 GiB, want at most %d", got, most)
	}
}

// statusKB reads a figure from a process's status.
func statusKB(t *testing.T, pid int, key string) int {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := bytes.Cut(data, []byte(key+":"))
	n, err := strconv.Atoi(strings.Fields(string(rest))[0])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestHugeModulesAreCompiledOrRefusedWithTheLimit(t *testing.T) {
	modules := hugeModules()
	r := open(t, t.TempDir(), offering(t, modules), func(c *process.Config) { c.CompileCPU = 2 * time.Second })
	var pulls sync.WaitGroup
	for name := range modules {
		pulls.Go(func() {
			_, err := r.Pull(t.Context(), sandbox.PullRequest{Ref: "./" + name, Policy: sandbox.PullIfNotPresent})
			var img *sandbox.ImageError
			if err != nil && (!errors.As(err, &img) || !strings.Contains(img.Message, "more than the limit of")) {
				t.Errorf("%s: %v, want the limit that it hit", name, err)
			}
		})
	}
	// Meanwhile others are compiled and run.
	s := create(t, r, "pod1")
	start(t, s, spec(t, r, "other", "guest.wasm", "exit", "3"))
	if exit := await(t, s, "other"); exit.Code != 3 {
		t.Errorf("another container meanwhile: %+v", exit)
	}
	pulls.Wait()
}

func TestEachLimitOfTheCompilerIsNamed(t *testing.T) {
	// 600 KiB, which adds half a second and 10 MiB.
	bomb := map[string][]byte{"bomb.wasm": compileBomb(6000, 30000)}
	for want, change := range map[string]func(*process.Config){
		"2s of processor time": func(c *process.Config) { c.CompileCPU, c.CompileMemory = time.Second, 4<<30 },
		"74 MiB of memory":     func(c *process.Config) { c.CompileCPU, c.CompileMemory = time.Minute, 64<<20 },
	} {
		r := open(t, t.TempDir(), offering(t, bomb), change)
		_, err := r.Pull(t.Context(), sandbox.PullRequest{Ref: "./bomb.wasm", Policy: sandbox.PullIfNotPresent})
		var img *sandbox.ImageError
		if !errors.As(err, &img) || img.Reason != sandbox.ReasonErrImagePull || !strings.Contains(img.Message, "more than the limit of "+want) {
			t.Errorf("got %v, want the limit of %s", err, want)
		}
	}
}

func TestModulesThatCannotRunAreRefusedWithTheReason(t *testing.T) {
	huge := strings.Repeat("x", 40<<20)
	modules := map[string][]byte{
		"threads.wasm": enginetest.Assemble(t, `(module (import "wasi" "thread-spawn" (func (param i32) (result i32)))
			(func (export "_start")))`),
		"shared.wasm":  enginetest.Assemble(t, `(module (import "env" "memory" (memory 1 2 shared)) (func (export "_start")))`),
		"invalid.wasm": startModule(nil, []byte{0, 0x6a, 0x0b}), // i32.add of nothing
		"data.wasm":    enginetest.Assemble(t, `(module (memory 1000) (data (i32.const 0) "`+huge+`") (func (export "_start")))`),
		"outside.wasm": enginetest.Assemble(t, `(module (memory 1) (data (i32.const 65530) "beyond the end") (func (export "_start")))`),
	}
	proposals := enginetest.Proposals(t)
	for proposal, wasm := range proposals {
		modules[proposal+".wasm"] = wasm
	}
	r := open(t, t.TempDir(), offering(t, modules))
	for name, want := range map[string]string{
		"threads.wasm": "thread-spawn", "shared.wasm": "memory env.memory", "invalid.wasm": "not a valid WebAssembly module",
	} {
		_, err := r.Pull(t.Context(), sandbox.PullRequest{Ref: "./" + name, Policy: sandbox.PullIfNotPresent})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	for proposal := range proposals {
		_, err := r.Pull(t.Context(), sandbox.PullRequest{Ref: "./" + proposal + ".wasm", Policy: sandbox.PullIfNotPresent})
		var img *sandbox.ImageError
		name, _, _ := strings.Cut(proposal, " ")
		if !errors.As(err, &img) || !strings.Contains(img.Message, name) && !strings.Contains(img.Message, "no known extension") {
			t.Errorf("%s: %v, want its name, or that it is unknown", proposal, err)
		}
	}
	s := create(t, r, "pod1")
	c := spec(t, r, "data", "data.wasm")
	c.Limits.Memory = 32 << 20
	if _, err := s.Start(t.Context(), c); err == nil || !strings.Contains(err.Error(), "memory") {
		t.Errorf("more data than memory: %v, want the limit named", err)
	}
	start(t, s, spec(t, r, "outside", "outside.wasm"))
	if exit := await(t, s, "outside"); exit.Code == 0 || !strings.Contains(exit.Message, "out of bounds") {
		t.Errorf("data beyond the memory's end: %+v", exit)
	}
}

// TestDamagedModulesAreRefusedAlone pulls modules that have a byte changed or their end cut off: each is refused or runs,
// and the runtime goes on.
func TestDamagedModulesAreRefusedAlone(t *testing.T) {
	good, err := os.ReadFile(filepath.Join(guests(t), "guest.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	modules := map[string][]byte{}
	for i := range 40 {
		broken := bytes.Clone(good)
		at := (i*7919 + 9) % len(broken)
		name := "changed-" + itoa(i) + ".wasm"
		if broken[at] ^= 1 << (i % 8); i%4 == 0 {
			name, broken = "cut-"+itoa(i)+".wasm", broken[:at]
		}
		modules[name] = broken
	}
	r := open(t, t.TempDir(), offering(t, modules))
	for name := range modules {
		_, err := r.Pull(t.Context(), sandbox.PullRequest{Ref: "./" + name, Policy: sandbox.PullIfNotPresent})
		var img *sandbox.ImageError
		if err != nil && (!errors.As(err, &img) || strings.Contains(img.Message, "goroutine")) {
			t.Errorf("%s: %v, want an image error in the user's words", name, err)
		}
	}
	s := create(t, r, "pod1")
	start(t, s, spec(t, r, "good", "guest.wasm", "exit", "4"))
	if exit := await(t, s, "good"); exit.Code != 4 {
		t.Errorf("the good one afterwards: %+v", exit)
	}
}

func TestGuestThatOpensFilesWithoutEndRunsOutAlone(t *testing.T) {
	r := open(t, t.TempDir())
	s := create(t, r, "pod1")
	c := spec(t, r, "c", "guest.wasm", "open")
	start(t, s, c)
	exit := await(t, s, "c")
	out := logged(t, c.Log.Path)
	count, _, _ := strings.Cut(out, " ")
	if n, err := strconv.Atoi(count); exit.Code != 0 || err != nil || n < 500 || !strings.Contains(out, "descriptors") && !strings.Contains(out, "files open") {
		t.Errorf("exit %+v, log %q; want hundreds of files and then an error", exit, out)
	}
}

// TestFloodWithoutLinesIsBounded writes 64 MiB of bytes of all kinds but ends of lines.
func TestFloodWithoutLinesIsBounded(t *testing.T) {
	r := open(t, t.TempDir())
	s := create(t, r, "pod1")
	c := spec(t, r, "c", "guest.wasm", "spew", "1024")
	c.Log.MaxBytes, c.Log.MaxFiles = 1<<20, 3
	start(t, s, c)
	if exit := await(t, s, "c"); exit.Code != 0 {
		t.Fatalf("exit: %+v", exit)
	}
	files, err := filepath.Glob(c.Log.Path + "*")
	if err != nil || len(files) != 3 {
		t.Fatalf("log files: %v, %v; want 3", files, err)
	}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil || int64(len(data)) > c.Log.MaxBytes {
			t.Errorf("%s: %d bytes, %v; want at most %d", f, len(data), err, c.Log.MaxBytes)
		}
		var last time.Time
		for line := range strings.Lines(string(data)) {
			stamp, rest, _ := strings.Cut(line, " ")
			at, err := time.Parse(time.RFC3339Nano, stamp)
			if err != nil || !strings.HasPrefix(rest, "stdout P ") || at.Before(last) {
				t.Fatalf("%s: record %q (%v) after one of %v, want pieces in their order", f, line[:min(len(line), 60)], err, last)
			}
			last = at
		}
	}
}
