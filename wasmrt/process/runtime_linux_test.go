package process_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"edgepod/wasmrt/process"
	"edgepod/wasmrt/sandbox"
)

// open returns a runtime on dir, closed with the test.
func open(t testing.TB, dir string, change ...func(*process.Config)) sandbox.Runtime {
	t.Helper()
	cfg := process.Config{
		Dir: dir, ImageDirs: []string{guests(t)}, MemoryDefault: 256 << 20, ChildPath: child(t),
		Log: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	for _, c := range change {
		c(&cfg)
	}
	r, err := process.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// create makes a sandbox that is removed with the test, unless r is closed before.
func create(t testing.TB, r sandbox.Runtime, id string) sandbox.Sandbox {
	t.Helper()
	s, err := r.Create(t.Context(), sandbox.Spec{ID: id, Namespace: "default", Name: id, Hostname: id})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Remove(context.Background()); err != nil && !strings.Contains(err.Error(), "closed") {
			t.Error(err)
		}
	})
	return s
}

// spec pulls guest.wasm, or another of the guests, and returns a container that runs it with these arguments.
func spec(t testing.TB, r sandbox.Runtime, id, module string, args ...string) sandbox.ContainerSpec {
	t.Helper()
	img, err := r.Pull(t.Context(), "./"+module, sandbox.PullIfNotPresent)
	if err != nil {
		t.Fatal(err)
	}
	return sandbox.ContainerSpec{
		ID: id, Name: "c", Image: img.Ref, Digest: img.Digest, Args: append([]string{"guest"}, args...),
		Log: sandbox.Log{Path: filepath.Join(t.TempDir(), "logs", "0.log")},
	}
}

func start(t testing.TB, s sandbox.Sandbox, c sandbox.ContainerSpec) sandbox.Status {
	t.Helper()
	st, err := s.Start(t.Context(), c)
	if err != nil {
		t.Fatalf("start %s: %v", c.ID, err)
	}
	return st
}

// await waits for the attempt's end.
func await(t testing.TB, s sandbox.Sandbox, id string) sandbox.Exit {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		changed := s.Changed()
		all, err := s.Status(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, st := range all {
			if st.ID == id && st.State == sandbox.StateExited {
				return *st.Exit
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("container %s did not end: %+v", id, all)
		}
	}
}

// logged returns the text of a log, without its format.
func logged(t testing.TB, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for line := range strings.Lines(string(data)) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 4)
		if len(fields) != 4 {
			t.Fatalf("log line %q is not in the CRI format", line)
		}
		b.WriteString(fields[3])
		if fields[2] == "F" {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

func TestGuestRunsAndItsEndIsRecorded(t *testing.T) {
	r := open(t, t.TempDir())
	s := create(t, r, "pod1")
	c := spec(t, r, "c-0", "guest.wasm", "print", "hello", "and an error")
	st := start(t, s, c)
	if st.PID == 0 || st.StartTick == 0 || st.StartedAt.IsZero() || st.State != sandbox.StateRunning {
		t.Errorf("status after Start: %+v", st)
	}
	exit := await(t, s, "c-0")
	if exit.Code != 0 || exit.Reason != sandbox.ReasonCompleted || !exit.StartedAt.Equal(st.StartedAt) || exit.FinishedAt.Before(exit.StartedAt) {
		t.Errorf("exit: %+v", exit)
	}
	if got := logged(t, c.Log.Path); !strings.Contains(got, "hello\n") || !strings.Contains(got, "and an error") {
		t.Errorf("log: %q", got)
	}
	for _, l := range r.Layers() {
		t.Logf("layer %-20s held=%v %s", l.Name, l.Held, l.Reason)
	}
}

func TestExitCodesAreKept(t *testing.T) {
	r := open(t, t.TempDir())
	s := create(t, r, "pod1")
	for _, code := range []int{1, 3, 127, 255} {
		id := "c-" + strconv.Itoa(code)
		start(t, s, spec(t, r, id, "guest.wasm", "exit", strconv.Itoa(code)))
		if exit := await(t, s, id); exit.Code != int32(code) || exit.Reason != sandbox.ReasonError {
			t.Errorf("exit %d: %+v", code, exit)
		}
	}
}

func TestStopReachesGuestsThatSleepAndThatLoop(t *testing.T) {
	r := open(t, t.TempDir())
	s := create(t, r, "pod1")
	for _, what := range []string{"sleep", "loop"} {
		start(t, s, spec(t, r, what, "guest.wasm", what))
		if err := s.Stop(t.Context(), what, time.Minute); err != nil {
			t.Fatal(err)
		}
		if exit := await(t, s, what); exit.Code != 143 || exit.Signal != 15 {
			t.Errorf("%s after stop: %+v, want 143", what, exit)
		}
	}
	start(t, s, spec(t, r, "now", "guest.wasm", "loop"))
	if err := s.Stop(t.Context(), "now", 0); err != nil {
		t.Fatal(err)
	}
	if exit := await(t, s, "now"); exit.Code != 137 || exit.Signal != 9 || exit.Reason != sandbox.ReasonError {
		t.Errorf("killed: %+v, want 137", exit)
	}
	if err := s.Stop(t.Context(), "now", 0); err != nil {
		t.Errorf("stop of an ended container: %v", err)
	}
	if err := s.Stop(t.Context(), "nobody", 0); !errors.Is(err, sandbox.ErrNotFound) {
		t.Errorf("stop of an unknown container: %v, want ErrNotFound", err)
	}
}

func TestRunsWithoutTheEmbeddedProgram(t *testing.T) {
	r := open(t, t.TempDir(), func(c *process.Config) { c.ChildPath = "/proc/self/exe" })
	s := create(t, r, "pod1")
	start(t, s, spec(t, r, "c-0", "guest.wasm", "exit", "7"))
	if exit := await(t, s, "c-0"); exit.Code != 7 {
		t.Errorf("exit: %+v, want code 7", exit)
	}
}

func itoa(n int) string { return strconv.Itoa(n) }

// openFiles counts this process's descriptors.
func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// rewrite changes a JSON file.
func rewrite(t *testing.T, path string, change func(map[string]any)) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(data, &m); err != nil {
		t.Fatal(err)
	}
	change(m)
	if data, err = json.Marshal(m); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}
