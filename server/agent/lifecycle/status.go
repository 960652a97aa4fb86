package lifecycle

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"edgepod/wasmrt/sandbox"
)

// The waiting reasons of a container that is in back-off.
const (
	ReasonCrashLoopBackOff = "CrashLoopBackOff"
	ReasonImagePullBackOff = "ImagePullBackOff"
)

// More reasons, as Kubernetes spells them.
const (
	reasonContainerCreating = "ContainerCreating"
	reasonPodInitializing   = "PodInitializing"
	reasonStatusUnknown     = "ContainerStatusUnknown"
	reasonDeadlineExceeded  = "DeadlineExceeded"
	reasonEvicted           = "Evicted"
)

const (
	messageDeadline = "Pod was active on the node longer than the specified deadline"
	messageNeverRan = "The container could not be located when the pod was terminated"
)

// status is the pod's complete status. What others wrote into it, such as conditions of their own, is kept.
func (p *planner) status() corev1.PodStatus {
	if ended(p.pod.Status.Phase) && len(p.seen.Containers) == 0 {
		return *p.pod.Status.DeepCopy()
	}
	st := *p.pod.Status.DeepCopy()
	st.ObservedGeneration = p.pod.Generation
	p.startTime(&st)
	st.HostIP, st.HostIPs = p.seen.Node.HostIP, nil
	if st.HostIP != "" {
		st.HostIPs = []corev1.HostIP{{IP: st.HostIP}}
	}
	if st.QOSClass == "" {
		st.QOSClass = qosClass(p.pod)
	}
	switch {
	case p.evicted():
		st.Reason, st.Message = p.seen.Status.Reason, p.seen.Status.Message
	case p.seen.Status.Reason == reasonDeadlineExceeded, p.overdue():
		st.Reason, st.Message = reasonDeadlineExceeded, messageDeadline
	}
	st.InitContainerStatuses = p.containerStatuses(p.pod.Spec.InitContainers, true)
	st.ContainerStatuses = p.containerStatuses(p.pod.Spec.Containers, false)
	st.Phase = p.phase(st)
	st.Conditions = p.conditions(st)
	return st
}

func (p *planner) startTime(st *corev1.PodStatus) {
	if st.StartTime == nil {
		st.StartTime = p.seen.Status.StartTime
	}
	if st.StartTime == nil {
		st.StartTime = seconds(p.now)
	}
}

// cutShort tells whether the node has ended a pod with this status before its containers were done: it has failed as soon
// as nothing of it runs.
func cutShort(st corev1.PodStatus) bool {
	return st.Reason == reasonDeadlineExceeded || st.Reason == reasonEvicted
}

// evicted tells whether this node evicts the pod, whose end the API does not know yet.
func (p *planner) evicted() bool {
	return p.seen.Status.Reason == reasonEvicted && !ended(p.pod.Status.Phase)
}

// overdue tells whether the pod is past its deadline and had not come to its end before.
func (p *planner) overdue() bool {
	return p.pod.DeletionTimestamp == nil && !p.seen.Halting &&
		!ended(p.seen.Status.Phase) && !ended(p.pod.Status.Phase) && !p.completed() && p.deadlineExceeded()
}

// stopped tells whether the pod was ended from outside and nothing of it runs any more.
func (p *planner) stopped() bool {
	if p.pod.DeletionTimestamp == nil && !cutShort(p.seen.Status) && !p.overdue() {
		return false
	}
	for _, c := range p.seen.Containers {
		if c.alive() {
			return false
		}
	}
	return true
}

func (p *planner) containerStatuses(specs []corev1.Container, init bool) []corev1.ContainerStatus {
	if len(specs) == 0 {
		return nil
	}
	out := make([]corev1.ContainerStatus, len(specs))
	for i := range specs {
		out[i] = p.containerStatus(&specs[i], init)
	}
	return out
}

func (p *planner) containerStatus(c *corev1.Container, init bool) corev1.ContainerStatus {
	s := p.seen.known(c.Name)
	ran := s.Attempt()
	if s.State == sandbox.StateCreated {
		ran--
	}
	cs := corev1.ContainerStatus{
		Name: c.Name, Image: cmp.Or(s.Image, c.Image), ImageID: s.imageID(), RestartCount: s.RestartCount(), ContainerID: p.id(c.Name, ran),
	}
	running := s.State == sandbox.StateRunning
	cs.Started, cs.Ready = &running, running
	cs.State, cs.LastTerminationState = p.state(c, s)
	if t := cs.State.Terminated; init && !isSidecar(c) {
		cs.Ready = t != nil && t.ExitCode == 0
	}
	return cs
}

// id is how the API names an attempt.
func (p *planner) id(container string, attempt int) string {
	if attempt < 0 {
		return ""
	}
	return fmt.Sprintf("edgepod://%s/%s-%d", p.pod.UID, container, attempt)
}

// state is the container's state, and the state before it.
func (p *planner) state(c *corev1.Container, s *Container) (now, last corev1.ContainerState) {
	if s.Last != nil {
		last.Terminated = p.terminated(c, s.Last, s.Attempt()-1)
	}
	switch s.State {
	case sandbox.StateRunning:
		now.Running = &corev1.ContainerStateRunning{StartedAt: *seconds(s.StartedAt)}
	case sandbox.StateExited:
		t := p.terminated(c, s.Exit, s.Attempt())
		if w := p.waitingToRestart(c, s); w != nil {
			return corev1.ContainerState{Waiting: w}, corev1.ContainerState{Terminated: t}
		}
		now.Terminated = t
	default:
		if s.Last == nil && p.stopped() {
			now.Terminated = &corev1.ContainerStateTerminated{ExitCode: 137, Reason: reasonStatusUnknown, Message: messageNeverRan}
			return now, last
		}
		now.Waiting = p.waiting(c, s)
	}
	return now, last
}

func (p *planner) terminated(c *corev1.Container, e *sandbox.Exit, attempt int) *corev1.ContainerStateTerminated {
	return &corev1.ContainerStateTerminated{
		ExitCode: e.Code, Signal: e.Signal, Reason: e.Reason, Message: e.Message,
		StartedAt: *seconds(e.StartedAt), FinishedAt: *seconds(e.FinishedAt), ContainerID: p.id(c.Name, attempt),
	}
}

// waitingToRestart is the waiting state of a container that has ended and is to run again, nil for one whose end is
// what there is to show.
func (p *planner) waitingToRestart(c *corev1.Container, s *Container) *corev1.ContainerStateWaiting {
	if p.pod.DeletionTimestamp != nil || p.terminal() {
		return nil
	}
	if s.Interrupted {
		// The API takes back no end that its policy makes final, so that this one is never shown as the state.
		return p.waiting(c, s)
	}
	if p.seen.Halting || !restarts(p.pod, c, s.Exit.Code) {
		return nil
	}
	at := p.restartAt(s)
	if !p.now.Before(at) {
		if s.Pull.Failure.At.IsZero() {
			return nil
		}
		return p.waiting(c, s)
	}
	failure := Failure{At: s.Exit.FinishedAt, Delay: s.Backoff}
	if fresh := failure.freshUntil(); s.Exit.Reason == sandbox.ReasonStartError && p.now.Before(fresh) {
		p.wake(fresh)
		return &corev1.ContainerStateWaiting{Reason: sandbox.ReasonRunContainerError, Message: s.Exit.Message}
	}
	return &corev1.ContainerStateWaiting{
		Reason:  ReasonCrashLoopBackOff,
		Message: fmt.Sprintf("back-off %s restarting failed container=%s pod=%s", s.Backoff, c.Name, podName(p.pod)),
	}
}

// waiting says what a container waits for that has nothing to show yet.
func (p *planner) waiting(c *corev1.Container, s *Container) *corev1.ContainerStateWaiting {
	switch f := s.Pull.Failure; {
	case !s.Start.At.IsZero():
		return &corev1.ContainerStateWaiting{Reason: s.Start.Reason, Message: s.Start.Message}
	case f.At.IsZero():
	case f.Reason != sandbox.ReasonErrImagePull || p.now.Before(f.freshUntil()):
		p.wake(f.freshUntil())
		return &corev1.ContainerStateWaiting{Reason: f.Reason, Message: f.Message}
	default:
		return &corev1.ContainerStateWaiting{
			Reason:  ReasonImagePullBackOff,
			Message: fmt.Sprintf("Back-off pulling image %q: %s: %s", c.Image, f.Reason, f.Message),
		}
	}
	if len(p.pod.Spec.InitContainers) > 0 {
		return &corev1.ContainerStateWaiting{Reason: reasonPodInitializing}
	}
	return &corev1.ContainerStateWaiting{Reason: reasonContainerCreating}
}

// phase sums the containers up. One that was reached at the pod's end stays.
func (p *planner) phase(st corev1.PodStatus) corev1.PodPhase {
	switch {
	case ended(p.pod.Status.Phase):
		return p.pod.Status.Phase
	case ended(p.seen.Status.Phase):
		return p.seen.Status.Phase
	}
	for i := range p.pod.Spec.InitContainers {
		c, s := &p.pod.Spec.InitContainers[i], p.seen.known(p.pod.Spec.InitContainers[i].Name)
		switch {
		case isSidecar(c):
			if s.State != sandbox.StateRunning && !p.begun() && !p.stopped() {
				return corev1.PodPending
			}
		case p.endedForGood(c, s) && s.Exit.Code != 0:
			return corev1.PodFailed
		case (s.State != sandbox.StateExited || s.Exit.Code != 0) && !p.stopped():
			return corev1.PodPending
		}
	}
	return p.mainPhase(st)
}

func (p *planner) mainPhase(st corev1.PodStatus) corev1.PodPhase {
	running, restartable, failed := p.sidecarRuns(), false, false
	for i, cs := range st.ContainerStatuses {
		s := p.seen.known(cs.Name)
		t := cs.State.Terminated
		switch {
		case cs.State.Running != nil:
			running = true
			continue
		case t == nil:
			if t = cs.LastTerminationState.Terminated; t == nil {
				return corev1.PodPending
			}
			restartable = true // it waits to run again
		}
		failed = failed || t.ExitCode != 0
		restartable = restartable || s.Interrupted || restarts(p.pod, &p.pod.Spec.Containers[i], t.ExitCode)
	}
	switch {
	case running:
		return corev1.PodRunning
	case p.stopped() && cutShort(st):
		return corev1.PodFailed
	case restartable && !p.stopped():
		return corev1.PodRunning
	case failed:
		return corev1.PodFailed
	}
	return corev1.PodSucceeded
}

func (p *planner) sidecarRuns() bool {
	return slices.ContainsFunc(p.pod.Spec.InitContainers, func(c corev1.Container) bool {
		return isSidecar(&c) && p.seen.known(c.Name).State == sandbox.StateRunning
	})
}

// seconds is t as the API keeps it.
func seconds(t time.Time) *metav1.Time {
	if t.IsZero() {
		return &metav1.Time{}
	}
	return &metav1.Time{Time: t.Truncate(time.Second)}
}
