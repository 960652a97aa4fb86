package controller

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"edgepod/server/registry"
)

// evictionBrake is the share of lost nodes, in percent, beyond which it is rather this server that lost its network: then no
// pod is evicted for that reason.
const evictionBrake = 55

// tolerationMost is the longest time in seconds, a century, that is told from ever.
const tolerationMost = 100 * 365 * 24 * 3600

// evictionRetry is how long to wait after an eviction that could not be written.
const evictionRetry = 5 * time.Second

// Eviction deletes pods from nodes with a taint NoExecute that they do not tolerate, or not for as long as it is there.
type Eviction struct {
	config Config
	log    *slog.Logger
	events *recorder
	view   evictionView
}

// evictionView is all that the plan looks at. Only pods with a node and nodes with a taint NoExecute are in it.
type evictionView struct {
	pods    map[string]map[types.UID]*corev1.Pod // by node
	tainted map[string][]noExecute
	nodes   int
	// since is when this loop began to count, for the taints of lost nodes anew after the brake: what was before that may be
	// the server's own absence.
	since, released time.Time
	braked          bool
}

// noExecute is a taint and when it was put, or seen first where it does not say so.
type noExecute struct {
	taint corev1.Taint
	since time.Time
}

// NewEviction returns the loop.
func NewEviction(config Config) *Eviction {
	return &Eviction{
		config: config, log: config.logger("eviction"), events: newRecorder(config.Verbs, "taint-eviction-controller"),
		view: evictionView{pods: map[string]map[types.UID]*corev1.Pod{}, tainted: map[string][]noExecute{}},
	}
}

// Run implements Loop.
func (e *Eviction) Run(ctx context.Context) error {
	var wait sync.WaitGroup
	defer wait.Wait()
	e.view.since = time.Now()
	changes := make(chan told)
	for _, resource := range []string{"nodes", "pods"} {
		wait.Go(func() {
			follow(ctx, e.config, e.log, "", resource, func(c []change) {
				select {
				case changes <- told{resource: resource, changes: c}:
				case <-ctx.Done():
				}
			})
		})
	}
	unsynced := map[string]bool{"nodes": true, "pods": true}
	var timer <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer:
		case told := <-changes:
			if told.changes == nil {
				delete(unsynced, told.resource)
			}
			if !e.view.take(told, time.Now()) && told.changes != nil {
				continue
			}
		}
		timer = nil
		if len(unsynced) > 0 {
			continue
		}
		if next := e.evict(ctx, time.Now()); !next.IsZero() {
			timer = time.After(time.Until(next))
		}
	}
}

// evict does what the plan says and returns when to look again.
func (e *Eviction) evict(ctx context.Context, now time.Time) time.Time {
	if braked := e.view.brake(now); braked {
		e.log.Warn("too many nodes are lost at once: their pods stay", "nodes", e.view.nodes)
	}
	pods, next := planEviction(&e.view, now)
	for _, pod := range pods {
		err := e.remove(ctx, pod, now)
		if err != nil && ctx.Err() == nil {
			e.log.Warn("evict", "pod", pod.Namespace+"/"+pod.Name, "node", pod.Spec.NodeName, "err", err)
			return now.Add(evictionRetry)
		}
		e.view.dropPod(pod)
	}
	return next
}

// remove deletes the pod as a user would: an agent that is there gives it its grace period.
func (e *Eviction) remove(ctx context.Context, pod *corev1.Pod, now time.Time) error {
	_, err := e.config.Verbs.Delete(ctx, e.config.Verbs.Resource("", "pods"), registry.DeleteRequest{
		Namespace: pod.Namespace, Name: pod.Name,
		Options: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}},
	})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	if err != nil {
		return err
	}
	e.log.Info("pod is evicted", "pod", pod.Namespace+"/"+pod.Name, "node", pod.Spec.NodeName)
	_, err = e.events.create(ctx, pod, notice{
		kind: corev1.EventTypeNormal, reason: "TaintManagerEviction", at: now,
		message: "Marking for deletion Pod " + pod.Namespace + "/" + pod.Name,
	}, 1)
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// take brings the view up to date and tells whether that can change the plan.
func (v *evictionView) take(told told, now time.Time) (matters bool) {
	for _, c := range told.changes {
		if told.resource == "nodes" {
			before, after := typed[corev1.Node](c)
			matters = v.takeNode(before, after, now) || matters
			continue
		}
		before, after := typed[corev1.Pod](c)
		if before != nil {
			v.dropPod(before)
		}
		if after == nil || after.Spec.NodeName == "" || after.DeletionTimestamp != nil || ended(after) {
			continue
		}
		node := after.Spec.NodeName
		if v.pods[node] == nil {
			v.pods[node] = map[types.UID]*corev1.Pod{}
		}
		v.pods[node][after.UID] = after
		matters = matters || len(v.tainted[node]) > 0
	}
	return matters
}

func (v *evictionView) dropPod(pod *corev1.Pod) {
	on := v.pods[pod.Spec.NodeName]
	delete(on, pod.UID)
	if len(on) == 0 {
		delete(v.pods, pod.Spec.NodeName)
	}
}

func (v *evictionView) takeNode(before, after *corev1.Node, now time.Time) (matters bool) {
	if before == nil {
		v.nodes++
	}
	if after == nil {
		v.nodes--
		delete(v.tainted, before.Name)
		return true
	}
	var taints []noExecute
	for _, taint := range after.Spec.Taints {
		if taint.Effect == corev1.TaintEffectNoExecute {
			taints = append(taints, noExecute{taint: taint, since: v.taintedSince(after.Name, taint, now)})
		}
	}
	had := v.tainted[after.Name]
	if len(taints) == 0 {
		delete(v.tainted, after.Name)
	} else {
		v.tainted[after.Name] = taints
	}
	return before == nil || !slices.EqualFunc(had, taints, func(a, b noExecute) bool { return a.taint.MatchTaint(&b.taint) && a.taint.Value == b.taint.Value })
}

// taintedSince is when the taint was put: what it says, or else when this loop saw it first.
func (v *evictionView) taintedSince(node string, taint corev1.Taint, now time.Time) time.Time {
	if taint.TimeAdded != nil {
		return taint.TimeAdded.Time
	}
	for _, known := range v.tainted[node] {
		if known.taint.MatchTaint(&taint) && known.taint.Value == taint.Value {
			return known.since
		}
	}
	return now
}

// brake decides whether so many nodes are lost that their pods must stay, and tells whether that is new. When it is over, the
// taints of nodes that are still lost count from then.
func (v *evictionView) brake(now time.Time) (started bool) {
	lost := 0
	for _, taints := range v.tainted {
		if slices.ContainsFunc(taints, func(t noExecute) bool { return tellsLoss(t.taint) }) {
			lost++
		}
	}
	braked := lost*100 > v.nodes*evictionBrake
	if v.braked && !braked {
		v.released = now
	}
	started = braked && !v.braked
	v.braked = braked
	return started
}

// tellsLoss tells whether the taint is one that this server puts on nodes it does not hear of, or that are not ready.
func tellsLoss(taint corev1.Taint) bool {
	return taint.Key == corev1.TaintNodeUnreachable || taint.Key == corev1.TaintNodeNotReady
}

// planEviction returns the pods whose time on their node is up, and when that of the next one will be.
func planEviction(v *evictionView, now time.Time) (evict []*corev1.Pod, next time.Time) {
	for node, taints := range v.tainted {
		for _, pod := range v.pods[node] {
			at, ends := v.endOf(pod, taints)
			switch {
			case !ends:
			case !at.After(now):
				evict = append(evict, pod)
			case next.IsZero() || at.Before(next):
				next = at
			}
		}
	}
	slices.SortFunc(evict, func(a, b *corev1.Pod) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	return evict, next
}

// endOf is when the pod's time on a node with these taints is up. It counts from the latest of: the taint was put, the pod
// was bound, this loop began.
func (v *evictionView) endOf(pod *corev1.Pod, taints []noExecute) (end time.Time, ends bool) {
	for _, t := range taints {
		since := latest(t.since, boundAt(pod), v.since)
		if tellsLoss(t.taint) {
			if v.braked {
				continue
			}
			since = latest(since, v.released)
		}
		tolerated, limit := tolerance(pod, t.taint)
		switch {
		case !tolerated:
			return time.Time{}, true
		case limit == nil:
			continue
		}
		at := since.Add(time.Duration(min(max(*limit, 0), tolerationMost)) * time.Second)
		if !ends || at.Before(end) {
			end, ends = at, true
		}
	}
	return end, ends
}

// tolerance tells whether the pod tolerates the taint, and for how many seconds if not for ever: the first toleration that
// matches counts.
func tolerance(pod *corev1.Pod, taint corev1.Taint) (tolerated bool, limit *int64) {
	for _, t := range pod.Spec.Tolerations {
		if t.Effect != "" && t.Effect != taint.Effect || t.Key != "" && t.Key != taint.Key {
			continue
		}
		if t.Operator == corev1.TolerationOpExists || (t.Operator == "" || t.Operator == corev1.TolerationOpEqual) && t.Value == taint.Value {
			return true, t.TolerationSeconds
		}
	}
	return false, nil
}

// boundAt is when the pod got its node.
func boundAt(pod *corev1.Pod) time.Time {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionTrue {
			return condition.LastTransitionTime.Time
		}
	}
	return pod.CreationTimestamp.Time
}

func latest(times ...time.Time) time.Time {
	return slices.MaxFunc(times, time.Time.Compare)
}
