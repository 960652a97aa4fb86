package cgroup

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"edgepod/wasmrt/sandbox"
)

// open returns a hierarchy of its own for the test.
func open(t *testing.T) *Hierarchy {
	t.Helper()
	h := Open(Config{Name: "edgepod-test-" + strings.ToLower(filepath.Base(t.TempDir())) + strings.ReplaceAll(t.Name(), "/", "-")})
	t.Cleanup(func() {
		if err := h.Remove(h.Root()); err != nil {
			t.Error(err)
		}
	})
	return h
}

func TestLimitsHoldAndFiguresAreRead(t *testing.T) {
	h := open(t)
	ref := h.Root().Child("pod")
	child := ref.Child("c")
	if err := h.Create(ref, sandbox.Limits{Memory: 64 << 20}); err != nil {
		t.Fatal(err)
	}
	if err := h.Create(child, sandbox.Limits{Memory: 32 << 20, PIDs: 5, CPUShareMilli: 100}); err != nil {
		t.Fatal(err)
	}
	if err := h.SetCPU(child, 250); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := h.Add(child, cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	if len(ref) == 0 { // no groups on this machine: nothing more to see than that all calls succeed
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		return
	}
	if names, err := h.Children(ref); err != nil || !slices.Equal(names, []string{"c"}) {
		t.Errorf("children of the pod's group: %q, %v", names, err)
	}
	u, err := h.Usage(child)
	if err != nil || u.PIDs < 1 {
		t.Errorf("usage of a group with one process: %+v, %v", u, err)
	}
	if n, err := h.OOMKills(child); err != nil || n != 0 {
		t.Errorf("OOM kills of a new group: %d, %v", n, err)
	}
	if err := h.Kill(ref); err != nil { // with all that is within
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("the process ended with %v, want killed", err)
	}
	if err := h.Remove(ref); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Usage(child); !errors.Is(err, ErrNoGroup) {
		t.Errorf("usage after Remove: %v, want ErrNoGroup", err)
	}
	if err := h.Remove(ref); err != nil {
		t.Errorf("second Remove: %v", err)
	}
	if err := h.Kill(ref); err != nil {
		t.Errorf("Kill of a group that has gone: %v", err)
	}
	if names, err := h.Children(ref); err != nil || len(names) > 0 {
		t.Errorf("children of a group that has gone: %q, %v", names, err)
	}
}

func TestDisabledDoesNothingAndSaysSo(t *testing.T) {
	h := Open(Config{Name: "x", Disabled: true})
	if ref := h.Root(); len(ref) != 0 || len(ref.Child("a")) != 0 {
		t.Errorf("root of a disabled hierarchy: %v", ref)
	}
	for _, c := range h.Controllers() {
		if c.Held || c.Reason == "" || c.Fix == "" {
			t.Errorf("controller %+v, want not held with a reason and a fix", c)
		}
	}
}

// TestVersion2 runs against the version 2 tree that many machines of version 1 mount beside it, without controllers.
func TestVersion2(t *testing.T) {
	mount := "/sys/fs/cgroup/unified"
	if _, err := os.Stat(filepath.Join(mount, "cgroup.procs")); err != nil {
		mount = "/sys/fs/cgroup"
	}
	tree := openV2(Config{Name: "edgepod-test-v2"}, mount)
	h := &Hierarchy{tree}
	if len(h.Root()) == 0 {
		for _, c := range h.Controllers() {
			if c.Held || c.Reason == "" {
				t.Errorf("without a group: %+v", c)
			}
		}
		return
	}
	ref := h.Root().Child("pod")
	if err := h.Create(ref, sandbox.Limits{Memory: 64 << 20, PIDs: 64}); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := h.Add(ref, cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	if err := h.Kill(h.Root()); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("the process ended well, want killed")
	}
	if err := h.Remove(h.Root()); err != nil {
		t.Fatal(err)
	}
}

// TestGroupsOfVersion1AreNoneInVersion2 looks at what was stored before the machine changed its version: a path that is
// empty in the new tree must not be taken for the root of all groups.
func TestGroupsOfVersion1AreNoneInVersion2(t *testing.T) {
	mount := t.TempDir() // stands in for the tree, so that a failure harms nobody
	other := filepath.Join(mount, "other")
	if err := os.Mkdir(other, 0o755); err != nil {
		t.Fatal(err)
	}
	h := &Hierarchy{&v2{mount: mount, base: Ref{unified: "/edgepod"}, enabled: names}}
	foreign := Ref{"memory": "/x", "pids": "/x"}
	if err := errors.Join(h.Create(foreign, sandbox.Limits{Memory: 1}), h.Add(foreign, os.Getpid()), h.SetCPU(foreign, 1), h.Kill(foreign),
		h.Remove(foreign)); err != nil {
		t.Error(err)
	}
	if names, err := h.Children(foreign); err != nil || len(names) > 0 {
		t.Errorf("children: %q, %v", names, err)
	}
	if _, err := h.Usage(foreign); !errors.Is(err, ErrNoGroup) {
		t.Errorf("usage: %v, want ErrNoGroup", err)
	}
	if _, err := os.Stat(other); err != nil {
		t.Errorf("another's group: %v", err)
	}
}

func TestConversions(t *testing.T) {
	for _, tt := range []struct {
		milli          int64
		quota          int64
		shares, weight uint64
	}{
		{milli: 1, quota: 1000, shares: 2, weight: 1},
		{milli: 250, quota: 25000, shares: 256, weight: 10},
		{milli: 1000, quota: 100000, shares: 1024, weight: 39},
		{milli: 1 << 40, quota: 1 << 40 * 100, shares: 262144, weight: 10000},
	} {
		if got := quota(tt.milli); got != tt.quota {
			t.Errorf("quota(%d) = %d, want %d", tt.milli, got, tt.quota)
		}
		if got := shares(tt.milli); got != tt.shares {
			t.Errorf("shares(%d) = %d, want %d", tt.milli, got, tt.shares)
		}
		if got := weight(tt.milli); got != tt.weight {
			t.Errorf("weight(%d) = %d, want %d", tt.milli, got, tt.weight)
		}
	}
	if got := pids(1); got != MinPIDs {
		t.Errorf("pids(1) = %d, want %d", got, MinPIDs)
	}
}
