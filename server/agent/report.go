package agent

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"edgepod/server/agent/lifecycle"
)

// The pauses of the reporter. While a pod is on its way, to its first container or to its end, it is not reported for so
// long: most have arrived by then, and writes are saved.
const (
	reportHold     = 100 * time.Millisecond
	reportRetry    = 200 * time.Millisecond
	reportRetryMax = 5 * time.Second
)

// report is what a worker knows of the status in the API. At most one report is under way.
type report struct {
	sent     *corev1.PodStatus // last one that the API took
	answered *corev1.PodStatus // what it made of it
	busy     bool
	since    time.Time // first wish to report a pod on its way
	retryAt  time.Time
	retry    time.Duration
}

// reportStatus reports what the plan computed last if the API does not have it. It tells whether the API has it, and when
// to ask again.
func (w *worker) reportStatus(ctx context.Context, now time.Time, acting bool) (reported bool, wake time.Time) {
	if w.pod == nil || w.seen.Halting {
		return true, time.Time{}
	}
	status, r := w.seen.Status, &w.report
	if r.answered != nil && !equality.Semantic.DeepEqual(*r.answered, w.pod.Status) {
		r.sent, r.answered = nil, nil
	}
	switch {
	case r.busy:
		return false, time.Time{}
	case equality.Semantic.DeepEqual(status, w.pod.Status), r.sent != nil && equality.Semantic.DeepEqual(status, *r.sent):
		return true, time.Time{}
	case now.Before(r.retryAt):
		return false, r.retryAt
	}
	leaving := w.pod.DeletionTimestamp != nil && w.ended()
	if (status.Phase == corev1.PodPending || leaving) && (acting && !w.releasing() || w.busy()) {
		if r.since.IsZero() {
			r.since = now
		}
		if until := r.since.Add(reportHold); now.Before(until) {
			return false, until
		}
	}
	w.sendStatus(ctx, status)
	return false, time.Time{}
}

// releasing tells whether all that is left to do is to let the pod's object go, which waits for the report.
func (w *worker) releasing() bool {
	return !w.seen.Sandbox.Done && !w.seen.Volumes.Done && w.pod.DeletionTimestamp != nil
}

// busy tells whether an action that brings the pod up or takes it down is under way.
func (w *worker) busy() bool {
	if w.seen.Volumes.Busy || w.seen.Sandbox.Busy {
		return true
	}
	for _, c := range w.seen.Containers {
		if c.Starting || c.Pull.Busy {
			return true
		}
	}
	return false
}

func (w *worker) sendStatus(ctx context.Context, status corev1.PodStatus) {
	w.report.busy, w.report.since = true, time.Time{}
	pod := *w.pod
	pod.Status = status
	w.acts.Go(func() {
		answer := &corev1.Pod{}
		err := w.client.updateStatus(ctx, "pods", pod.Namespace, pod.Name, &pod, answer)
		if apierrors.IsConflict(err) {
			if live, getErr := w.client.pod(ctx, pod.Namespace, pod.Name); getErr == nil && live.UID == pod.UID {
				answer = live
			}
		}
		w.tell(func() { w.statusSent(status, answer, err) })
	})
}

// statusSent takes over the API's answer. After a conflict the pod as it is now goes through the plan again.
func (w *worker) statusSent(status corev1.PodStatus, answer *corev1.Pod, err error) {
	r := &w.report
	r.busy = false
	if answer.UID == w.uid && w.pod != nil {
		w.adopt(answer)
	}
	switch {
	case err == nil:
		r.sent, r.retry = &status, 0
		r.answered = &answer.Status
		if w.pod != nil && w.pod.ResourceVersion != answer.ResourceVersion {
			r.answered = nil
		}
	case apierrors.IsConflict(err) && answer.UID == w.uid:
	case apierrors.IsInvalid(err):
		w.log.Error("the API refuses the pod's status", "err", err)
		r.sent = &status
	default:
		w.log.Debug("report status", "err", err)
		r.retry = min(max(2*r.retry, reportRetry), reportRetryMax)
		r.retryAt = time.Now().Add(r.retry)
	}
}

// older tells whether a is an earlier state of the object than b.
func older(a, b *corev1.Pod) bool {
	order, err := resourceversion.CompareResourceVersion(a.ResourceVersion, b.ResourceVersion)
	return err == nil && order < 0
}

// recordBackOff tells of each container that has begun to wait.
func (w *worker) recordBackOff(before, after corev1.PodStatus) {
	if w.pod == nil {
		return
	}
	for _, list := range [][2][]corev1.ContainerStatus{
		{before.InitContainerStatuses, after.InitContainerStatuses}, {before.ContainerStatuses, after.ContainerStatuses},
	} {
		for i, now := range list[1] {
			reason := waitingReason(now)
			if i < len(list[0]) && waitingReason(list[0][i]) == reason {
				continue
			}
			switch reason {
			case lifecycle.ReasonCrashLoopBackOff:
				w.events.Event(podRef(w.pod, now.Name), corev1.EventTypeWarning, "BackOff",
					fmt.Sprintf("Back-off restarting failed container %s in pod %s_%s(%s)", now.Name, w.pod.Name, w.pod.Namespace, w.uid))
			case lifecycle.ReasonImagePullBackOff:
				w.events.Event(podRef(w.pod, now.Name), corev1.EventTypeNormal, "BackOff", fmt.Sprintf("Back-off pulling image %q", now.Image))
				w.events.Event(podRef(w.pod, now.Name), corev1.EventTypeWarning, "Failed", "Error: "+reason)
			}
		}
	}
}

func waitingReason(cs corev1.ContainerStatus) string {
	if cs.State.Waiting == nil {
		return ""
	}
	return cs.State.Waiting.Reason
}
