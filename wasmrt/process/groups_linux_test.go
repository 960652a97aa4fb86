package process_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"edgepod/wasmrt/cgroup"
	"edgepod/wasmrt/sandbox"
)

// groupsEnd waits until the groups of the runtime on dir are as wanted: they go in the background.
func groupsEnd(t *testing.T, dir string, done func([]string) bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !done(groupsOf(t, dir)) {
		if time.Now().After(deadline) {
			t.Fatalf("cgroups are still there: %q", groupsOf(t, dir))
		}
	}
}

func named(groups []string, name string) bool {
	return slices.ContainsFunc(groups, func(g string) bool { return filepath.Base(g) == name })
}

func TestGroupsGoWithTheirSandbox(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir)
	s := create(t, r, "pod1")
	start(t, s, spec(t, r, "runs", "guest.wasm", "sleep"))
	start(t, s, spec(t, r, "ends", "guest.wasm", "exit", "0"))
	if err := s.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	groupsEnd(t, dir, func(all []string) bool { return !named(all, "pod1") })
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if left := groupsOf(t, dir); len(left) > 0 {
		t.Errorf("after Close: %q", left)
	}
}

// TestGroupsOfStoppedPodsComeBack closes a runtime whose pods have been stopped and stay: the machine is clean while no
// node runs, and the next runtime holds the pod to its limits again.
func TestGroupsOfStoppedPodsComeBack(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir)
	s, err := r.Create(t.Context(), sandbox.Spec{ID: "pod1", Limits: sandbox.Limits{Memory: 96 << 20}})
	if err != nil {
		t.Fatal(err)
	}
	start(t, s, spec(t, r, "c", "guest.wasm", "sleep"))
	before := limitsIn(t, dir)
	if err := s.Stop(t.Context(), "c", time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if left := groupsOf(t, dir); len(left) > 0 {
		t.Errorf("after Close: %q", left)
	}
	r2 := open(t, dir)
	all, err := r2.List(t.Context())
	if err != nil || len(all) != 1 {
		t.Fatalf("list: %v, %v", all, err)
	}
	if exit := await(t, all[0], "c"); exit.Code != 143 {
		t.Errorf("exit: %+v, want 143", exit)
	}
	c := spec(t, r2, "c2", "guest.wasm", "sleep")
	start(t, all[0], c)
	if after := limitsIn(t, dir); after != before {
		t.Errorf("memory limits of the pod's group: %q, before the restart %q", after, before)
	}
}

// limitsIn returns the memory limits of the group of pod1, "" where there are none.
func limitsIn(t *testing.T, dir string) string {
	t.Helper()
	var out strings.Builder
	for _, group := range groupsOf(t, dir) {
		if filepath.Base(group) != "pod1" {
			continue
		}
		for _, file := range []string{"memory.limit_in_bytes", "memory.max"} {
			if data, err := os.ReadFile(filepath.Join(group, file)); err == nil {
				out.Write(data)
			}
		}
	}
	return out.String()
}

// TestGroupsLeftByACrashAreSwept makes what a node leaves that dies between the removal of files and that of groups, and
// while it compiles.
func TestGroupsLeftByACrashAreSwept(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir)
	s := create(t, r, "pod1")
	kept := start(t, s, spec(t, r, "kept", "guest.wasm", "sleep"))
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	h := cgroup.Open(cgroup.Config{Name: "edgepod-" + rootHash(dir)})
	lost := h.Root().Child("compile-1")
	strays := []cgroup.Ref{h.Root().Child("gone"), lost, h.Root().Child("pod1").Child("forgotten")}
	for _, ref := range strays {
		if err := h.Create(ref, sandbox.Limits{}); err != nil {
			t.Fatal(err)
		}
	}
	stray := exec.Command("sleep", "1000")
	if err := stray.Start(); err != nil {
		t.Fatal(err)
	}
	if err := h.Add(lost, stray.Process.Pid); err != nil {
		t.Fatal(err)
	}
	if len(lost) == 0 { // no groups on this machine
		_ = stray.Process.Kill()
	}
	r2 := open(t, dir)
	if err := stray.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("process in a group that was left behind: %v, want killed", err)
	}
	for _, name := range []string{"gone", "compile-1", "forgotten"} {
		if named(groupsOf(t, dir), name) {
			t.Errorf("group %s is still there", name)
		}
	}
	all, err := r2.List(context.Background())
	if err != nil || len(all) != 1 {
		t.Fatalf("list: %v, %v", all, err)
	}
	statuses, err := all[0].Status(t.Context())
	if err != nil || len(statuses) != 1 || statuses[0].State != sandbox.StateRunning || statuses[0].PID != kept.PID {
		t.Errorf("the container that was running: %+v, %v", statuses, err)
	}
}

// TestStartThatACrashCutShortIsForgotten makes what a node leaves that dies while it starts a container.
func TestStartThatACrashCutShortIsForgotten(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir)
	s := create(t, r, "pod1")
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	begun := filepath.Join(dir, "sandboxes", "pod1", "containers", "c")
	if err := os.Mkdir(begun, 0o755); err != nil {
		t.Fatal(err)
	}
	r2 := open(t, dir)
	all, err := r2.List(t.Context())
	if err != nil || len(all) != 1 || all[0].Spec().ID != s.Spec().ID {
		t.Fatalf("list: %v, %v", all, err)
	}
	if statuses, err := all[0].Status(t.Context()); err != nil || len(statuses) != 0 {
		t.Errorf("status: %+v, %v; want nothing", statuses, err)
	}
	for _, path := range []string{begun, filepath.Join(dir, "quarantine")} {
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s is there", path)
		}
	}
	start(t, all[0], spec(t, r2, "c", "guest.wasm", "sleep"))
}

// TestAllThreadsAreInTheContainersGroup looks at each thread of a process, some of which are older than its place.
func TestAllThreadsAreInTheContainersGroup(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir)
	s := create(t, r, "pod1")
	st := start(t, s, spec(t, r, "c", "guest.wasm", "sleep"))
	groups := map[string]int{}
	for _, group := range groupsOf(t, dir) {
		if filepath.Base(group) == "c" {
			groups[group] = 0
		}
	}
	tasks, err := filepath.Glob(filepath.Join("/proc", itoa(st.PID), "task", "*"))
	if err != nil || len(tasks) < 2 {
		t.Fatalf("threads: %v, %v", tasks, err)
	}
	for group := range groups {
		file := "tasks"
		if _, err := os.Stat(filepath.Join(group, file)); err != nil {
			file = "cgroup.threads"
		}
		data, err := os.ReadFile(filepath.Join(group, file))
		if err != nil {
			t.Fatal(err)
		}
		inside := strings.Fields(string(data))
		for _, task := range tasks {
			if !slices.Contains(inside, filepath.Base(task)) {
				t.Errorf("thread %s of the container is not in %s, which holds %q", filepath.Base(task), group, inside)
			}
		}
	}
}

// TestFailedSandboxLeavesNothing fails to record a sandbox.
func TestFailedSandboxLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir)
	// A folder where the record should be.
	if err := os.MkdirAll(filepath.Join(dir, "sandboxes", "pod1", "sandbox.json", "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Create(t.Context(), sandbox.Spec{ID: "pod1"}); err == nil {
		t.Error("a sandbox was made that could not be recorded")
	}
	if named(groupsOf(t, dir), "pod1") {
		t.Errorf("its group is still there: %q", groupsOf(t, dir))
	}
	if _, err := os.Stat(filepath.Join(dir, "sandboxes", "pod1")); err == nil {
		t.Error("its folder is still there")
	}
}
