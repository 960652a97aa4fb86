package process_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"edgepod/wasmrt/process"
	"edgepod/wasmrt/sandbox"
)

// open returns a runtime on dir. With the test, its sandboxes are removed, unless it was closed before, and it is closed;
// then no cgroup may be left.
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
		left, err := r.List(context.Background())
		if err != nil {
			t.Error(err)
		}
		for _, s := range left {
			if err := s.Remove(context.Background()); err != nil && !strings.Contains(err.Error(), "closed") {
				t.Error(err)
			}
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if left := groupsOf(t, dir); len(left) > 0 {
			t.Errorf("cgroups left: %q", left)
		}
	})
	return r
}

// groupsOf returns the folders of the cgroups of the runtime on dir, in whichever tree.
func groupsOf(t testing.TB, dir string) []string {
	t.Helper()
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil // a system without cgroups
	}
	name := "edgepod-" + rootHash(dir)
	var found []string
	for line := range strings.Lines(string(own)) {
		// NUMBER:CONTROLLER:PATH in version 1, 0::PATH in version 2
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		for _, parent := range []string{fields[2], "/"} {
			root := filepath.Join("/sys/fs/cgroup", fields[1], parent, name)
			_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
				if err == nil && d.IsDir() && !slices.Contains(found, path) {
					found = append(found, path)
				}
				return nil // what has gone meanwhile is what is wanted
			})
		}
	}
	return found
}

// rootHash is what the name of the group of the runtime on dir ends with.
func rootHash(dir string) string {
	sum := sha256.Sum256([]byte(dir))
	return hex.EncodeToString(sum[:6])
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
	img, err := r.Pull(t.Context(), sandbox.PullRequest{Ref: "./" + module, Policy: sandbox.PullIfNotPresent})
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

// TestStopIsSeenByGuestsThatWaitForIt lets one end by itself, and kills one that goes on.
func TestStopIsSeenByGuestsThatWaitForIt(t *testing.T) {
	r := open(t, t.TempDir())
	s := create(t, r, "pod1")
	c := spec(t, r, "heeds", "guest.wasm", "heed", "5")
	start(t, s, c)
	awaitOutput(t, c.Log.Path, "waiting\n")
	if err := s.Stop(t.Context(), "heeds", time.Minute); err != nil {
		t.Fatal(err)
	}
	if exit := await(t, s, "heeds"); exit.Code != 5 || exit.Signal != 0 || logged(t, c.Log.Path) != "waiting\nasked to stop\n" {
		t.Errorf("exit %+v, log %q; want the guest's own end", exit, logged(t, c.Log.Path))
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

func TestDamagedFilesAreMadeAnew(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir)
	s := create(t, r, "pod1")
	c := spec(t, r, "before", "guest.wasm", "exit", "5")
	// A module is read where its code is gone.
	for i, patterns := range [][]string{{"code/*/code/wazero-*/*"}, {"code/*/module.wasm"}, {"images/modules/*", "code/*/code/wazero-*/*"}} {
		for _, pattern := range patterns {
			flip(t, filepath.Join(dir, pattern))
		}
		c.ID = "c-" + itoa(i)
		start(t, s, c)
		if exit := await(t, s, c.ID); exit.Code != 5 {
			t.Errorf("after damage to %s: %+v, want code 5", patterns, exit)
		}
	}
}

// flip changes a bit of the one file that matches.
func flip(t *testing.T, pattern string) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) != 1 {
		t.Fatalf("%s: %v, %v; want one file", pattern, files, err)
	}
	data, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 0x40
	if err := os.WriteFile(files[0], data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestLimitsOfCPUAreSet(t *testing.T) {
	r := open(t, t.TempDir())
	s := create(t, r, "pod1")
	c := spec(t, r, "c", "guest.wasm", "loop")
	c.Limits.CPUMilli, c.Limits.PIDs = 100, 1
	start(t, s, c)
	stats, err := s.Stats(t.Context(), "c")
	if err != nil || stats.PIDs < 2 {
		t.Errorf("stats: %+v, %v", stats, err)
	}
	if err := s.Stop(t.Context(), "c", 0); err != nil {
		t.Fatal(err)
	}
}

func TestStateFolderThatCannotBeWrittenIsAnError(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := process.New(process.Config{Dir: filepath.Join(file, "state")}); err == nil || !strings.Contains(err.Error(), "state folder") {
		t.Errorf("New beneath a file: %v, want an error that names the state folder", err)
	}
	if _, err := process.New(process.Config{}); err == nil {
		t.Error("New without a folder succeeded")
	}
}

func TestChildHoldsNoOtherDescriptorAndNoRights(t *testing.T) {
	r := open(t, t.TempDir())
	s := create(t, r, "pod1")
	st := start(t, s, spec(t, r, "c", "guest.wasm", "sleep"))
	data, err := os.ReadFile(filepath.Join("/proc", itoa(st.PID), "status"))
	if err != nil {
		t.Fatal(err)
	}
	fields := map[string]string{}
	for line := range strings.Lines(string(data)) {
		key, value, _ := strings.Cut(line, ":")
		fields[key] = strings.TrimSpace(value)
	}
	for key, want := range map[string]string{"NoNewPrivs": "1", "Seccomp": "2", "CapEff": "0000000000000000", "CapPrm": "0000000000000000"} {
		if fields[key] != want {
			t.Errorf("%s of the child: %q, want %q", key, fields[key], want)
		}
	}
	if os.Geteuid() == 0 && strings.HasPrefix(fields["Uid"], "0\t") {
		t.Errorf("the child runs as root: %s", fields["Uid"])
	}
	env, err := os.ReadFile(filepath.Join("/proc", itoa(st.PID), "environ"))
	if err == nil && string(env) != "GOMAXPROCS=2\x00" {
		t.Errorf("environment of the child: %q, want nothing of its parent's", env)
	}
}

func TestManyPodsAtOnce(t *testing.T) {
	r := open(t, t.TempDir())
	c := spec(t, r, "c", "guest.wasm", "exit", "9")
	var pods sync.WaitGroup
	for i := range 30 {
		s := create(t, r, "pod-"+itoa(i))
		mine := c
		mine.Log.Path = filepath.Join(t.TempDir(), itoa(i), "0.log")
		pods.Go(func() {
			if _, err := s.Start(t.Context(), mine); err != nil {
				t.Errorf("start: %v", err)
				return
			}
			for {
				changed := s.Changed()
				if all, err := s.Status(t.Context()); err != nil || all[0].Exit != nil {
					if err != nil || all[0].Exit.Code != 9 {
						t.Errorf("status: %+v, %v", all, err)
					}
					return
				}
				<-changed
			}
		})
	}
	pods.Wait()
}

func TestStopReachesAContainerThatIsBeingStarted(t *testing.T) {
	r := open(t, t.TempDir())
	s := create(t, r, "pod1")
	c := spec(t, r, "c", "guest.wasm", "sleep")
	for i := range 10 {
		c.ID = "c-" + itoa(i)
		var starting sync.WaitGroup
		starting.Go(func() { _, _ = s.Start(t.Context(), c) }) // fails where Stop was faster
		for {
			all, err := s.Status(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if len(all) > 0 {
				break
			}
		}
		if err := s.Stop(t.Context(), c.ID, 0); err != nil && !errors.Is(err, sandbox.ErrNotFound) {
			t.Fatal(err)
		}
		starting.Wait()
		all, err := s.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, st := range all {
			if st.State != sandbox.StateExited {
				t.Errorf("after Stop: %+v", st)
			}
			if err := s.Forget(t.Context(), st.ID); err != nil {
				t.Fatal(err)
			}
		}
	}
}
