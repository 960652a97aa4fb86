package process_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
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

// TestNodeProcess is no test but the node that TestContainersOutliveTheNode kills.
func TestNodeProcess(t *testing.T) {
	dir := os.Getenv("EDGEPOD_TEST_NODE")
	if dir == "" {
		return // only when started by the other test
	}
	r, err := process.New(process.Config{Dir: dir, ImageDirs: []string{guests(t)}, ChildPath: child(t), MemoryDefault: 256 << 20})
	if err != nil {
		t.Fatal(err)
	}
	s, err := r.Create(t.Context(), sandbox.Spec{ID: "pod1", Annotations: map[string]string{"k": "v"}})
	if err != nil {
		t.Fatal(err)
	}
	for id, args := range map[string][]string{"runs": {"sleep"}, "killed": {"sleep"}, "ends": {"wait", filepath.Join(dir, "go")}} {
		c := spec(t, r, id, "guest.wasm", args...)
		c.Log.Path = filepath.Join(dir, "logs", id, "0.log")
		c.Mounts = []sandbox.Mount{{Source: dir, Target: "/node"}}
		if id == "ends" {
			c.Args = []string{"guest", "wait", "/node/go", "42"}
		}
		start(t, s, c)
	}
	all, err := s.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	line, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stdout.WriteString("STATUS " + string(line) + "\n"); err != nil {
		t.Fatal(err)
	}
	select {} // until killed
}

// killedNode starts a node in a process of its own, kills it with SIGKILL, and returns what it last saw.
func killedNode(t *testing.T, dir string) []sandbox.Status {
	t.Helper()
	node := exec.Command("/proc/self/exe", "-test.run=^TestNodeProcess$")
	child(t)
	node.Env = append(os.Environ(), "EDGEPOD_TEST_NODE="+dir, "TMPDIR="+dir, builtGuests+"="+guests(t))
	node.Stderr = t.Output()
	out, err := node.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := node.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	var seen []sandbox.Status
	for lines.Scan() {
		if data, ok := strings.CutPrefix(lines.Text(), "STATUS "); ok {
			if err := json.Unmarshal([]byte(data), &seen); err != nil {
				t.Fatal(err)
			}
			break
		}
		t.Log(lines.Text())
	}
	if err := node.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = node.Wait() // killed
	if len(seen) != 3 {
		t.Fatalf("the node saw %+v, want three containers", seen)
	}
	return seen
}

func TestContainersOutliveTheNode(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	before := map[string]sandbox.Status{}
	for _, st := range killedNode(t, dir) {
		before[st.ID] = st
	}
	// While no node runs, one container ends by itself and one is killed.
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(before["killed"].PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"ends", "killed"} {
		awaitPID(t, before[id].PID)
	}
	r := open(t, dir)
	all, err := r.List(t.Context())
	if err != nil || len(all) != 1 || all[0].Spec().ID != "pod1" || all[0].Spec().Annotations["k"] != "v" {
		t.Fatalf("list after the restart: %v, %v", all, err)
	}
	s := all[0]
	t.Cleanup(func() {
		if err := s.Remove(context.Background()); err != nil {
			t.Error(err)
		}
	})
	ends, killed := await(t, s, "ends"), await(t, s, "killed")
	after := map[string]sandbox.Status{}
	list, err := s.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, st := range list {
		after[st.ID] = st
	}
	runs := after["runs"]
	if runs.State != sandbox.StateRunning || runs.PID != before["runs"].PID || !runs.StartedAt.Equal(before["runs"].StartedAt) {
		t.Errorf("adopted: %+v, want %+v", runs, before["runs"])
	}
	if ends.Code != 42 || ends.Reason != sandbox.ReasonError {
		t.Errorf("ended by itself meanwhile: %+v, want code 42", ends)
	}
	if killed.Code != 137 || killed.Reason != sandbox.ReasonError {
		t.Errorf("killed meanwhile: %+v, want code 137", killed)
	}
	if err := s.Stop(t.Context(), "runs", time.Minute); err != nil {
		t.Fatal(err)
	}
	if exit := await(t, s, "runs"); exit.Code != 143 {
		t.Errorf("adopted and stopped: %+v, want 143", exit)
	}
}

// awaitPID waits until a process that is no child of this one has ended.
func awaitPID(t *testing.T, pid int) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for time.Now().Before(deadline) {
		data, err := os.ReadFile(filepath.Join("/proc", itoa(pid), "stat"))
		if err != nil || strings.Contains(string(data), ") Z ") {
			return
		}
	}
	t.Fatalf("process %d did not end", pid)
}

func TestProcessThatHasAnothersPIDIsLeftAlone(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir)
	s := create(t, r, "pod1")
	start(t, s, spec(t, r, "c", "guest.wasm", "sleep"))
	if err := s.Stop(t.Context(), "c", 0); err != nil {
		t.Fatal(err)
	}
	await(t, s, "c")
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	// The record now names a process of somebody else, as after a reuse of the pid, and no end is recorded.
	other := exec.Command("sleep", "1000")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	attempt := filepath.Join(dir, "sandboxes", "pod1", "containers", "c")
	rewrite(t, filepath.Join(attempt, "status.json"), func(m map[string]any) { m["pid"] = other.Process.Pid })
	if err := os.Remove(filepath.Join(attempt, "exit.json")); err != nil {
		t.Fatal(err)
	}
	r2 := open(t, dir)
	all, err := r2.List(t.Context())
	if err != nil || len(all) != 1 {
		t.Fatalf("list: %v, %v", all, err)
	}
	if exit := await(t, all[0], "c"); exit.Code != 137 {
		t.Errorf("exit: %+v, want 137", exit)
	}
	if err := all[0].Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := other.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the other process was harmed: %v", err)
	}
	if err := other.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = other.Wait() // killed
}

func TestRecordsOfAnEarlierBootAreNotBelieved(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir)
	s := create(t, r, "pod1")
	st := start(t, s, spec(t, r, "c", "guest.wasm", "sleep"))
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	rewrite(t, filepath.Join(dir, "sandboxes", "pod1", "containers", "c", "status.json"), func(m map[string]any) { m["boot"] = "another" })
	r2 := open(t, dir)
	all, err := r2.List(t.Context())
	if err != nil || len(all) != 1 {
		t.Fatalf("list: %v, %v", all, err)
	}
	if exit := await(t, all[0], "c"); exit.Code != 137 || !strings.Contains(exit.Message, "restarted") {
		t.Errorf("exit: %+v, want 137 and that the machine was restarted", exit)
	}
	if err := syscall.Kill(st.PID, 0); err != nil {
		t.Errorf("the process was touched: %v", err)
	}
	if err := syscall.Kill(st.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

func TestStateThatCannotBeReadIsPutAside(t *testing.T) {
	for _, file := range []string{"sandbox.json", "containers/c/spec.json", "containers/c/status.json"} {
		t.Run(strings.ReplaceAll(file, "/", "_"), func(t *testing.T) {
			dir := t.TempDir()
			r := open(t, dir)
			s := create(t, r, "pod1")
			st := start(t, s, spec(t, r, "c", "guest.wasm", "sleep"))
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "sandboxes", "pod1", file), []byte(`{"spec":{"id`), 0o600); err != nil {
				t.Fatal(err)
			}
			r2 := open(t, dir)
			all, err := r2.List(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			awaitPID(t, st.PID) // nobody would look after it
			for _, s := range all {
				if err := s.Remove(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestNoZombiesAndNoFilesAreLeft(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir)
	s := create(t, r, "pod1")
	c := spec(t, r, "warm", "guest.wasm", "exit", "0")
	start(t, s, c)
	await(t, s, "warm")
	if err := s.Forget(t.Context(), "warm"); err != nil {
		t.Fatal(err)
	}
	before := openFiles(t)
	for i := range 20 {
		c.ID = "c-" + itoa(i)
		st := start(t, s, c)
		await(t, s, c.ID)
		if err := syscall.Kill(st.PID, 0); err == nil {
			t.Errorf("process %d is still there after its end was seen", st.PID)
		}
		if err := s.Forget(t.Context(), c.ID); err != nil {
			t.Fatal(err)
		}
	}
	left, err := filepath.Glob(filepath.Join(dir, "sandboxes", "pod1", "containers", "*"))
	if err != nil || len(left) != 0 {
		t.Errorf("folders left: %v, %v", left, err)
	}
	if err := errors.Join(s.Remove(t.Context()), r.Close()); err != nil { // then nothing happens in the background any more
		t.Fatal(err)
	}
	if after := openFiles(t); after > before {
		t.Errorf("open files: %d before, %d after 20 containers", before, after)
	}
}
