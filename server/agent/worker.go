package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"edgepod/server/agent/lifecycle"
	"edgepod/server/agent/volume"
	"edgepod/wasmrt/sandbox"
)

// worker looks after one pod, in one goroutine: it takes what has happened, asks the plan what to do, and does that.
//
//	informer, runtime, results, timer ─► take ─► Plan ─► checkpoint ─► actions (goroutines) ─► results
//	                                              └────► report (at most one under way)
type worker struct {
	*Agent
	uid    types.UID
	ref    string // namespace/name
	folder podFolder
	log    *slog.Logger
	box    mailbox
	viewMu sync.Mutex
	view   view
	// halted is closed once nothing runs of a pod that is to halt.
	halted chan struct{}

	// What follows belongs to the worker's goroutine.
	pod     *corev1.Pod // nil: gone from the API
	known   bool        // pod has been set
	seen    lifecycle.Observed
	sandbox sandbox.Sandbox
	look    bool            // the runtime is to be asked
	changed <-chan struct{} // closed when the runtime may have something new
	report  report
	gauge   gauge
	saved   []byte
	acts    sync.WaitGroup
	results chan func()
	quit    chan struct{} // closed when nobody reads results any more
	volumes sync.Mutex    // held by the action that uses the volumes
}

// mailbox is what others leave for a worker. Newer replaces older.
type mailbox struct {
	mu      sync.Mutex
	pod     *corev1.Pod
	gone    bool
	stale   bool // a config map or a secret has changed
	halt    bool
	changed chan struct{} // holds one
}

func newMailbox() mailbox { return mailbox{changed: make(chan struct{}, 1)} }

func (m *mailbox) put(change func(*mailbox)) {
	m.mu.Lock()
	change(m)
	m.mu.Unlock()
	select {
	case m.changed <- struct{}{}:
	default:
	}
}

func (w *worker) setPod(pod *corev1.Pod) { w.box.put(func(m *mailbox) { m.pod = pod }) }
func (w *worker) setGone()               { w.box.put(func(m *mailbox) { m.gone = true }) }
func (w *worker) setStale()              { w.box.put(func(m *mailbox) { m.stale = true }) }
func (w *worker) setHalt()               { w.box.put(func(m *mailbox) { m.halt = true }) }

// run works until the pod is forgotten or ctx ends; containers run on then.
func (w *worker) run(ctx context.Context) {
	defer w.acts.Wait()
	defer close(w.quit)
	defer w.sources.use(w.uid, nil, nil)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		w.take()
		w.observe(ctx)
		var wake time.Time
		if w.known {
			var done bool
			if wake, done = w.step(ctx); done {
				return
			}
		} else if w.seen.Halting {
			w.closeHalted() // whose pod this is, the API has not told yet
		}
		timer.Stop()
		if !wake.IsZero() {
			timer.Reset(max(time.Until(wake), time.Millisecond))
		}
		select {
		case <-ctx.Done():
		case <-w.box.changed:
		case <-w.changed:
		case <-timer.C:
		case result := <-w.results:
			result()
		}
	}
}

// tell hands a result to the worker's goroutine. After the end of run it is lost: the next agent sees for itself.
func (w *worker) tell(result func()) {
	select {
	case w.results <- result:
	case <-w.quit:
	}
}

// take takes over what others have left.
func (w *worker) take() {
	w.box.mu.Lock()
	pod, gone, stale := w.box.pod, w.box.gone, w.box.stale
	w.box.pod, w.box.stale = nil, false
	w.seen.Halting = w.box.halt
	w.box.mu.Unlock()
	if pod != nil && !gone {
		w.adopt(pod)
	}
	if stale {
		w.retryNow()
	}
	if gone && (w.pod != nil || !w.known) {
		w.pod, w.known = nil, true
	}
}

// adopt makes pod the one that is wanted, unless a newer state of it is known from an answer of the API.
func (w *worker) adopt(pod *corev1.Pod) {
	if w.pod != nil && older(pod, w.pod) {
		return
	}
	if !w.known {
		w.begin(pod)
	} else if w.pod != nil && (!maps.Equal(pod.Labels, w.pod.Labels) || !maps.Equal(pod.Annotations, w.pod.Annotations)) {
		w.seen.Volumes.Stale = w.seen.Volumes.Done && projectsFields(pod)
	}
	w.pod, w.known = pod, true
}

// begin is called with the first pod that is seen of a worker without a checkpoint: what the API knows is all there is to
// remember, and the runtime is asked on top of it.
func (w *worker) begin(pod *corev1.Pod) {
	w.seen.Restore(pod.Status)
	w.look = true
	w.watchSources(pod)
}

func (w *worker) watchSources(pod *corev1.Pod) {
	if keys := references(pod); len(keys) > 0 {
		w.sources.use(w.uid, keys, w.setStale)
	}
}

// retryNow tries again what may have failed for a config map or a secret, without the pause.
func (w *worker) retryNow() {
	w.seen.Volumes.Failure = lifecycle.Failure{}
	w.seen.Volumes.Stale = w.seen.Volumes.Done
	for _, c := range w.seen.Containers {
		if c.Start.Reason == sandbox.ReasonCreateContainerConfigError {
			c.Start = lifecycle.Failure{}
		}
		if w.pod != nil && len(w.pod.Spec.ImagePullSecrets) > 0 {
			c.Pull.Failure.Delay = 0
		}
	}
}

// observe asks the runtime if something may have changed since it was asked last. w.changed is what tells of that.
func (w *worker) observe(ctx context.Context) {
	if w.sandbox == nil {
		if w.look {
			w.seen.Merge(nil, time.Now())
		}
		w.look, w.changed = false, nil
		return
	}
	select {
	case <-w.changed:
		w.look = true
	default:
		w.look = w.look || w.changed == nil
	}
	if !w.look {
		return
	}
	// In this order, a change while the status is read is not missed.
	w.look, w.changed = false, w.sandbox.Changed()
	statuses, err := w.sandbox.Status(ctx)
	if err != nil {
		if ctx.Err() == nil {
			w.log.Error("state of the containers", "err", err)
		}
		return
	}
	w.seen.Merge(statuses, time.Now())
}

// step asks the plan and does what it says. It returns when to look again, and whether the pod is forgotten.
func (w *worker) step(ctx context.Context) (wake time.Time, done bool) {
	now := time.Now()
	w.seen.Node = w.facts()
	plan := lifecycle.Plan(w.pod, w.seen, now)
	w.recordBackOff(w.seen.Status, plan.Status)
	w.seen.Status = plan.Status
	w.show()
	wake = plan.Wake
	reported, at := w.reportStatus(ctx, now, len(plan.Actions) > 0)
	wake = sooner(sooner(wake, at), w.measure(ctx, now))
	var actions []lifecycle.Action
	for _, a := range plan.Actions {
		switch a.(type) {
		case lifecycle.Forget:
			return time.Time{}, w.forget()
		case lifecycle.Release:
			if !reported {
				continue
			}
		}
		a.Begin(&w.seen, now)
		actions = append(actions, a)
	}
	w.save()
	for _, a := range actions {
		w.act(ctx, a)
	}
	if w.seen.Halting && len(actions) == 0 && w.ended() {
		w.closeHalted()
	}
	return wake, false
}

// ended tells whether no container runs or is about to.
func (w *worker) ended() bool {
	for _, c := range w.seen.Containers {
		if c.State == sandbox.StateRunning || c.Starting || c.Made {
			return false
		}
	}
	return true
}

func (w *worker) closeHalted() {
	select {
	case <-w.halted:
	default:
		close(w.halted)
	}
}

// save writes the checkpoint if it differs from the last one.
func (w *worker) save() {
	if w.pod == nil {
		return
	}
	pod := *w.pod
	pod.ManagedFields = nil
	data, err := json.Marshal(checkpoint{Pod: &pod, Observed: w.seen})
	if err == nil && !bytes.Equal(data, w.saved) {
		if err = w.folder.save(data); err == nil {
			w.saved = data
		}
	}
	if err != nil {
		w.log.Error("checkpoint", "err", err)
	}
}

// forget removes the last traces of the pod.
func (w *worker) forget() bool {
	folder := volume.Folder{Dir: w.folder.volumes()}
	err := folder.Remove()
	if err == nil {
		err = w.folder.remove()
	}
	if err != nil {
		w.log.Error("remove the pod's folder", "err", err)
	}
	w.closeHalted()
	w.remove(w)
	w.log.Info("pod is gone")
	return true
}

func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func projectsFields(pod *corev1.Pod) bool {
	for _, v := range pod.Spec.Volumes {
		if v.DownwardAPI != nil {
			return true
		}
		if v.Projected == nil {
			continue
		}
		for _, s := range v.Projected.Sources {
			if s.DownwardAPI != nil {
				return true
			}
		}
	}
	return false
}
