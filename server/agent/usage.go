package agent

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"edgepod/server/agent/volume"
)

// gauge is when the volumes of a worker's pod are measured next, and whether that is under way. It belongs to the worker's
// goroutine.
type gauge struct {
	next time.Time
	busy bool
}

// restRatio bounds the share of time that is spent on measuring a pod: it rests so many times as long as it took.
const restRatio = 20

// measure compares the volumes that have a limit with it, every Config.Measure, and evicts the pod when one holds more. It
// returns when to come back.
func (w *worker) measure(ctx context.Context, now time.Time) time.Time {
	if w.pod == nil || w.pod.DeletionTimestamp != nil || !w.seen.Volumes.Done || !volume.Limited(w.pod) || w.ended() || w.gauge.busy {
		return time.Time{}
	}
	if w.gauge.next.IsZero() {
		w.gauge.next = now.Add(w.Measure)
	}
	if now.Before(w.gauge.next) {
		return w.gauge.next
	}
	w.gauge.busy = true
	job := w.job()
	w.acts.Go(func() {
		began := time.Now()
		message, err := job.exceeded(ctx)
		took := time.Since(began)
		w.tell(func() {
			w.gauge = gauge{next: time.Now().Add(max(w.Measure, restRatio*took))}
			w.measured(ctx, message, err)
		})
	})
	return time.Time{}
}

// exceeded says which volume holds more than its limit, "" for none.
func (j job) exceeded(ctx context.Context) (string, error) {
	v, err := j.volumeFolder().Exceeded(ctx, j.pod)
	if v == nil || err != nil {
		return "", err
	}
	return fmt.Sprintf("Usage of EmptyDir volume %q exceeds the limit %q. ", v.Name, v.EmptyDir.SizeLimit), nil
}

func (w *worker) measured(ctx context.Context, message string, err error) {
	switch {
	case err != nil:
		if ctx.Err() == nil {
			w.log.Warn("measure the volumes", "err", err)
		}
	case message != "" && w.pod != nil && w.seen.Evict(message):
		w.log.Info("pod is evicted", "why", message)
		w.events.Event(podRef(w.pod, ""), corev1.EventTypeWarning, "Evicted", message)
	}
}
