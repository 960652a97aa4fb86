package controller

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"edgepod/server/registry"
)

// watchCounter counts how often a watch was begun.
type watchCounter struct {
	registry.Verbs
	watches atomic.Int64
}

func (w *watchCounter) Watch(ctx context.Context, res *registry.Resource, req registry.WatchRequest) (registry.Watcher, error) {
	w.watches.Add(1)
	return w.Verbs.Watch(ctx, res, req)
}

// audience checks that each change fits what was told before.
type audience struct {
	t     *testing.T
	known map[types.NamespacedName]*registry.Object
	// synced counts how often it was told that the present state is known.
	synced int
}

func (a *audience) hear(changes []change) {
	if changes == nil {
		a.synced++
	}
	for _, c := range changes {
		key := keyOf(c.object())
		if a.known[key] != c.before {
			a.t.Errorf("%v: told of a change from %v, but was told %v before", key, c.before, a.known[key])
		}
		if c.before != nil && c.after != nil && c.before.Meta().GetUID() != c.after.Meta().GetUID() {
			a.t.Errorf("%v: one object became another", key)
		}
		if c.after == nil {
			delete(a.known, key)
			continue
		}
		a.known[key] = c.after
	}
}

// Whatever is written while the listener sleeps, and however often the watch expires, in the end it knows what a list says.
func TestFollowerKnowsWhatAListSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seed := uint64(time.Now().UnixNano()) ^ rand.Uint64()
		random := rand.New(rand.NewPCG(seed, 0))
		c := newCluster(t, shortHistory)
		verbs := &watchCounter{Verbs: c.Verbs}
		ears := &audience{t: t, known: map[types.NamespacedName]*registry.Object{}}
		awake := make(chan struct{}, 1)
		awake <- struct{}{}
		config := Config{Verbs: verbs}
		c.start(loopFunc(func(ctx context.Context) error {
			follow(ctx, config, config.logger("test"), "", "configmaps", func(changes []change) {
				<-awake
				ears.hear(changes)
				awake <- struct{}{}
			})
			return nil
		}))
		for range 60 {
			synctest.Wait()
			if random.IntN(2) == 0 {
				<-awake
				writeConfigMaps(c, random, 5+random.IntN(30))
				awake <- struct{}{}
			} else {
				writeConfigMaps(c, random, random.IntN(5))
			}
			synctest.Wait()
			sameAsList(t, c, ears.known)
		}
		if verbs.watches.Load() < 5 {
			t.Errorf("seed %d: the watch began %d times only: nothing expired", seed, verbs.watches.Load())
		}
		if ears.synced != 1 {
			t.Errorf("seed %d: told %d times that the present state is known", seed, ears.synced)
		}
	})
}

func writeConfigMaps(c *cluster, random *rand.Rand, n int) {
	for range n {
		name := fmt.Sprintf("m%d", random.IntN(8))
		there := get[corev1.ConfigMap](c, "configmaps", "default", name) != nil
		switch {
		case !there:
			c.create("configmaps", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}})
		case random.IntN(2) == 0:
			c.delete("configmaps", "default", name)
		default:
			update(c, "configmaps", "", "default", name, func(m *corev1.ConfigMap) {
				m.Data = map[string]string{"n": fmt.Sprint(random.IntN(1000))}
			})
		}
	}
}

func sameAsList(t *testing.T, c *cluster, known map[types.NamespacedName]*registry.Object) {
	t.Helper()
	l, err := c.List(t.Context(), c.res("configmaps"), registry.ListRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if len(l.Items) != len(known) {
		t.Fatalf("knows %d objects, %d are there", len(known), len(l.Items))
	}
	for _, o := range l.Items {
		if k := known[keyOf(o)]; k == nil || k.Revision() != o.Revision() || k.Meta().GetUID() != o.Meta().GetUID() {
			t.Fatalf("knows %v of %v, which is %v", k, keyOf(o), o.Revision())
		}
	}
}

// loopFunc is a Loop of one function.
type loopFunc func(context.Context) error

// Run implements Loop.
func (f loopFunc) Run(ctx context.Context) error { return f(ctx) }

func TestFollowerTellsADeletionBeforeAnotherObjectOfThatName(t *testing.T) {
	c := newCluster(t)
	m := model{}
	fresh := func() *registry.Object {
		c.create("configmaps", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "m"}})
		o, err := c.Get(t.Context(), c.res("configmaps"), "default", "m")
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	first := fresh()
	m.take(registry.Event{Type: "ADDED", Object: first})
	c.delete("configmaps", "default", "m")
	second := fresh()
	got := m.take(registry.Event{Type: "ADDED", Object: second})
	if len(got) != 2 || got[0] != (change{before: first}) || got[1] != (change{after: second}) {
		t.Errorf("told %v, want the deletion of the first, then the second", got)
	}
	if again := m.take(registry.Event{Type: "ADDED", Object: second}); again != nil {
		t.Errorf("told %v of what was known", again)
	}
}
