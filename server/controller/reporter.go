package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	"edgepod/sched"
	"edgepod/server/registry"
)

// The limits of what is written about pods: by how many at once, how often the same is said again of one pod, and after how
// many Events about it something else has to wait too, for longer each time. The condition always says the newest.
const (
	reportsAtOnce = 8
	repeatPeriod  = 5 * time.Minute
	eventsFree    = 5
)

// reporter tells users what the scheduler did with their pods, in conditions and Events. It works beside the scheduler, which
// never waits for it: of several reports about a pod that are not written yet, the newest counts.
type reporter struct {
	verbs  registry.Verbs
	log    *slog.Logger
	events *recorder
	queue  *workqueue.Typed[types.UID]

	mu   sync.Mutex
	pods map[types.UID]*reported
}

// reported is what there is to tell about a pod, and what has been told.
type reported struct {
	pod *corev1.Pod
	// next is what to tell next, nil for nothing; condition goes with it where the pod was rejected.
	next      *notice
	condition *corev1.PodCondition
	// event is the Event written last, told what it says, times how often that happened since, and written how many Events
	// there were.
	event   string
	told    notice
	times   int32
	written int
}

func newReporter(verbs registry.Verbs, log *slog.Logger) *reporter {
	return &reporter{
		verbs: verbs, log: log, events: newRecorder(verbs, corev1.DefaultSchedulerName),
		queue: workqueue.NewTyped[types.UID](), pods: map[types.UID]*reported{},
	}
}

// run writes until ctx ends.
func (r *reporter) run(ctx context.Context) {
	var wait sync.WaitGroup
	for range reportsAtOnce {
		wait.Go(func() {
			for uid, closed := r.queue.Get(); !closed; uid, closed = r.queue.Get() {
				if ctx.Err() == nil {
					r.write(ctx, uid)
				}
				r.queue.Done(uid)
			}
		})
	}
	<-ctx.Done()
	r.queue.ShutDown()
	wait.Wait()
}

// rejected is told that no node takes the pod, and why. What the pod and its Event say already is not written again.
func (r *reporter) rejected(pod *corev1.Pod, why error, now time.Time) {
	reason := corev1.PodReasonSchedulerError
	if unfit := (*sched.FitError)(nil); errors.As(why, &unfit) {
		reason = corev1.PodReasonUnschedulable
	}
	condition := &corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: reason, Message: why.Error(),
		ObservedGeneration: pod.Generation,
	}
	next := &notice{kind: corev1.EventTypeWarning, reason: "FailedScheduling", message: condition.Message, at: now}
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.at(pod)
	known.times++
	if holdsCondition(pod, condition) && !known.due(next) {
		return
	}
	known.next, known.condition = next, condition
	r.queue.Add(pod.UID)
}

// scheduled is told that the pod is bound to the node. Nothing more is told about it after that.
func (r *reporter) scheduled(pod *corev1.Pod, node string, now time.Time) {
	message := fmt.Sprintf("Successfully assigned %s/%s to %s", pod.Namespace, pod.Name, node)
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.at(pod)
	known.next = &notice{kind: corev1.EventTypeNormal, reason: "Scheduled", message: message, at: now}
	known.condition = nil
	r.queue.Add(pod.UID)
}

// forget drops what is known of a pod that waits for no node any more, unless it is still to be told that it was bound.
func (r *reporter) forget(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known := r.pods[uid]; known != nil && (known.next == nil || known.condition != nil) {
		delete(r.pods, uid)
	}
}

// at returns what is known of the pod; the lock is held.
func (r *reporter) at(pod *corev1.Pod) *reported {
	known := r.pods[pod.UID]
	if known == nil {
		known = &reported{}
		r.pods[pod.UID] = known
	}
	known.pod = pod
	return known
}

// due tells whether an Event is to be written about this.
func (k *reported) due(n *notice) bool {
	switch waited := n.at.Sub(k.told.at); {
	case k.told.reason != n.reason:
		return true
	case k.told.message != n.message:
		return waited >= eventPause(k.written)
	default:
		return waited >= repeatPeriod
	}
}

// eventPause is how long after the last of so many Events the next one may follow.
func eventPause(written int) time.Duration {
	if written < eventsFree {
		return 0
	}
	return min(repeatPeriod, time.Second<<min(written-eventsFree, 10))
}

// take returns a copy of what is to be told of the pod, which counts as told from then on.
func (r *reporter) take(uid types.UID) (reported, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.pods[uid]
	if known == nil || known.next == nil {
		return reported{}, false
	}
	work := *known
	known.next, known.condition = nil, nil
	if work.condition == nil {
		delete(r.pods, uid)
	} else if known.due(work.next) {
		known.times = 0
	}
	return work, true
}

// write tells what there is to tell about one pod.
func (r *reporter) write(ctx context.Context, uid types.UID) {
	work, ok := r.take(uid)
	if !ok {
		return
	}
	var errs []error
	if work.condition != nil && !holdsCondition(work.pod, work.condition) {
		errs = append(errs, r.writeCondition(ctx, work.pod, *work.condition, work.next.at))
	}
	if work.due(work.next) {
		name, err := r.writeEvent(ctx, &work)
		errs = append(errs, err)
		r.keep(uid, name, *work.next)
	}
	if err := errors.Join(errs...); err != nil && ctx.Err() == nil {
		r.log.Warn("report", "pod", work.pod.Namespace+"/"+work.pod.Name, "err", err)
	}
}

// keep notes which Event was written last, if the pod is still known.
func (r *reporter) keep(uid types.UID, event string, told notice) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known := r.pods[uid]; known != nil {
		known.event, known.told = event, told
		known.written++
	}
}

// writeEvent raises the count of the Event that says the same, or else writes a new one.
func (r *reporter) writeEvent(ctx context.Context, work *reported) (name string, err error) {
	if work.event != "" && work.told.reason == work.next.reason && work.told.message == work.next.message {
		err = r.events.again(ctx, work.pod.Namespace, work.event, work.times, work.next.at)
		if !apierrors.IsNotFound(err) {
			return work.event, err
		}
	}
	name, err = r.events.create(ctx, work.pod, *work.next, 1)
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) || apierrors.IsNotFound(err) {
		err = nil // the namespace is on its way out, or gone
	}
	return name, err
}

// writeCondition puts the condition into the pod's status, unless the pod has another uid, or a node, by now.
func (r *reporter) writeCondition(ctx context.Context, pod *corev1.Pod, condition corev1.PodCondition, now time.Time) error {
	_, err := r.verbs.Update(ctx, r.verbs.Resource("", "pods"), registry.UpdateRequest{
		Namespace: pod.Namespace, Name: pod.Name, Subresource: "status",
		Preconditions: &metav1.Preconditions{UID: &pod.UID},
		Modify: func(live runtime.Object) (runtime.Object, error) {
			if live := live.(*corev1.Pod); live.Spec.NodeName == "" {
				setPodCondition(live, condition, now)
			}
			return live, nil
		},
	})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// holdsCondition tells whether the pod says that already.
func holdsCondition(pod *corev1.Pod, want *corev1.PodCondition) bool {
	for i := range pod.Status.Conditions {
		if have := &pod.Status.Conditions[i]; have.Type == want.Type {
			return have.Status == want.Status && have.Reason == want.Reason && have.Message == want.Message &&
				have.ObservedGeneration == want.ObservedGeneration
		}
	}
	return false
}

// setPodCondition puts the condition in place of the one of its type. The time of its last transition changes with its
// status alone.
func setPodCondition(pod *corev1.Pod, condition corev1.PodCondition, now time.Time) {
	condition.LastTransitionTime = metav1.NewTime(now)
	for i, old := range pod.Status.Conditions {
		if old.Type != condition.Type {
			continue
		}
		if old.Status == condition.Status {
			condition.LastTransitionTime = old.LastTransitionTime
		}
		pod.Status.Conditions[i] = condition
		return
	}
	pod.Status.Conditions = append(pod.Status.Conditions, condition)
}
