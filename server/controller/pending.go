package controller

import (
	"container/heap"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The scheduler's back-off between attempts at one pod, and how long one waits at most for a change that helps it.
const (
	scheduleBackoffFirst = time.Second
	scheduleBackoffMost  = 10 * time.Second
	unschedulableMost    = 5 * time.Minute
)

// pending holds the pods that wait for a node. It is a value of one goroutine and reads no clock.
//
//	add ─► ready ─ pop ─► (being decided) ─ bound ─► remove
//	         ▲                   │ failed
//	         │ time has come     ▼
//	      back-off ◄─ wake ─ unschedulable (until something changes, five minutes at most)
type pending struct {
	pods    map[types.NamespacedName]*pendingPod
	ready   readyHeap
	delayed delayHeap
	serial  int64
}

type pendingPod struct {
	key      types.NamespacedName
	pod      *corev1.Pod
	attempts int
	serial   int64
	// readyAt is when the pod may be tried again; failedAt when the last attempt failed.
	readyAt, failedAt time.Time
	place             pendingPlace
	// index in the heap of its place.
	index int
}

type pendingPlace int

const (
	placeNone pendingPlace = iota
	placeReady
	placeDelayed
	placeUnschedulable
)

func newPending() *pending { return &pending{pods: map[types.NamespacedName]*pendingPod{}} }

// set adds the pod or takes its newer form. A pod that waits keeps its place, unless its specification changed: then it may
// fit now.
func (p *pending) set(pod *corev1.Pod, now time.Time) {
	key := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	old := p.pods[key]
	if old != nil && old.pod.UID == pod.UID {
		changed := old.pod.Generation != pod.Generation || len(old.pod.Labels) != len(pod.Labels)
		old.pod = pod
		if changed && old.place == placeUnschedulable {
			p.delay(old, now)
		}
		return
	}
	if old != nil {
		p.remove(key)
	}
	entry := &pendingPod{key: key, pod: pod}
	p.pods[key] = entry
	p.makeReady(entry)
}

// remove forgets the pod.
func (p *pending) remove(key types.NamespacedName) {
	entry := p.pods[key]
	if entry == nil {
		return
	}
	p.leave(entry)
	delete(p.pods, key)
}

// pop takes the pod to decide on next: the highest priority, then the one that has waited longest. It stays known until
// remove, failed or retry is called for it.
func (p *pending) pop(now time.Time) *pendingPod {
	for len(p.delayed) > 0 && !p.delayed[0].readyAt.After(now) {
		p.makeReady(p.delayed[0])
	}
	if len(p.ready) == 0 {
		return nil
	}
	entry := p.ready[0]
	p.leave(entry)
	entry.attempts++
	return entry
}

// failed puts a popped pod among those that wait for a change.
func (p *pending) failed(entry *pendingPod, now time.Time) {
	if p.pods[entry.key] != entry {
		return
	}
	entry.place, entry.failedAt = placeUnschedulable, now
}

// retry puts a popped pod into back-off: the attempt failed for a reason that may pass by itself.
func (p *pending) retry(entry *pendingPod, now time.Time) {
	if p.pods[entry.key] != entry {
		return
	}
	entry.failedAt = now
	p.delay(entry, now)
}

// wake lets every unschedulable pod be tried again once its back-off is over, because something changed.
func (p *pending) wake(now time.Time) {
	for _, entry := range p.pods {
		if entry.place == placeUnschedulable {
			p.delay(entry, now)
		}
	}
}

// wakeOld is wake for those alone that have waited for five minutes.
func (p *pending) wakeOld(now time.Time) {
	for _, entry := range p.pods {
		if entry.place == placeUnschedulable && now.Sub(entry.failedAt) >= unschedulableMost {
			p.delay(entry, now)
		}
	}
}

// next is when pop may have something, zero when only a change can bring it.
func (p *pending) next(now time.Time) time.Time {
	if len(p.ready) > 0 {
		return now
	}
	if len(p.delayed) > 0 {
		return p.delayed[0].readyAt
	}
	return time.Time{}
}

func (p *pending) delay(entry *pendingPod, now time.Time) {
	p.leave(entry)
	entry.readyAt = entry.failedAt.Add(scheduleBackoff(entry.attempts))
	if !entry.readyAt.After(now) {
		p.makeReady(entry)
		return
	}
	entry.place = placeDelayed
	heap.Push(&p.delayed, entry)
}

func (p *pending) makeReady(entry *pendingPod) {
	p.leave(entry)
	p.serial++
	entry.serial, entry.place = p.serial, placeReady
	heap.Push(&p.ready, entry)
}

func (p *pending) leave(entry *pendingPod) {
	switch entry.place {
	case placeReady:
		heap.Remove(&p.ready, entry.index)
	case placeDelayed:
		heap.Remove(&p.delayed, entry.index)
	}
	entry.place = placeNone
}

func scheduleBackoff(attempts int) time.Duration {
	pause := scheduleBackoffFirst
	for range attempts - 1 {
		pause *= 2
		if pause >= scheduleBackoffMost {
			return scheduleBackoffMost
		}
	}
	return pause
}

// readyHeap orders by priority, then by who came first.
type readyHeap []*pendingPod

func (h readyHeap) Len() int { return len(h) }
func (h readyHeap) Less(i, j int) bool {
	a, b := priority(h[i].pod), priority(h[j].pod)
	return a > b || a == b && h[i].serial < h[j].serial
}
func (h readyHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i]; h[i].index, h[j].index = i, j }
func (h *readyHeap) Push(x any)   { *h = pushEntry(*h, x) }
func (h *readyHeap) Pop() any     { var last *pendingPod; *h, last = popEntry(*h); return last }

// delayHeap orders by when a pod may be tried again.
type delayHeap []*pendingPod

func (h delayHeap) Len() int           { return len(h) }
func (h delayHeap) Less(i, j int) bool { return h[i].readyAt.Before(h[j].readyAt) }
func (h delayHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i]; h[i].index, h[j].index = i, j }
func (h *delayHeap) Push(x any)        { *h = pushEntry(*h, x) }
func (h *delayHeap) Pop() any          { var last *pendingPod; *h, last = popEntry(*h); return last }

func pushEntry(h []*pendingPod, x any) []*pendingPod {
	entry := x.(*pendingPod)
	entry.index = len(h)
	return append(h, entry)
}

func popEntry(h []*pendingPod) ([]*pendingPod, *pendingPod) {
	last := h[len(h)-1]
	h[len(h)-1] = nil
	return h[:len(h)-1], last
}

func priority(pod *corev1.Pod) int32 {
	if pod.Spec.Priority == nil {
		return 0
	}
	return *pod.Spec.Priority
}
