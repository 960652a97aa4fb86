package lifecycle

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"edgepod/wasmrt/sandbox"
)

// Observed is all that is known and remembered about a pod on this node. It is what Plan decides from, what the worker
// checkpoints, and what is read back after a restart of the agent; fields without a place in JSON last as long as the
// process. Its methods are the only ones that change it; Plan never does.
type Observed struct {
	// Node holds the facts and settings of the node.
	Node Node `json:"-"`
	// Halting tells that the node stops its pods for a while: they start again with the next agent.
	Halting bool `json:"-"`
	// Volumes, Sandbox and Release are the three things of the pod as a whole.
	Volumes Task `json:"volumes,omitzero"`
	Sandbox Task `json:"sandbox,omitzero"`
	Release Task `json:"release,omitzero"`
	// Containers by name, those of the pod's specification only.
	Containers map[string]*Container `json:"containers,omitempty"`
	// StopSince is when the first container was told to stop because the pod ends; zero before.
	StopSince time.Time `json:"stopSince,omitzero"`
	// Status is what Plan computed last: the memory of times and of the reason why the pod failed.
	Status corev1.PodStatus `json:"status"`
}

// Node holds what a plan needs to know of the node.
type Node struct {
	HostIP string
	// Restart is the back-off between the restarts of a container, Image that between attempts to pull an image.
	Restart Backoff
	Image   Backoff
	// Retry is the pause before anything else that failed is tried again.
	Retry time.Duration
}

// Backoff is a pause that doubles from Initial to Max. A container that ran for Reset begins at Initial again.
type Backoff struct {
	Initial, Max, Reset time.Duration
}

func (b Backoff) next(last time.Duration) time.Duration {
	return min(max(2*last, b.Initial), b.Max)
}

// Task is one thing of the pod that is done or not.
type Task struct {
	Done bool `json:"done,omitempty"`
	// Stale asks that a done task be done again.
	Stale bool `json:"stale,omitempty"`
	// Busy tells that an action on it is under way.
	Busy    bool    `json:"-"`
	Failure Failure `json:"failure,omitzero"`
}

// Failure is the last failure of a task, zero for none. Delay is the pause before the next attempt, from At on.
type Failure struct {
	Reason  string        `json:"reason,omitempty"`
	Message string        `json:"message,omitempty"`
	At      time.Time     `json:"at,omitzero"`
	Delay   time.Duration `json:"delay,omitempty"`
}

func (f Failure) retryAt() time.Time {
	if f.At.IsZero() {
		return time.Time{}
	}
	return f.At.Add(f.Delay)
}

// freshUntil is how long the failure itself is shown, before the back-off that it caused is.
func (f Failure) freshUntil() time.Time { return f.At.Add(min(f.Delay/2, 5*time.Second)) }

// Container is what is known of one container: of its newest attempt, and what the next one needs.
//
//	""  ──Start begun──► created ──ran──► running ──ended──► exited
//	                       │  ▲                                │
//	                       └──┘ could not be made              └──Start begun──► created (next attempt)
type Container struct {
	// Attempts begun so far; the newest is Attempts-1. In state created it isn't counted as a restart yet.
	Attempts  int           `json:"attempts,omitempty"`
	State     sandbox.State `json:"state,omitempty"`
	StartedAt time.Time     `json:"startedAt,omitzero"`
	// Image is the reference that the newest attempt, or the next one once it is pulled, was made from, Resolved what it
	// stood for.
	Image string `json:"image,omitempty"`
	Resolved
	// Exit of the newest attempt in state exited; Last that of the attempt before the newest.
	Exit *sandbox.Exit `json:"exit,omitempty"`
	Last *sandbox.Exit `json:"last,omitempty"`
	// Interrupted tells that the node ended the newest attempt for its own reasons: it is restarted whatever the policy.
	Interrupted bool `json:"interrupted,omitempty"`
	// Pull is the image of the next attempt, Start the failure to make the attempt in state created.
	Pull  Task    `json:"pull,omitzero"`
	Start Failure `json:"start,omitzero"`
	// Backoff is the pause that follows the newest attempt.
	Backoff time.Duration `json:"backoff,omitempty"`
	// Starting tells that a Start is under way, Made that the runtime shows the attempt in state created. StopBy is when
	// the Stop that is under way kills, zero for no Stop.
	Starting bool      `json:"-"`
	Made     bool      `json:"-"`
	StopBy   time.Time `json:"-"`
}

// Resolved is what the pull of an image has found.
type Resolved struct {
	// Ref is the reference that was pulled, Digest what it stood for.
	Ref    string `json:"pulledImage,omitempty"`
	Digest string `json:"digest,omitempty"`
	// ID is how the API shows the image, Config what it says of how it is run, Note what the user was told of it.
	ID     string              `json:"imageID,omitempty"`
	Config sandbox.ImageConfig `json:"imageConfig,omitzero"`
	Note   string              `json:"imageNote,omitempty"`
}

// imageID is how the API shows the image: by its ID, or the digest where that is all that is known.
func (r *Resolved) imageID() string { return cmp.Or(r.ID, r.Digest) }

// Attempt is the number of the newest attempt, -1 for none.
func (c *Container) Attempt() int { return c.Attempts - 1 }

// RestartCount as the API counts it: attempts that ran, without the first.
func (c *Container) RestartCount() int32 {
	n := c.Attempts - 1
	if c.State == sandbox.StateCreated {
		n--
	}
	return int32(max(n, 0))
}

// alive tells whether a process runs or may be about to.
func (c *Container) alive() bool { return c.Starting || c.stoppable() }

// stoppable tells whether the runtime knows the newest attempt and it has not ended.
func (c *Container) stoppable() bool {
	return c.State == sandbox.StateRunning || c.State == sandbox.StateCreated && c.Made
}

// Container returns what is known of the named container, adding it if need be.
func (o *Observed) Container(name string) *Container {
	c := o.Containers[name]
	if c == nil {
		if o.Containers == nil {
			o.Containers = map[string]*Container{}
		}
		c = &Container{}
		o.Containers[name] = c
	}
	return c
}

// known returns what is known of the named container, never nil, and never stored.
func (o *Observed) known(name string) *Container {
	if c := o.Containers[name]; c != nil {
		return c
	}
	return &Container{}
}

// Restore fills what an agent that lost its checkpoint can learn from the status that the API kept.
func (o *Observed) Restore(status corev1.PodStatus) {
	o.Status = *status.DeepCopy()
	for _, cs := range slices.Concat(status.InitContainerStatuses, status.ContainerStatuses) {
		c := o.Container(cs.Name)
		if t := cs.LastTerminationState.Terminated; t != nil {
			c.Last = exitOf(t)
		}
		switch {
		case cs.State.Running != nil:
			c.Attempts, c.State, c.StartedAt = int(cs.RestartCount)+1, sandbox.StateRunning, cs.State.Running.StartedAt.Time
		case cs.State.Terminated != nil:
			c.Attempts, c.State, c.Exit = int(cs.RestartCount)+1, sandbox.StateExited, exitOf(cs.State.Terminated)
		case c.Last != nil:
			c.Attempts, c.State, c.Exit, c.Last = int(cs.RestartCount)+1, sandbox.StateExited, c.Last, nil
		}
		c.ID, c.Digest = cs.ImageID, cs.ImageID[strings.LastIndexByte(cs.ImageID, '@')+1:]
	}
}

// Evict has the pod end, and fail, for the sake of the node; message says why. A pod that is at its end already stays as it
// is, and Evict returns false.
func (o *Observed) Evict(message string) bool {
	if ended(o.Status.Phase) || cutShort(o.Status) {
		return false
	}
	o.Status.Reason, o.Status.Message = reasonEvicted, message
	return true
}

// Merge takes over what the runtime shows. Attempts that it does not show any more keep the exit that is remembered;
// one that is remembered as running and not shown was lost, with a machine that went down for instance.
func (o *Observed) Merge(shown []sandbox.Status, now time.Time) {
	newest := map[string]sandbox.Status{}
	before := map[string]sandbox.Status{}
	slices.SortFunc(shown, func(a, b sandbox.Status) int { return cmp.Compare(a.Attempt, b.Attempt) })
	for _, st := range shown {
		if old, ok := newest[st.Name]; ok {
			before[st.Name] = old
		}
		newest[st.Name] = st
	}
	for name, st := range newest {
		c := o.Container(name)
		c.Made = st.Attempt >= c.Attempt() && st.State == sandbox.StateCreated
		if st.Attempt < c.Attempt() {
			c.lost(now)
			continue
		}
		c.merge(st)
		if old, ok := before[name]; ok && c.Last == nil && old.Attempt == c.Attempt()-1 {
			c.Last = old.Exit
		}
	}
	for name, c := range o.Containers {
		if _, ok := newest[name]; !ok {
			c.Made = false
			c.lost(now)
		}
	}
}

func (c *Container) merge(st sandbox.Status) {
	if st.Attempt > c.Attempt() {
		if c.State == sandbox.StateExited {
			c.Last = c.Exit
		}
		c.Attempts, c.Exit, c.Start = st.Attempt+1, nil, Failure{}
	}
	if c.State == sandbox.StateExited && c.Exit != nil {
		return
	}
	if st.State == sandbox.StateCreated {
		c.State = sandbox.StateCreated
		return
	}
	c.State, c.StartedAt, c.Start = st.State, st.StartedAt, Failure{}
	c.Image = cmp.Or(st.Image, c.Image)
	if st.Digest != "" && st.Digest != c.Digest {
		c.Resolved = Resolved{Digest: st.Digest}
	}
	if st.State == sandbox.StateExited {
		c.Exit, c.StopBy = st.Exit, time.Time{}
	}
}

func (c *Container) lost(now time.Time) {
	if c.State != sandbox.StateRunning {
		return
	}
	c.State, c.StopBy = sandbox.StateExited, time.Time{}
	c.Exit = &sandbox.Exit{
		Code: 137, Reason: reasonStatusUnknown, StartedAt: c.StartedAt, FinishedAt: now,
		Message: "The container could not be located when the pod was terminated",
	}
}

func exitOf(t *corev1.ContainerStateTerminated) *sandbox.Exit {
	return &sandbox.Exit{
		Code: t.ExitCode, Signal: t.Signal, Reason: t.Reason, Message: t.Message,
		StartedAt: t.StartedAt.Time, FinishedAt: t.FinishedAt.Time,
	}
}
