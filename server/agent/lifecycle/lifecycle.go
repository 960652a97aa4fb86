// Package lifecycle is the life of a pod on its node as a function: from what is wanted, what is seen and the time to the
// status to report, the actions to do and the moment to look again. It does no I/O, keeps no memory and reads no clock.
package lifecycle

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"edgepod/wasmrt/sandbox"
)

// vanishedGrace is what containers get whose pod is gone from the API: it was deleted with force, or deleted while the
// agent was away for longer than the API waits.
const vanishedGrace = time.Second

// Step is what Plan wants.
type Step struct {
	// Status to report, complete.
	Status corev1.PodStatus
	// Actions to do, in order; none when the pod is settled. Those that the plan gave before and that are under way are
	// not repeated.
	Actions []Action
	// Wake is when to look again even if nothing happens; zero: only on events.
	Wake time.Time
}

// Plan compares what the API wants with what the node shows. A nil pod is one that is gone from the API.
//
//	volumes ┐
//	sandbox ├─► init containers, one by one ─► containers ─► ended: remove sandbox, volumes
//	images  ┘                                                deleted: stop, remove, release ─► gone: forget
func Plan(pod *corev1.Pod, seen Observed, now time.Time) Step {
	p := &planner{pod: pod, seen: &seen, now: now}
	switch {
	case pod == nil:
		p.vanish()
		p.step.Status = seen.Status
		return p.step
	case seen.Halting:
		p.stopAll(p.specGrace())
	case pod.DeletionTimestamp != nil:
		p.delete()
	case p.evicted():
		p.end(min(p.specGrace(), evictionGrace))
	case p.terminal():
		p.end(p.specGrace())
	default:
		p.run()
	}
	p.step.Status = p.status()
	return p.step
}

// evictionGrace is the most that the containers of an evicted pod get to end.
const evictionGrace = time.Second

// planner collects one step.
type planner struct {
	pod  *corev1.Pod
	seen *Observed
	now  time.Time
	step Step
}

func (p *planner) do(a Action) { p.step.Actions = append(p.step.Actions, a) }

// wake asks to look again at t, if that is in the future.
func (p *planner) wake(t time.Time) {
	if t.After(p.now) && (p.step.Wake.IsZero() || t.Before(p.step.Wake)) {
		p.step.Wake = t
	}
}

// due tells whether t has come; if not, it asks to be woken then.
func (p *planner) due(t time.Time) bool {
	p.wake(t)
	return !p.now.Before(t)
}

// vanish takes down what is left of a pod that the API does not have any more.
func (p *planner) vanish() {
	for _, name := range sortedNames(p.seen.Containers) {
		p.stop(name, vanishedGrace)
	}
	if p.cleaned() {
		p.do(Forget{})
	}
}

// delete takes a pod down that is being deleted.
func (p *planner) delete() {
	grace := p.specGrace()
	if s := p.pod.DeletionGracePeriodSeconds; s != nil {
		grace = time.Duration(*s) * time.Second
	}
	if !p.end(grace) {
		return
	}
	if r := p.seen.Release; !r.Done && !r.Busy && p.due(r.Failure.retryAt()) {
		p.do(Release{})
	}
}

// end stops all containers and then removes sandbox and volumes; it tells whether all that is done.
func (p *planner) end(grace time.Duration) bool {
	p.stopAll(grace)
	return p.cleaned()
}

// cleaned removes sandbox and volumes once nothing runs; it tells whether they are gone.
func (p *planner) cleaned() bool {
	for _, c := range p.seen.Containers {
		if c.alive() {
			return false
		}
	}
	gone := p.undo(p.seen.Sandbox, RemoveSandbox{})
	return gone && p.undo(p.seen.Volumes, RemoveVolumes{})
}

func (p *planner) undo(t Task, remove Action) bool {
	if t.Busy {
		return false
	}
	if t.Done && (t.Stale || p.due(t.Failure.retryAt())) { // of a stale task, the failure was to bring it up to date
		p.do(remove)
	}
	return !t.Done
}

// stopAll stops the containers, and the sidecars in reverse order when the others have ended.
func (p *planner) stopAll(grace time.Duration) {
	alive := false
	for _, c := range p.pod.Spec.Containers {
		alive = p.stop(c.Name, grace) || alive
	}
	inits := p.pod.Spec.InitContainers
	for i := len(inits) - 1; i >= 0 && !(alive && isSidecar(&inits[i])); i-- {
		alive = p.stop(inits[i].Name, grace) || alive
	}
}

// stop ends a container that is alive, within grace from the moment when the pod began to stop. It tells whether the
// container is alive.
func (p *planner) stop(name string, grace time.Duration) bool {
	c := p.seen.known(name)
	if !c.stoppable() || c.Starting {
		return c.alive()
	}
	since := p.seen.StopSince
	if since.IsZero() {
		since = p.now
	}
	deadline := since.Add(grace)
	if !c.StopBy.IsZero() && !deadline.Before(c.StopBy) && !p.due(c.StopBy.Add(p.seen.Node.Retry)) {
		return true
	}
	p.do(Stop{Container: name, Attempt: c.Attempt(), Grace: max(deadline.Sub(p.now), 0)})
	return true
}

func (p *planner) specGrace() time.Duration {
	if s := p.pod.Spec.TerminationGracePeriodSeconds; s != nil {
		return time.Duration(*s) * time.Second
	}
	return corev1.DefaultTerminationGracePeriodSeconds * time.Second
}

// terminal tells whether the pod has come to its end: its containers have, it was cut short, or the API says so.
func (p *planner) terminal() bool {
	if ended(p.pod.Status.Phase) || ended(p.seen.Status.Phase) || cutShort(p.seen.Status) {
		return true
	}
	if p.completed() {
		return true
	}
	return p.deadlineExceeded()
}

func (p *planner) deadlineExceeded() bool {
	s := p.pod.Spec.ActiveDeadlineSeconds
	start := p.seen.Status.StartTime
	return s != nil && start != nil && p.due(start.Add(time.Duration(*s)*time.Second))
}

// completed tells whether each container has ended for good, or an init container failed for good.
func (p *planner) completed() bool {
	for i := range p.pod.Spec.InitContainers {
		c := &p.pod.Spec.InitContainers[i]
		if s := p.seen.known(c.Name); !isSidecar(c) && p.endedForGood(c, s) && s.Exit.Code != 0 {
			return true
		}
	}
	for i := range p.pod.Spec.Containers {
		c := &p.pod.Spec.Containers[i]
		if !p.endedForGood(c, p.seen.known(c.Name)) {
			return false
		}
	}
	return true
}

func (p *planner) endedForGood(c *corev1.Container, s *Container) bool {
	return s.State == sandbox.StateExited && s.Exit != nil && !s.Interrupted && !restarts(p.pod, c, s.Exit.Code)
}

// run brings the pod up and keeps it up.
func (p *planner) run() {
	ready := p.ensure(p.seen.Volumes, PrepareVolumes{})
	if ready || !hasHostPath(p.pod) { // whose sandbox depends on what the host has
		ready = p.ensure(p.seen.Sandbox, CreateSandbox{}) && ready
	}
	for i := range p.pod.Spec.InitContainers {
		c := &p.pod.Spec.InitContainers[i]
		s := p.seen.known(c.Name)
		if !isSidecar(c) && s.State == sandbox.StateExited && s.Exit.Code == 0 && !s.Interrupted {
			continue
		}
		p.container(c, ready)
		if !isSidecar(c) || s.State != sandbox.StateRunning && !p.begun() {
			return
		}
	}
	for i := range p.pod.Spec.Containers {
		p.container(&p.pod.Spec.Containers[i], ready)
	}
}

func hasHostPath(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.HostPath != nil })
}

// begun tells whether any main container has been started: the pod is initialised then, whatever its sidecars do.
func (p *planner) begun() bool {
	for _, c := range p.pod.Spec.Containers {
		if p.seen.known(c.Name).Attempts > 0 {
			return true
		}
	}
	return false
}

func (p *planner) ensure(t Task, make Action) bool {
	if (!t.Done || t.Stale) && !t.Busy && p.due(t.Failure.retryAt()) {
		p.do(make)
	}
	return t.Done
}

// container starts the container's next attempt if it is to run and does not; ready tells that all it needs is there.
func (p *planner) container(c *corev1.Container, ready bool) {
	s := p.seen.known(c.Name)
	changed := s.Image != "" && s.Image != c.Image
	if changed && s.State == sandbox.StateRunning {
		p.replace(s, c.Name)
	}
	if s.alive() || s.Pull.Busy {
		return
	}
	attempt, backoff := max(s.Attempt(), 0), s.Backoff
	if s.State == sandbox.StateExited {
		if !s.Interrupted && !restarts(p.pod, c, s.Exit.Code) {
			return
		}
		if !p.due(p.restartAt(s)) {
			return
		}
		attempt, backoff = s.Attempts, p.nextBackoff(s)
	}
	switch {
	case !p.due(s.Start.retryAt()):
	case !s.Pull.Done || changed:
		if p.due(s.Pull.Failure.retryAt()) {
			p.do(Pull{Container: c.Name, Image: c.Image, Policy: sandbox.PullPolicy(c.ImagePullPolicy)})
		}
	case ready:
		p.do(Start{Container: c.Name, Attempt: attempt, Backoff: backoff})
	}
}

// replace stops a container whose image has changed, so that it starts again with the new one.
func (p *planner) replace(s *Container, name string) {
	if s.StopBy.IsZero() || p.due(s.StopBy.Add(p.seen.Node.Retry)) {
		p.do(Stop{Container: name, Attempt: s.Attempt(), Grace: p.specGrace(), Replace: true})
	}
}

// restartAt is when the container that ended may be started again: at once the first time, then after a pause that
// doubles with each restart.
func (p *planner) restartAt(s *Container) time.Time {
	if s.Interrupted || p.ranLong(s) {
		return time.Time{}
	}
	return s.Exit.FinishedAt.Add(s.Backoff)
}

func (p *planner) nextBackoff(s *Container) time.Duration {
	if s.Interrupted {
		return s.Backoff
	}
	if p.ranLong(s) {
		return p.seen.Node.Restart.Initial
	}
	return p.seen.Node.Restart.next(s.Backoff)
}

func (p *planner) ranLong(s *Container) bool {
	e := s.Exit
	return !e.StartedAt.IsZero() && e.FinishedAt.Sub(e.StartedAt) > p.seen.Node.Restart.Reset
}

// podName is how messages name the pod.
func podName(pod *corev1.Pod) string {
	return fmt.Sprintf("%s_%s(%s)", pod.Name, pod.Namespace, pod.UID)
}
