//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"edgepod/wasmrt/sandbox"
)

// BenchmarkModules measures what modules cost beside native programs, and prints a table beside the budgets. It takes
// bin/edgepod to build the guest in Go: see `make bench`.
func BenchmarkModules(b *testing.B) {
	if b.N > 1 {
		return // one run says it all
	}
	m := &moduleMeasurement{measurement: &measurement{B: b}, runtime: openRealRuntime(b, b.TempDir())}
	m.buildServers()
	m.coldCompiles()
	m.starts()
	m.memory()
	m.bomb()
	m.servers()
	m.fileCalls()
	m.print()
}

// moduleMeasurement collects figures of modules under one runtime.
type moduleMeasurement struct {
	*measurement
	runtime *realRuntime
}

// buildServers makes the servers of testdata/bench, as modules and natively, and the programs that only wait.
func (m *moduleMeasurement) buildServers() {
	source := func(name string) string { return filepath.Join("testdata", "bench", name) }
	out := func(name string) string { return filepath.Join(m.runtime.scratch, name) }
	wasmC := []string{"clang", "--target=wasm32-wasi", "--sysroot=/usr", "-O2", "-s", "-o"}
	for _, args := range [][]string{
		{"bin/edgepod", "build", source("server.go"), "-o", out("server-go.wasm"), "--ldflags", "-s -w"},
		{"go", "build", "-o", out("server-go"), source("server.go")},
		append(wasmC, out("server-c.wasm"), source("server.c")),
		{"clang", "-O2", "-o", out("server-c"), source("server.c")},
		{"/usr/bin/rustc", "-Copt-level=3", "--target=wasm32-wasi", "-o", out("server-rust.wasm"), source("server.rs")},
		{"/usr/bin/rustc", "-Copt-level=3", "-o", out("server-rust"), source("server.rs")},
		append(wasmC, out("idle-c.wasm"), source("idle.c")),
		{"env", "GOOS=wasip1", "GOARCH=wasm", "go", "build", "-ldflags=-s -w", "-o", out("idle-go.wasm"), source("idle.go")},
	} {
		if text, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			m.Fatalf("%v: %v\n%s", args, err, text)
		}
	}
}

// coldCompiles measures the worker that makes machine code of large modules.
func (m *moduleMeasurement) coldCompiles() {
	for _, name := range []string{"python", "php"} {
		seen := watchCompiler(m.B)
		img, err := m.runtime.Pull(m.Context(), sandbox.PullRequest{Ref: "./" + name + ".wasm", Policy: sandbox.PullIfNotPresent})
		m.check(err)
		cpu, peak := seen()
		m.add(fmt.Sprintf("cold compile of %s.wasm (%.1f MB): CPU, wall, peak memory", name, float64(img.Size)/1e6), "",
			"%.1f s, %.1f s, %.0f MB", cpu.Seconds(), img.CompileTook.Seconds(), peak/1000)
	}
}

// watchCompiler looks at the process that compiles, again and again, until its result is asked for: what it had used when
// it was last seen.
func watchCompiler(b *testing.B) (used func() (cpu time.Duration, peakKB float64)) {
	done := make(chan struct{})
	var watching sync.WaitGroup
	var cpu time.Duration
	var peak float64
	watching.Go(func() {
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
			}
			paths, _ := filepath.Glob("/proc/[0-9]*/cmdline") // the pattern is right
			for _, path := range paths {
				line, err := os.ReadFile(path)
				if err != nil || !strings.HasPrefix(string(line), "edgepod-container\x00compile") {
					continue
				}
				// Processes end while they are looked at.
				if used, err := processTime(filepath.Dir(path)); err == nil {
					cpu = max(cpu, used)
				}
				if kb, err := procField(filepath.Join(filepath.Dir(path), "status"), "VmHWM:"); err == nil {
					peak = max(peak, kb)
				}
			}
		}
	})
	return func() (time.Duration, float64) {
		close(done)
		watching.Wait()
		if peak == 0 {
			b.Fatal("no process was seen that compiles")
		}
		return cpu, peak
	}
}

// processTime is the processor time that all threads of a process have used, to the nanosecond.
func processTime(proc string) (time.Duration, error) {
	tasks, err := filepath.Glob(filepath.Join(proc, "task", "*", "schedstat"))
	if err != nil {
		return 0, err
	}
	total := time.Duration(0)
	for _, task := range tasks {
		data, err := os.ReadFile(task)
		if err != nil {
			return 0, err
		}
		used, _, _ := strings.Cut(string(data), " ")
		n, err := strconv.ParseInt(used, 10, 64)
		if err != nil {
			return 0, err
		}
		total += time.Duration(n)
	}
	return total, nil
}

// procField reads a figure in kB of a file below /proc.
func procField(path, key string) (float64, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, key); ok {
			return strconv.ParseFloat(strings.Fields(rest)[0], 64)
		}
	}
	return 0, fmt.Errorf("%s has no %s", path, key)
}

// starts measures from the call that starts a container until its guest's main begins, with the code cached.
func (m *moduleMeasurement) starts() {
	for _, g := range []struct{ name, image, budget string }{
		{"C module", "./idle-c.wasm", "10 ms"},
		{"Go module", "./idle-go.wasm", "80 ms"},
		{"CPython", "./python.wasm", ""},
		{"PHP", "./php.wasm", ""},
	} {
		pod := m.runtime.pod(m.B, nil)
		var took []time.Duration
		for i := range 31 {
			name := "run-" + strconv.Itoa(i)
			_, err := m.runtime.Pull(m.Context(), sandbox.PullRequest{Ref: g.image, Policy: sandbox.PullIfNotPresent})
			m.check(err)
			began := time.Now()
			_, err = pod.start(m.B, realContainer{name: name, image: g.image, stdin: true, memory: 512 << 20})
			m.check(err)
			if i > 0 {
				took = append(took, pod.startedAt(m.B, name).Sub(began))
			}
			m.check(pod.Stop(m.Context(), name, 0))
		}
		m.add(g.name+", cached: start → main, p50 / p90", g.budget, "%.1f / %.1f ms", ms(percentile(took, 50)), ms(percentile(took, 90)))
	}
}

// status returns a container's status.
func (p *realPod) status(t testing.TB, id string) sandbox.Status {
	t.Helper()
	all, err := p.Status(t.Context())
	check(t, err)
	for _, status := range all {
		if status.ID == id {
			return status
		}
	}
	t.Fatalf("no container %s in %+v", id, all)
	return sandbox.Status{}
}

func (p *realPod) startedAt(t testing.TB, id string) time.Time { return p.status(t, id).StartedAt }

// proc is the folder of a container's process below /proc.
func (p *realPod) proc(t testing.TB, id string) string {
	t.Helper()
	return filepath.Join("/proc", strconv.Itoa(p.status(t, id).PID))
}

// memory measures containers that have begun and wait.
func (m *moduleMeasurement) memory() {
	pod := m.runtime.pod(m.B, map[string]string{"server.js": readFile(m.B, "testdata/bench/server.js")})
	for _, c := range []realContainer{
		{name: "C", image: "./idle-c.wasm"},
		{name: "Go", image: "./idle-go.wasm"},
		{name: "QuickJS", image: "./quickjs.wasm", args: []string{"/work/server.js"}},
		{name: "CPython", image: "./python.wasm", args: []string{"-c", "import sys; sys.stdin.read()"}},
	} {
		c.stdin = true
		_, err := pod.start(m.B, c)
		m.check(err)
		proc := pod.proc(m.B, c.name)
		awaitIdle(m.B, proc)
		rollup := filepath.Join(proc, "smaps_rollup")
		m.add("idle container, "+c.name+": RSS / PSS / private", "", "%.1f / %.1f / %.1f MB", procFigure(m.B, rollup, "Rss:")/1000,
			procFigure(m.B, rollup, "Pss:")/1000, (procFigure(m.B, rollup, "Private_Dirty:")+procFigure(m.B, rollup, "Private_Clean:"))/1000)
	}
}

// awaitIdle waits until a process has used no processor time for half a second.
func awaitIdle(b *testing.B, proc string) {
	b.Helper()
	used, since := time.Duration(-1), time.Now()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for began := time.Now(); time.Since(began) < time.Minute; <-tick.C {
		now, err := processTime(proc)
		check(b, err)
		if now != used {
			used, since = now, time.Now()
		}
		if time.Since(since) > 500*time.Millisecond {
			return
		}
	}
	b.Fatalf("%s does not come to rest", proc)
}

// bomb measures a guest that has grown its memory, untouched, to its limit.
func (m *moduleMeasurement) bomb() {
	pod := m.runtime.pod(m.B, nil)
	log, err := pod.start(m.B, realContainer{name: "bomb", image: "./idle-c.wasm", args: []string{"grow"}, stdin: true, memory: 1 << 30})
	m.check(err)
	awaitLog(m.B, log, "full\n")
	status := filepath.Join(pod.proc(m.B, "bomb"), "status")
	m.add("guest that has grown its memory to a limit of 1 GiB: peak RSS", "20 MB", "%.1f MB", procFigure(m.B, status, "VmHWM:")/1000)
}

// fileCalls takes over what package wasi measures of files.
func (m *moduleMeasurement) fileCalls() {
	cmd := exec.Command("go", "test", "-tags", "grpcnotrace", "-run", "^$", "-bench", "FileCallsOfGuests", "./wasmrt/wasi")
	out, err := cmd.CombinedOutput()
	if err != nil {
		m.Fatalf("%v: %v\n%s", cmd, err, out)
	}
	line := regexp.MustCompile(`(?m)^BenchmarkFileCallsOfGuests/(\S+?)(?:-\d+)?\s+\d+\s+(.*)$`)
	for _, found := range line.FindAllStringSubmatch(string(out), -1) {
		figures := map[string]string{}
		fields := strings.Fields(found[2])
		for i := 0; i+1 < len(fields); i += 2 {
			figures[fields[i+1]] = fields[i]
		}
		m.add("file calls, "+found[1]+": guest, native, ratio", "", "%s ns, %s ns, %s", figures["ns/op"], figures["native-ns/op"], figures["ratio"])
	}
}
