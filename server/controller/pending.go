package controller

import (
	"cmp"
	"container/heap"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The scheduler's back-off between attempts at one pod, and how long one waits at most for a change that helps it.
const (
	scheduleBackoffFirst = time.Second
	scheduleBackoffMost  = 10 * time.Second
	// scheduleWindow is what the end of a back-off is rounded down to: pods of one window are tried by priority.
	scheduleWindow    = time.Second
	unschedulableMost = 5 * time.Minute
	// earlyMost is how many woken pods may be in back-off for an idle scheduler to try them before it is over. When more
	// wait, each change would cost an attempt at all of them.
	earlyMost = 128
)

// pending holds the pods that wait for a node. It is a value of one goroutine and reads no clock.
//
//	set ─► ready ─ pop ─► decided ─ bound ─► remove
//	         ▲               │
//	         │ time          ├─ failed ─► unschedulable (until a change that helps, five minutes at most)
//	         │ has           │                  │ wake
//	         ├─ come ◄─ back-off, woken ◄───────┘
//	         └───────── back-off, erred ◄─ retry
//
// Those woken are popped before their time if nobody is ready and they are few.
type pending struct {
	pods   map[types.NamespacedName]*pendingPod
	ready  readyHeap
	woken  delayHeap
	erred  delayHeap
	serial int64
}

type pendingPod struct {
	key types.NamespacedName
	pod *corev1.Pod
	// unfit counts the attempts at which no node took the pod, errors those in a row that came to nothing otherwise.
	unfit, errors int
	// helps are the changes that may end the pod's being unschedulable.
	helps  hint
	serial int64
	// readyAt is when the pod may be tried again; failedAt when the last attempt failed.
	readyAt, failedAt time.Time
	place             pendingPlace
	// index in the heap of its place.
	index int
}

type pendingPlace int

const (
	placeDecided pendingPlace = iota
	placeReady
	placeWoken
	placeErred
	placeUnschedulable
)

func newPending() *pending { return &pending{pods: map[types.NamespacedName]*pendingPod{}} }

// set adds the pod or takes its newer form. A pod that waits keeps its place, unless its specification changed: then it may
// fit now.
func (p *pending) set(pod *corev1.Pod, now time.Time) {
	key := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	old := p.pods[key]
	if old != nil && old.pod.UID == pod.UID {
		changed := old.pod.Generation != pod.Generation
		old.pod = pod
		if changed && old.place == placeUnschedulable {
			p.delay(old, old.unfit, placeWoken, now)
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

// decided tells whether the pod has been popped and nothing came of it yet: it holds room on some node.
func (p *pending) decided(pod *corev1.Pod) bool {
	entry := p.pods[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}]
	return entry != nil && entry.pod.UID == pod.UID && entry.place == placeDecided
}

// pop takes the pod to decide on next: the highest priority, then the one that has waited longest. It stays known until
// remove, failed or retry is called for it.
func (p *pending) pop(now time.Time) *pendingPod {
	for _, h := range []*delayHeap{&p.woken, &p.erred} {
		for len(*h) > 0 && !(*h)[0].readyAt.After(now) {
			p.makeReady((*h)[0])
		}
	}
	var entry *pendingPod
	switch {
	case len(p.ready) > 0:
		entry = p.ready[0]
	case p.early():
		entry = p.woken[0]
	default:
		return nil
	}
	p.leave(entry)
	return entry
}

// early tells whether a woken pod may be tried before its time, if none is ready.
func (p *pending) early() bool { return len(p.woken) > 0 && len(p.woken) <= earlyMost }

// failed puts a popped pod, which no node takes, among those that wait for a change of the kinds that help.
func (p *pending) failed(entry *pendingPod, helps hint, now time.Time) {
	if p.pods[entry.key] != entry {
		return
	}
	entry.unfit++
	entry.errors, entry.helps = 0, helps
	entry.place, entry.failedAt = placeUnschedulable, now
}

// retry puts a popped pod into back-off: the attempt failed for a reason that may pass by itself.
func (p *pending) retry(entry *pendingPod, now time.Time) {
	if p.pods[entry.key] != entry {
		return
	}
	entry.errors++
	entry.failedAt = now
	p.delay(entry, entry.errors, placeErred, now)
}

// wake lets the unschedulable pods that the changes may help be tried again.
func (p *pending) wake(changes hint, now time.Time) {
	if changes == 0 {
		return
	}
	for _, entry := range p.pods {
		if entry.place == placeUnschedulable && entry.helps&changes != 0 {
			p.delay(entry, entry.unfit, placeWoken, now)
		}
	}
}

// wakeOld is wake for those that have waited for five minutes, whatever they wait for.
func (p *pending) wakeOld(now time.Time) {
	for _, entry := range p.pods {
		if entry.place == placeUnschedulable && now.Sub(entry.failedAt) >= unschedulableMost {
			p.delay(entry, entry.unfit, placeWoken, now)
		}
	}
}

// next is when pop may have something, zero when only a change can bring it.
func (p *pending) next(now time.Time) time.Time {
	if len(p.ready) > 0 || p.early() {
		return now
	}
	var next time.Time
	for _, h := range []delayHeap{p.woken, p.erred} {
		if len(h) > 0 && (next.IsZero() || h[0].readyAt.Before(next)) {
			next = h[0].readyAt
		}
	}
	return next
}

// delay puts the pod into back-off, or among the ready where that is over.
func (p *pending) delay(entry *pendingPod, attempts int, place pendingPlace, now time.Time) {
	p.leave(entry)
	entry.readyAt = entry.failedAt.Add(scheduleBackoff(attempts)).Truncate(scheduleWindow)
	if !entry.readyAt.After(now) {
		p.makeReady(entry)
		return
	}
	p.serial++
	entry.serial, entry.place = p.serial, place
	if place == placeErred {
		heap.Push(&p.erred, entry)
		return
	}
	heap.Push(&p.woken, entry)
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
	case placeWoken:
		heap.Remove(&p.woken, entry.index)
	case placeErred:
		heap.Remove(&p.erred, entry.index)
	}
	entry.place = placeDecided
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

// precedes orders by priority, then by who came first.
func precedes(a, b *pendingPod) int {
	return cmp.Or(cmp.Compare(priority(b.pod), priority(a.pod)), cmp.Compare(a.serial, b.serial))
}

func priority(pod *corev1.Pod) int32 {
	if pod.Spec.Priority == nil {
		return 0
	}
	return *pod.Spec.Priority
}

// readyHeap orders as precedes does.
type readyHeap []*pendingPod

func (h readyHeap) Len() int           { return len(h) }
func (h readyHeap) Less(i, j int) bool { return precedes(h[i], h[j]) < 0 }
func (h readyHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i]; h[i].index, h[j].index = i, j }
func (h *readyHeap) Push(x any)        { *h = pushEntry(*h, x) }
func (h *readyHeap) Pop() any          { var last *pendingPod; *h, last = popEntry(*h); return last }

// delayHeap orders by when a pod may be tried again, then as precedes does.
type delayHeap []*pendingPod

func (h delayHeap) Len() int { return len(h) }
func (h delayHeap) Less(i, j int) bool {
	if at := h[i].readyAt.Compare(h[j].readyAt); at != 0 {
		return at < 0
	}
	return precedes(h[i], h[j]) < 0
}
func (h delayHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i]; h[i].index, h[j].index = i, j }
func (h *delayHeap) Push(x any)   { *h = pushEntry(*h, x) }
func (h *delayHeap) Pop() any     { var last *pendingPod; *h, last = popEntry(*h); return last }

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
