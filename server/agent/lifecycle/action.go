package lifecycle

import (
	"fmt"
	"time"

	"edgepod/wasmrt/sandbox"
)

// Action is one thing that the worker is to do. The kinds are those of this file.
type Action interface {
	fmt.Stringer
	// Begin records in seen that the action is under way. It is called before the action runs.
	Begin(seen *Observed, now time.Time)
	// End records how it ended.
	End(seen *Observed, result Result, now time.Time)
}

// Result of an action. Reason is the waiting reason of a failure, where the action knows one.
type Result struct {
	Err    error
	Reason string
	// Image is what a Pull has found; Status is the attempt that a Start has begun.
	Image  Resolved
	Status *sandbox.Status
}

// PrepareVolumes makes the pod's volumes, or brings their content up to date.
type PrepareVolumes struct{}

func (PrepareVolumes) String() string { return "prepare volumes" }

// Begin implements Action.
func (PrepareVolumes) Begin(seen *Observed, _ time.Time) {
	seen.Volumes.Busy, seen.Volumes.Stale = true, false
}

// End implements Action.
func (PrepareVolumes) End(seen *Observed, r Result, now time.Time) {
	done := seen.Volumes.Done
	seen.Volumes.end(r, now, seen.Node.Retry)
	if r.Err != nil {
		seen.Volumes.Done, seen.Volumes.Stale = done, done
	}
}

// CreateSandbox makes the pod's environment.
type CreateSandbox struct{}

func (CreateSandbox) String() string { return "create sandbox" }

// Begin implements Action.
func (CreateSandbox) Begin(seen *Observed, _ time.Time) { seen.Sandbox.Busy = true }

// End implements Action.
func (CreateSandbox) End(seen *Observed, r Result, now time.Time) {
	seen.Sandbox.end(r, now, seen.Node.Retry)
}

// Pull makes the image of a container's next attempt ready.
type Pull struct {
	Container, Image string
	Policy           sandbox.PullPolicy
}

func (a Pull) String() string {
	return fmt.Sprintf("pull %s for %s (%s)", a.Image, a.Container, a.Policy)
}

// Begin implements Action.
func (a Pull) Begin(seen *Observed, _ time.Time) {
	c := seen.Container(a.Container)
	c.Pull.Busy, c.Image = true, a.Image
}

// End implements Action.
func (a Pull) End(seen *Observed, r Result, now time.Time) {
	c := seen.Container(a.Container)
	delay := seen.Node.Image.next(c.Pull.Failure.Delay)
	c.Pull.end(r, now, delay)
	c.Pull.Failure.Reason = r.Reason
	if r.Err == nil {
		c.Resolved, c.Pull.Failure = r.Image, Failure{}
	}
}

// Start begins one attempt of a container. Backoff is the pause that will follow it.
type Start struct {
	Container string
	Attempt   int
	Backoff   time.Duration
}

func (a Start) String() string { return fmt.Sprintf("start %s attempt %d", a.Container, a.Attempt) }

// Begin implements Action.
func (a Start) Begin(seen *Observed, _ time.Time) {
	c := seen.Container(a.Container)
	if c.State == sandbox.StateExited {
		c.Last, c.Exit = c.Exit, nil
	}
	c.Attempts, c.State, c.Backoff = a.Attempt+1, sandbox.StateCreated, a.Backoff
	c.Starting, c.Interrupted, c.Pull.Done, c.StartedAt = true, false, false, time.Time{}
	seen.StopSince = time.Time{}
}

// End implements Action. A container that was made and could not run has had its attempt; one that could not be made is
// tried again with the same number.
func (a Start) End(seen *Observed, r Result, now time.Time) {
	c := seen.Container(a.Container)
	c.Starting = false
	if r.Status != nil {
		c.merge(*r.Status)
	}
	if r.Err == nil || c.State == sandbox.StateExited {
		return
	}
	if r.Reason == sandbox.ReasonRunContainerError {
		c.State, c.Start = sandbox.StateExited, Failure{}
		c.Exit = &sandbox.Exit{
			Code: 128, Reason: sandbox.ReasonStartError, Message: r.Err.Error(), StartedAt: now, FinishedAt: now,
		}
		return
	}
	c.State = sandbox.StateCreated
	if imageReason(r.Reason) {
		c.Pull.Failure = Failure{r.Reason, r.Err.Error(), now, seen.Node.Image.next(c.Pull.Failure.Delay)}
		return
	}
	c.Pull.Done = true
	c.Start = Failure{Reason: r.Reason, Message: r.Err.Error(), At: now, Delay: seen.Node.Retry}
}

// Stop ends an attempt, killing it when Grace has passed. Doing it again with less grace shortens it. Replace tells that
// the pod goes on, and the container is to start again in its new shape.
type Stop struct {
	Container string
	Attempt   int
	Grace     time.Duration
	Replace   bool
}

func (a Stop) String() string {
	verb := "stop"
	if a.Replace {
		verb = "replace"
	}
	return fmt.Sprintf("%s %s attempt %d within %s", verb, a.Container, a.Attempt, a.Grace)
}

// Begin implements Action.
func (a Stop) Begin(seen *Observed, now time.Time) {
	c := seen.Container(a.Container)
	c.StopBy = now.Add(a.Grace)
	c.Interrupted = c.Interrupted || seen.Halting || a.Replace
	if seen.StopSince.IsZero() && !a.Replace {
		seen.StopSince = now
	}
}

// End implements Action. A failure is tried again after a pause.
func (a Stop) End(seen *Observed, r Result, now time.Time) {
	if c := seen.Container(a.Container); r.Err != nil && c.Attempt() == a.Attempt {
		c.StopBy = now
	}
}

// RemoveSandbox removes the pod's environment.
type RemoveSandbox struct{}

func (RemoveSandbox) String() string { return "remove sandbox" }

// Begin implements Action.
func (RemoveSandbox) Begin(seen *Observed, _ time.Time) { seen.Sandbox.Busy = true }

// End implements Action.
func (RemoveSandbox) End(seen *Observed, r Result, now time.Time) {
	seen.Sandbox.undo(r, now, seen.Node.Retry)
}

// RemoveVolumes removes the pod's volumes with what is in them.
type RemoveVolumes struct{}

func (RemoveVolumes) String() string { return "remove volumes" }

// Begin implements Action.
func (RemoveVolumes) Begin(seen *Observed, _ time.Time) { seen.Volumes.Busy = true }

// End implements Action.
func (RemoveVolumes) End(seen *Observed, r Result, now time.Time) {
	seen.Volumes.undo(r, now, seen.Node.Retry)
}

// Release lets the pod's object go from the API, once its last status is there.
type Release struct{}

func (Release) String() string { return "release" }

// Begin implements Action.
func (Release) Begin(seen *Observed, _ time.Time) { seen.Release.Busy = true }

// End implements Action.
func (Release) End(seen *Observed, r Result, now time.Time) {
	seen.Release.end(r, now, seen.Node.Retry)
}

// Forget removes the pod's folder with its logs and everything remembered of it. It is the last action of a pod.
type Forget struct{}

func (Forget) String() string { return "forget" }

// Begin implements Action.
func (Forget) Begin(*Observed, time.Time) {}

// End implements Action.
func (Forget) End(*Observed, Result, time.Time) {}

func (t *Task) end(r Result, now time.Time, delay time.Duration) {
	t.Busy, t.Done = false, r.Err == nil
	t.fail(r, now, delay)
}

func (t *Task) undo(r Result, now time.Time, delay time.Duration) {
	t.Busy, t.Done, t.Stale = false, r.Err != nil, false
	t.fail(r, now, delay)
}

func (t *Task) fail(r Result, now time.Time, delay time.Duration) {
	t.Failure = Failure{}
	if r.Err != nil {
		t.Failure = Failure{Reason: r.Reason, Message: r.Err.Error(), At: now, Delay: delay}
	}
}

func imageReason(reason string) bool {
	switch reason {
	case sandbox.ReasonErrImagePull, sandbox.ReasonInvalidImageName, sandbox.ReasonErrImageNeverPull, sandbox.ReasonImageInspectError:
		return true
	}
	return false
}
