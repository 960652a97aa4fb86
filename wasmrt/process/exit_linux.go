package process

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"edgepod/wasmrt/atomicfile"
	"edgepod/wasmrt/container"
	"edgepod/wasmrt/sandbox"
)

// watch waits for the process's end in the background, until the runtime is closed.
func (a *attempt) watch(proc *proc) {
	r := a.pod.rt
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		proc.close()
		return
	}
	r.watchers.Go(func() {
		if err := proc.wait(); err != nil {
			return // closed: whoever comes next adopts the process
		}
		how, known := proc.reap()
		proc.close()
		if err := a.ended(how, known); err != nil {
			r.log.Error("record the end of a container", "container", a.spec.ID, "err", err)
		}
	})
}

// ended records how the attempt ended, and clears up what needs no process any more: the kernel may take a while for that,
// so the news goes first.
func (a *attempt) ended(how ended, known bool) error {
	exit, err := a.exitRecord(how, known)
	a.announce(exit)
	defer close(a.cleared)
	return errors.Join(err, a.pod.rt.groups.Remove(a.group))
}

func (a *attempt) announce(exit sandbox.Exit) {
	a.pod.mu.Lock()
	defer a.pod.mu.Unlock()
	a.noticeStart()
	if exit.StartedAt.IsZero() {
		exit.StartedAt = a.status.StartedAt
	}
	a.status.State, a.status.Exit, a.proc = sandbox.StateExited, &exit, nil
	close(a.done)
	a.pod.notify()
}

// noticeStart reads when the guest began, where its process has said so and nobody has heard. The caller holds the lock.
func (a *attempt) noticeStart() {
	var started container.Started
	if a.status.StartedAt.IsZero() &&
		atomicfile.ReadJSON(filepath.Join(a.dir, outDir, container.StartFile), &started, maxRecord) == nil {
		a.status.State, a.status.StartedAt = sandbox.StateRunning, started.StartedAt
	}
}

// maxRecord bounds the files that a container's process writes for its parent.
const maxRecord = 64 << 10

// exitRecord returns what the process recorded of its end, or what can be told from outside, which is kept for later.
func (a *attempt) exitRecord(how ended, known bool) (sandbox.Exit, error) {
	var exit sandbox.Exit
	err := atomicfile.ReadJSON(filepath.Join(a.dir, outDir, container.ExitFile), &exit, maxRecord)
	if err == nil {
		return sane(exit), nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		a.pod.rt.log.Warn("exit record is unreadable and is not used", "container", a.spec.ID, "err", err)
	}
	kept := filepath.Join(a.dir, exitFile)
	if err := atomicfile.ReadJSON(kept, &exit, maxRecord); err == nil {
		return sane(exit), nil
	}
	exit = a.derive(how, known)
	return exit, atomicfile.WriteJSON(kept, exit, false)
}

// sane holds what a process wrote to what the seam promises: it may have been taken over by its guest.
func sane(e sandbox.Exit) sandbox.Exit {
	known := []string{sandbox.ReasonCompleted, sandbox.ReasonError, sandbox.ReasonOOMKilled, sandbox.ReasonCannotRun, sandbox.ReasonStartError}
	if !slices.Contains(known, e.Reason) || e.Reason == sandbox.ReasonCompleted && e.Code != 0 {
		e.Reason = sandbox.ReasonError
	}
	if e.FinishedAt.IsZero() || e.FinishedAt.After(time.Now()) {
		e.FinishedAt = time.Now()
	}
	const most = 4096
	if len(e.Message) > most {
		e.Message = strings.ToValidUTF8(e.Message[:most], "")
	}
	return e
}

// derive tells how a process ended that could not say so itself: it was killed, or its engine crashed.
func (a *attempt) derive(how ended, known bool) sandbox.Exit {
	exit := sandbox.Exit{Reason: sandbox.ReasonError, FinishedAt: time.Now()}
	complaint := a.complaint()
	switch {
	case known:
		exit.Code, exit.Signal = how.code, how.signal
	case complaint != "":
		const goCrash = 2
		exit.Code = goCrash
	default:
		exit.Code, exit.Signal = 128+int32(syscall.SIGKILL), int32(syscall.SIGKILL)
	}
	switch {
	case a.oomKilled(), complaint != "" && !a.pod.rt.holds("memory"), lackedMemory(complaint):
		// Without a memory cgroup the engine itself hits the limit, and crashes in one of many ways.
		exit.Code, exit.Signal = 128+int32(syscall.SIGKILL), int32(syscall.SIGKILL)
		exit.Reason = sandbox.ReasonOOMKilled
		exit.Message = "the container used more memory than its limit"
	case complaint != "":
		exit.Message = "the engine failed: " + complaint
	}
	if exit.Code == 0 {
		// It ended as if well, without its record: the disk may be full.
		exit.Reason = sandbox.ReasonCompleted
	}
	return exit
}

// oomKilled tells whether the kernel killed a process of this very container for want of memory.
func (a *attempt) oomKilled() bool {
	n, err := a.pod.rt.groups.OOMKills(a.group)
	return err == nil && n > 0
}
