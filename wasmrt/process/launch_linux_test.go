package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"edgepod/wasmrt/container"
)

// TestProcessIsClonedIntoItsGroup uses the version 2 tree, which many machines of version 1 mount as well.
func TestProcessIsClonedIntoItsGroup(t *testing.T) {
	mount := "/sys/fs/cgroup/unified"
	if _, err := os.Stat(filepath.Join(mount, "cgroup.procs")); err != nil {
		mount = "/sys/fs/cgroup"
	}
	const name = "edgepod-test-clone"
	group := filepath.Join(mount, name)
	if err := os.Mkdir(group, 0o755); errors.Is(err, fs.ErrPermission) {
		return // nor could a container be put there
	} else if err != nil && !errors.Is(err, fs.ErrExist) {
		t.Fatal(err)
	}
	folder, err := os.Open(group)
	if err != nil {
		t.Fatal(err)
	}
	l := &launcher{program: self}
	c, err := l.start(container.JobProbe, nil, folder)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", c.proc.pid))
	if err != nil || !strings.Contains(string(data), "/"+name+"\n") {
		t.Errorf("groups of the process: %q, %v; want %s", data, err, name)
	}
	c.abandon()
	if err := folder.Close(); err != nil {
		t.Fatal(err)
	}
	for began := time.Now(); ; {
		if err = syscall.Rmdir(group); !errors.Is(err, syscall.EBUSY) || time.Since(began) > time.Minute {
			break
		}
	}
	if err != nil {
		t.Error(err)
	}
}

func TestAbandonedProcessIsReaped(t *testing.T) {
	l := &launcher{program: self}
	c, err := l.start(container.JobProbe, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	pid, tick := c.proc.pid, c.proc.startTick
	same, err := adoptProc(pid, tick)
	if err != nil {
		t.Fatalf("adopt a running process: %v", err)
	}
	if _, err := adoptProc(pid, tick+1); !errors.Is(err, errGone) {
		t.Errorf("adopt with another start tick: %v, want errGone", err)
	}
	c.abandon()
	if err := same.wait(); err != nil {
		t.Errorf("wait through the second handle: %v", err)
	}
	if _, known := same.reap(); known {
		t.Error("the process was reaped twice")
	}
	if err := same.signal(syscall.SIGKILL); err != nil {
		t.Errorf("signal to an ended process: %v", err)
	}
	same.close()
	if err := same.signal(syscall.SIGKILL); err != nil {
		t.Errorf("signal through a closed handle: %v", err)
	}
	if _, err := adoptProc(pid, tick); !errors.Is(err, errGone) {
		t.Errorf("adopt an ended process: %v, want errGone", err)
	}
}

func TestThreadOfItsOwnIsNeverTheFirstAndEnds(t *testing.T) {
	for range 200 {
		var tid int
		onThreadOfItsOwn(func() { tid = unix.Gettid() })
		if tid == 0 || tid == os.Getpid() {
			t.Fatalf("it ran on thread %d of process %d", tid, os.Getpid())
		}
		thread := fmt.Sprintf("/proc/self/task/%d", tid)
		for began := time.Now(); ; {
			if _, err := os.Stat(thread); errors.Is(err, fs.ErrNotExist) {
				break
			}
			if time.Since(began) > time.Minute {
				t.Fatalf("thread %d did not end", tid)
			}
		}
	}
}
