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

func TestPendingBacksOffFromOneToTenSeconds(t *testing.T) {
	p, now := newPending(), time.Unix(1000, 0)
	p.set(waiting("a", 0), now)
	for i, want := range []time.Duration{1, 2, 4, 8, 10, 10} {
		entry := p.pop(now)
		if entry == nil {
			t.Fatalf("attempt %d: nothing to pop", i+1)
		}
		p.failed(entry, now)
		if got := p.next(now); !got.IsZero() {
			t.Fatalf("attempt %d: would be tried at %v with nothing changed", i+1, got)
		}
		p.wake(now)
		if got := p.next(now).Sub(now); got != want*time.Second {
			t.Fatalf("attempt %d: back-off is %v, want %v", i+1, got, want*time.Second)
		}
		now = now.Add(want * time.Second)
	}
}

func TestPendingTriesAnUnschedulablePodAgainAfterFiveMinutes(t *testing.T) {
	p, now := newPending(), time.Unix(1000, 0)
	p.set(waiting("a", 0), now)
	p.failed(p.pop(now), now)
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
	p.failed(entry, now)
	p.retry(entry, now)
	p.wake(now)
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
					p.failed(entry, now)
				} else {
					p.retry(entry, now)
				}
			}
		case 4:
			p.wake(now)
		case 5:
			now = now.Add(time.Duration(random.IntN(3000)) * time.Millisecond)
		}
	}
	p.wake(now)
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
