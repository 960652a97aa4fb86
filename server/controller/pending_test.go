package controller

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func waiting(name string, priority int32) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name), Generation: 1},
		Spec:       corev1.PodSpec{Priority: &priority},
	}
}

func popName(p *pending, now time.Time) string {
	entry := p.pop(now)
	if entry == nil {
		return ""
	}
	return entry.pod.Name
}

func TestPendingPopsByPriorityThenByAge(t *testing.T) {
	p, now := newPending(), time.Unix(1000, 0)
	p.set(waiting("old", 0), now)
	p.set(waiting("young", 0), now)
	p.set(waiting("urgent", 10), now)
	for _, want := range []string{"urgent", "old", "young", ""} {
		if got := popName(p, now); got != want {
			t.Fatalf("popped %q, want %q", got, want)
		}
	}
}

// An attempt that came to nothing at 0.3 s of a second is made again at the begin of a second.
func TestPendingBacksOffFromOneToTenSeconds(t *testing.T) {
	p, now := newPending(), time.Unix(1000, 0).Add(300*time.Millisecond)
	p.set(waiting("a", 0), now)
	for i, want := range []float64{0.7, 1.7, 3.7, 7.7, 9.7, 9.7} {
		entry := p.pop(now)
		if entry == nil {
			t.Fatalf("attempt %d: nothing to pop", i+1)
		}
		p.retry(entry, now)
		if got := p.next(now).Sub(now).Seconds(); got < want-0.001 || got > want+0.001 {
			t.Fatalf("attempt %d: back-off is %v s, want %v s", i+1, got, want)
		}
		if early := p.pop(p.next(now).Add(-time.Millisecond)); early != nil {
			t.Fatalf("attempt %d: popped before its back-off was over", i+1)
		}
		now = p.next(now).Add(300 * time.Millisecond)
	}
}

func TestPendingWaitsForAChangeThatHelps(t *testing.T) {
	p, now := newPending(), time.Unix(1000, 0)
	p.set(waiting("a", 0), now)
	p.failed(p.pop(now), helpers([]string{"TaintToleration"}), now)
	if got := p.next(now); !got.IsZero() {
		t.Fatalf("would be tried at %v with nothing changed", got)
	}
	p.wake(podGone|nodeGrown|nodeLabelled, now)
	if got := popName(p, now.Add(time.Hour)); got != "" {
		t.Fatalf("popped %q after changes that do not help", got)
	}
	p.wake(nodeTainted, now)
	if got := popName(p, now); got != "a" {
		t.Fatalf("popped %q after a change that helps, want a", got)
	}
}

// When few wait, an idle scheduler tries them at once; when many do, each change must not cost an attempt at all of them.
func TestPendingPacesTheMany(t *testing.T) {
	p, now := newPending(), time.Unix(1000, 0)
	for i := range earlyMost + 1 {
		p.set(waiting(fmt.Sprintf("p%03d", i), int32(i)), now)
	}
	for entry := p.pop(now); entry != nil; entry = p.pop(now) {
		p.failed(entry, anyHint, now)
	}
	p.wake(podGone, now)
	if got := popName(p, now); got != "" {
		t.Fatalf("popped %q of many before its time", got)
	}
	if got := p.next(now).Sub(now); got != time.Second {
		t.Errorf("the next is due in %v, want 1s", got)
	}
	now = now.Add(time.Second)
	if got, want := popName(p, now), fmt.Sprintf("p%03d", earlyMost); got != want {
		t.Errorf("popped %q, want %q of the highest priority", got, want)
	}
}

func TestPendingTriesAPodAgainWhoseSpecificationChanged(t *testing.T) {
	p, now := newPending(), time.Unix(1000, 0)
	p.set(waiting("a", 0), now)
	p.failed(p.pop(now), nodeAdded, now)
	reported := waiting("a", 0)
	reported.Status.Message = "nothing new"
	p.set(reported, now)
	if got := popName(p, now.Add(time.Hour)); got != "" {
		t.Fatalf("popped %q after a change of status", got)
	}
	changed := waiting("a", 0)
	changed.Generation++
	p.set(changed, now)
	if got := popName(p, now); got != "a" {
		t.Fatalf("popped %q, want a", got)
	}
}

func TestPendingTriesAnUnschedulablePodAgainAfterFiveMinutes(t *testing.T) {
	p, now := newPending(), time.Unix(1000, 0)
	p.set(waiting("a", 0), now)
	p.failed(p.pop(now), anyHint, now)
	p.wakeOld(now.Add(4 * time.Minute))
	if got := popName(p, now.Add(4*time.Minute)); got != "" {
		t.Fatalf("popped %q after four minutes", got)
	}
	p.wakeOld(now.Add(5 * time.Minute))
	if got := popName(p, now.Add(5*time.Minute)); got != "a" {
		t.Fatalf("popped %q after five minutes, want a", got)
	}
}

func TestPendingForgetsAPodThatIsRemovedWhileDecidedOn(t *testing.T) {
	p, now := newPending(), time.Unix(1000, 0)
	p.set(waiting("a", 0), now)
	entry := p.pop(now)
	p.remove(entry.key)
	p.failed(entry, anyHint, now)
	p.retry(entry, now)
	p.wake(podGone, now)
	if got := popName(p, now.Add(time.Hour)); got != "" {
		t.Errorf("popped %q, want nothing", got)
	}
}

// Whatever happens in whatever order, a pod that waits is popped once everything has been woken and time has passed, and
// one that was removed never is.
func TestPendingLosesNoPod(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	p, now := newPending(), time.Unix(1000, 0)
	here := map[string]bool{}
	for range 5000 {
		name := fmt.Sprintf("p%d", random.IntN(20))
		switch random.IntN(6) {
		case 0, 1:
			p.set(waiting(name, int32(random.IntN(3))), now)
			here[name] = true
		case 2:
			p.remove(types.NamespacedName{Namespace: "default", Name: name})
			delete(here, name)
		case 3:
			if entry := p.pop(now); entry != nil {
				if random.IntN(2) == 0 {
					p.failed(entry, anyHint, now)
				} else {
					p.retry(entry, now)
				}
			}
		case 4:
			p.wake(podGone, now)
		case 5:
			now = now.Add(time.Duration(random.IntN(3000)) * time.Millisecond)
		}
	}
	p.wake(podGone, now)
	now = now.Add(scheduleBackoffMost)
	popped := map[string]bool{}
	for name := popName(p, now); name != ""; name = popName(p, now) {
		popped[name] = true
	}
	if len(popped) != len(here) {
		t.Errorf("seed %d: popped %v, want %v", seed, popped, here)
	}
	for name := range popped {
		if !here[name] {
			t.Errorf("seed %d: popped %s, which was removed", seed, name)
		}
	}
}
