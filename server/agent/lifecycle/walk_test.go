package lifecycle_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"edgepod/server/agent/lifecycle"
	"edgepod/wasmrt/sandbox"
)

// world is a runtime and an API that exist in the test alone, around one pod. Actions take time and may fail; containers
// end when they like; the agent may be killed at any moment.
type world struct {
	t    *testing.T
	rand *rand.Rand
	now  time.Time
	pod  *corev1.Pod
	seen lifecycle.Observed
	// flight are the actions under way.
	flight []flight
	// box is what the runtime has, nil without a sandbox.
	box      map[string][]sandbox.Status
	calm     bool // nothing fails and no container ends any more
	released bool
	over     bool
	evicted  bool
	trail    []string
}

type flight struct {
	action lifecycle.Action
	ends   time.Time
}

func newWorld(t *testing.T, seed uint64) *world {
	r := rand.New(rand.NewPCG(seed, 1))
	policies := []corev1.RestartPolicy{corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u", Generation: 1}}
	pod.Spec.RestartPolicy = policies[r.IntN(3)]
	grace := int64(r.IntN(40))
	pod.Spec.TerminationGracePeriodSeconds = &grace
	if r.IntN(5) == 0 {
		deadline := int64(1 + r.IntN(200))
		pod.Spec.ActiveDeadlineSeconds = &deadline
	}
	for i := range r.IntN(3) {
		c := corev1.Container{Name: fmt.Sprintf("i%d", i)}
		if r.IntN(2) == 0 {
			always := corev1.ContainerRestartPolicyAlways
			c.RestartPolicy = &always
		}
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
	}
	for i := range 1 + r.IntN(3) {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: fmt.Sprintf("c%d", i)})
	}
	return &world{t: t, rand: r, now: caseNow, pod: pod, seen: lifecycle.Observed{Node: testNode}}
}

func (w *world) note(format string, args ...any) {
	w.trail = append(w.trail, w.now.Sub(caseNow).String()+" "+fmt.Sprintf(format, args...))
}

func (w *world) fatal(format string, args ...any) {
	w.t.Helper()
	for _, line := range w.trail[max(0, len(w.trail)-60):] {
		w.t.Log(line)
	}
	w.t.Fatalf(format, args...)
}

func (w *world) chance(n int) bool { return !w.calm && w.rand.IntN(n) == 0 }

// plan asks for a step and begins its actions.
func (w *world) plan() lifecycle.Step {
	w.merge()
	step := lifecycle.Plan(w.pod, w.seen, w.now)
	w.seen.Status = step.Status
	if w.pod != nil {
		w.pod.Status = step.Status
	}
	w.checkPhase(step.Status.Phase)
	for _, a := range step.Actions {
		w.check(a)
		a.Begin(&w.seen, w.now)
		w.note("begin %s", a)
		if _, ok := a.(lifecycle.Forget); ok {
			w.over = true
			return step
		}
		w.flight = append(w.flight, flight{a, w.now.Add(time.Duration(w.rand.IntN(3000)) * time.Millisecond)})
	}
	return step
}

// checkPhase holds that no pod has ended of which a container runs or is about to.
func (w *world) checkPhase(phase corev1.PodPhase) {
	w.t.Helper()
	if w.pod == nil || phase != corev1.PodSucceeded && phase != corev1.PodFailed {
		return
	}
	for _, c := range w.pod.Spec.Containers {
		if s := w.seen.Containers[c.Name]; s != nil && (s.Starting || s.State == sandbox.StateRunning) {
			w.fatal("the pod is %s and %s is %+v", phase, c.Name, *s)
		}
	}
}

// check holds the promises that each action must keep.
func (w *world) check(a lifecycle.Action) {
	w.t.Helper()
	start, ok := a.(lifecycle.Start)
	if !ok {
		return
	}
	if w.pod == nil || w.pod.DeletionTimestamp != nil || w.seen.Halting || w.evicted {
		w.fatal("%s of a pod that is to end", a)
	}
	if w.box == nil {
		w.fatal("%s without a sandbox", a)
	}
	for _, f := range w.flight {
		if other, ok := f.action.(lifecycle.Start); ok && other.Container == start.Container {
			w.fatal("%s while %s is under way", a, other)
		}
	}
	attempts := w.box[start.Container]
	if n := len(attempts); n > 0 {
		last := attempts[n-1]
		if last.State != sandbox.StateExited {
			w.fatal("%s while attempt %d runs", a, last.Attempt)
		}
		c := w.seen.Containers[start.Container]
		again := c.State == sandbox.StateExited && !c.Interrupted
		if again && w.pod.Spec.RestartPolicy == corev1.RestartPolicyNever && !w.sidecar(start.Container) {
			w.fatal("%s although the pod never restarts", a)
		}
	}
}

func (w *world) sidecar(name string) bool {
	return slices.ContainsFunc(w.pod.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == name && c.RestartPolicy != nil })
}

func (w *world) merge() {
	var all []sandbox.Status
	for _, list := range w.box {
		all = append(all, list...)
	}
	w.seen.Merge(all, w.now)
}

// land ends the actions whose time has come.
func (w *world) land() {
	for i := 0; i < len(w.flight); {
		f := w.flight[i]
		if f.ends.After(w.now) {
			i++
			continue
		}
		w.flight = slices.Delete(w.flight, i, i+1)
		r := w.perform(f.action)
		w.note("end %s: %v", f.action, r.Err)
		f.action.End(&w.seen, r, w.now)
	}
}

func (w *world) perform(a lifecycle.Action) lifecycle.Result {
	if w.chance(6) {
		reasons := []string{
			sandbox.ReasonCreateContainerConfigError, sandbox.ReasonRunContainerError, sandbox.ReasonErrImagePull, sandbox.ReasonInvalidImageName,
		}
		return lifecycle.Result{Err: errors.New("chance"), Reason: reasons[w.rand.IntN(len(reasons))]}
	}
	switch a := a.(type) {
	case lifecycle.CreateSandbox:
		w.box = map[string][]sandbox.Status{}
	case lifecycle.Start:
		st := sandbox.Status{Name: a.Container, Attempt: a.Attempt, State: sandbox.StateRunning, StartedAt: w.now}
		w.box[a.Container] = append(w.box[a.Container], st)
		return lifecycle.Result{Status: &st}
	case lifecycle.Stop:
		w.exit(a.Container, 143)
	case lifecycle.RemoveSandbox:
		w.box = nil
	case lifecycle.Release:
		w.released = true
	}
	return lifecycle.Result{Image: lifecycle.Resolved{Digest: "sha256:aa"}}
}

func (w *world) exit(name string, code int32) {
	list := w.box[name]
	if len(list) == 0 || list[len(list)-1].State == sandbox.StateExited {
		return
	}
	last := &list[len(list)-1]
	last.State = sandbox.StateExited
	last.Exit = &sandbox.Exit{Code: code, Reason: "Error", StartedAt: last.StartedAt, FinishedAt: w.now}
	w.note("%s attempt %d ended with %d", name, last.Attempt, code)
}

// stir lets something happen.
func (w *world) stir() {
	switch {
	case w.chance(4):
		for name := range w.box {
			w.exit(name, int32(w.rand.IntN(2)))
			break
		}
	case w.chance(25):
		w.restartAgent()
	case w.pod != nil && w.pod.DeletionTimestamp == nil && w.chance(60):
		w.delete(int64(w.rand.IntN(30)))
	case w.pod != nil && w.chance(150):
		w.note("vanished")
		w.pod = nil
	case w.pod != nil && w.chance(80):
		if w.evicted = w.seen.Evict("too big") || w.evicted; w.evicted {
			w.note("evicted")
		}
	case w.chance(100):
		w.note("halt")
		w.seen.Halting = true
	}
}

func (w *world) delete(grace int64) {
	w.note("deleted")
	at := metav1.NewTime(w.now.Add(time.Duration(grace) * time.Second))
	w.pod.DeletionTimestamp, w.pod.DeletionGracePeriodSeconds = &at, &grace
}

// restartAgent keeps the checkpoint alone. Actions under way are lost; the runtime carries starts through.
func (w *world) restartAgent() {
	w.note("agent restarted")
	for _, f := range w.flight {
		if _, ok := f.action.(lifecycle.Start); ok {
			w.perform(f.action)
		}
	}
	w.flight = nil
	data, err := json.Marshal(w.seen)
	if err != nil {
		w.fatal("checkpoint: %v", err)
	}
	w.seen = lifecycle.Observed{Node: testNode}
	if err := json.Unmarshal(data, &w.seen); err != nil {
		w.fatal("checkpoint: %v", err)
	}
	w.seen.Sandbox.Done = w.box != nil
}

// settle lets time pass until the plan wants nothing and waits for nothing.
func (w *world) settle() {
	w.calm = true
	for range 2000 {
		w.land()
		step := w.plan()
		if w.over {
			return
		}
		if len(step.Actions) == 0 && len(w.flight) == 0 && step.Wake.IsZero() {
			if again := w.plan(); len(again.Actions) > 0 {
				w.fatal("a settled pod's plan is %v", again.Actions)
			}
			return
		}
		next := step.Wake
		for _, f := range w.flight {
			if next.IsZero() || f.ends.Before(next) {
				next = f.ends
			}
		}
		if next.After(w.now) {
			w.now = next
		}
	}
	w.fatal("the pod does not settle")
}

func TestPlanKeepsItsPromisesWhateverHappens(t *testing.T) {
	for seed := range uint64(1500) {
		w := newWorld(t, seed)
		for range 200 {
			w.land()
			w.plan()
			if w.over || w.released {
				break
			}
			w.stir()
			w.now = w.now.Add(time.Duration(w.rand.IntN(4000)) * time.Millisecond)
		}
		if w.over {
			continue
		}
		w.restartAgent() // ends a halt
		w.settle()
		if w.over {
			continue
		}
		if st := w.pod.Status; w.evicted && (st.Phase != corev1.PodFailed || st.Reason != "Evicted" || st.Message != "too big") {
			w.fatal("seed %d: an evicted pod is %s (%s: %s)", seed, st.Phase, st.Reason, st.Message)
		}
		if w.pod.DeletionTimestamp == nil {
			w.delete(10)
			w.settle()
		}
		if !w.released {
			w.fatal("seed %d: a deleted pod was not released", seed)
		}
		w.pod = nil
		if w.settle(); !w.over {
			w.fatal("seed %d: a pod that is gone was not forgotten", seed)
		}
	}
}

func TestBackOffDoublesExactlyOverAgentRestarts(t *testing.T) {
	w := newWorld(t, 1)
	w.calm = true
	w.pod.Spec = corev1.PodSpec{RestartPolicy: corev1.RestartPolicyAlways, Containers: []corev1.Container{{Name: "c"}}}
	run := func() {
		for range 20 {
			for i := range w.flight {
				w.flight[i].ends = w.now
			}
			w.land()
			if step := w.plan(); len(step.Actions) == 0 && len(w.flight) == 0 {
				return
			}
		}
	}
	run()
	want := []int{0, 10, 20, 40, 80, 160, 300, 300, 300, 300}
	for i, seconds := range want {
		w.exit("c", 1)
		ended := w.now
		w.merge()
		w.restartAgent()
		run()
		for w.box["c"][len(w.box["c"])-1].State == sandbox.StateExited {
			step := w.plan()
			if step.Wake.IsZero() {
				w.fatal("crash %d: no moment to look again", i)
			}
			w.now = step.Wake
			run()
		}
		if got := w.now.Sub(ended); got != time.Duration(seconds)*time.Second {
			w.fatal("restart %d came after %s, want %ds", i+1, got, seconds)
		}
		if got := w.plan().Status.ContainerStatuses[0].RestartCount; got != int32(i+1) {
			w.fatal("restart count %d, want %d", got, i+1)
		}
	}
}
