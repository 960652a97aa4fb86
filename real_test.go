//go:build linux

package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"edgepod/wasmrt/process"
	"edgepod/wasmrt/sandbox"
)

// TestRealModules runs modules that others have made, each in a process of its own under a real runtime.
func TestRealModules(t *testing.T) {
	r := newRealRuntime(t)
	t.Run("commands", func(t *testing.T) { t.Parallel(); testRealCommands(t, r) })
	t.Run("guests", func(t *testing.T) { t.Parallel(); testRealGuests(t, r) })
	t.Run("servers", func(t *testing.T) { t.Parallel(); testRealServers(t, r) })
	t.Run("engines", func(t *testing.T) { t.Parallel(); testRealEngines(t, r) })
	t.Run("messages", func(t *testing.T) { t.Parallel(); testRealMessages(t, r) })
}

// moduleDir returns the folder of the modules that `make modules` has fetched.
func moduleDir(t testing.TB) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join(".cache", "modules"))
	if err != nil {
		t.Fatal(err)
	}
	check(t, fetchedModules(dir))
	return dir
}

// realRuntime runs containers for the tests of real modules.
type realRuntime struct {
	sandbox.Runtime
	dir     string // its state
	modules string // what `make modules` has fetched
	scratch string // a folder whose modules are images, too
}

// newRealRuntime returns a runtime whose folder outlives the tests, so that large modules are compiled once on a machine.
func newRealRuntime(t testing.TB) *realRuntime {
	t.Helper()
	root, err := filepath.Abs(filepath.Join(".cache", "test"))
	check(t, err)
	check(t, os.MkdirAll(root, 0o755))
	lock, err := os.OpenFile(filepath.Join(root, "real.lock"), os.O_CREATE|os.O_RDWR, 0o644)
	check(t, err)
	// One runtime at a time may use a folder: another run of the tests waits here. Closing lets go of the lock.
	check(t, syscall.Flock(int(lock.Fd()), syscall.LOCK_EX))
	t.Cleanup(func() { check(t, lock.Close()) })
	return openRealRuntime(t, filepath.Join(root, "real"))
}

// openRealRuntime returns a runtime on dir, whose containers run the program that ships.
func openRealRuntime(t testing.TB, dir string) *realRuntime {
	t.Helper()
	scratch := t.TempDir()
	child := filepath.Join(scratch, "child")
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-tags", "grpcnotrace", "-o", child, "./wasmrt/process/child")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the containers' program: %v\n%s", err, out)
	}
	r := &realRuntime{dir: dir, modules: moduleDir(t), scratch: scratch}
	var err error
	r.Runtime, err = process.New(process.Config{
		Dir: dir, ChildPath: child, MemoryDefault: 1 << 30, CompileCPU: time.Minute,
		ImageDirs: []string{r.modules, engineSources(t), scratch},
		Log:       slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	check(t, err)
	t.Cleanup(func() { check(t, r.Close()) })
	return r
}

// engineSources is the folder of the engine's module, whose own tests run guests of several compilers.
func engineSources(t testing.TB) string {
	t.Helper()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/tetratelabs/wazero").Output()
	if err != nil {
		t.Fatalf("find the engine's sources: %v", describeExit(err))
	}
	return strings.TrimSpace(string(dir))
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// realPod is a sandbox for one test, with a folder that its containers may write to.
type realPod struct {
	sandbox.Sandbox
	runtime *realRuntime
	// work is the folder on the host. What is mounted of it belongs to the pod's user.
	work string
}

// pod makes a sandbox that is gone when the test is over, with these files in its work folder.
func (r *realRuntime) pod(t testing.TB, files map[string]string) *realPod {
	t.Helper()
	// Not the test's own temporary folder, which other users cannot enter.
	work, err := os.MkdirTemp("", "edgepod-real-")
	check(t, err)
	t.Cleanup(func() { check(t, os.RemoveAll(work)) })
	id := "real-" + filepath.Base(work)
	box, err := r.Create(t.Context(), sandbox.Spec{ID: id, Namespace: "default", Name: id, Hostname: id})
	check(t, err)
	t.Cleanup(func() { check(t, box.Remove(context.Background())) })
	for name, text := range files {
		check(t, os.WriteFile(filepath.Join(work, name), []byte(text), 0o644))
	}
	if owner, ok := r.Owner(id); ok {
		check(t, os.Chown(work, owner.UID, owner.GID))
	}
	return &realPod{Sandbox: box, runtime: r, work: work}
}

// realContainer is what a test asks of a pod.
type realContainer struct {
	name   string
	image  string
	args   []string
	env    []string
	ports  []sandbox.Port
	mounts []sandbox.Mount
	memory int64
	stdin  bool
}

// start starts a container with the pod's folder at /work and returns the path of its log.
func (p *realPod) start(t testing.TB, c realContainer) (log string, err error) {
	t.Helper()
	img, err := p.runtime.Pull(t.Context(), sandbox.PullRequest{Ref: c.image, Policy: sandbox.PullIfNotPresent})
	if err != nil {
		return "", err
	}
	name := strings.TrimSuffix(filepath.Base(c.image), ".wasm")
	if c.name == "" {
		c.name = name
	}
	logs := filepath.Join(p.work, ".log-"+c.name)
	check(t, os.MkdirAll(logs, 0o755))
	if owner, ok := p.runtime.Owner(p.Spec().ID); ok {
		check(t, os.Chown(logs, owner.UID, owner.GID))
	}
	spec := sandbox.ContainerSpec{
		ID: c.name, Name: c.name, Image: img.Ref, Digest: img.Digest, Args: append([]string{name}, c.args...), Env: c.env,
		Ports: c.ports, Stdin: c.stdin, Limits: sandbox.Limits{Memory: c.memory}, Log: sandbox.Log{Path: filepath.Join(logs, "0.log")},
		Mounts: append([]sandbox.Mount{{Source: p.work, Target: "/work"}}, c.mounts...),
	}
	_, err = p.Sandbox.Start(t.Context(), spec)
	return spec.Log.Path, err
}

// run runs a container to its end and returns what it wrote.
func (p *realPod) run(t testing.TB, c realContainer) (string, sandbox.Exit) {
	t.Helper()
	log, err := p.start(t, c)
	check(t, err)
	exit := p.await(t, filepath.Base(filepath.Dir(log))[len(".log-"):])
	return readLog(t, log), exit
}

// await waits for a container's end.
func (p *realPod) await(t testing.TB, id string) sandbox.Exit {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), scriptTimeout)
	defer cancel()
	for {
		changed := p.Changed()
		all, err := p.Status(ctx)
		check(t, err)
		for _, status := range all {
			if status.ID == id && status.State == sandbox.StateExited {
				return *status.Exit
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("container %s did not end: %+v", id, all)
		}
	}
}

// readLog returns the text of a log, without its format.
func readLog(t testing.TB, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return ""
	}
	check(t, err)
	var text strings.Builder
	for line := range strings.Lines(string(data)) {
		// TIME STREAM F-or-P TEXT
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 4)
		if len(fields) != 4 {
			t.Fatalf("log line %q is not in the CRI format", line)
		}
		text.WriteString(fields[3])
		if fields[2] == "F" {
			text.WriteByte('\n')
		}
	}
	return text.String()
}

// wantEnd fails the test unless a container ended with this code and has written all of these.
func wantEnd(t testing.TB, out string, exit sandbox.Exit, code int32, wanted ...string) {
	t.Helper()
	if exit.Code != code {
		t.Errorf("ended with %d, want %d: %s %s\n%s", exit.Code, code, exit.Reason, exit.Message, out)
	}
	for _, text := range wanted {
		if !strings.Contains(out, text) {
			t.Errorf("it did not write %q but:\n%s", text, out)
		}
	}
}
