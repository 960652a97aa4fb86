package registry

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// TestConcurrentUpdatesAreNeverLost counts up in few objects from many goroutines, in both ways in which clients do it.
func TestConcurrentUpdatesAreNeverLost(t *testing.T) {
	f := newFixture(t)
	const writers, rounds, objects = 8, 25, 3
	for i := range objects {
		f.create("configmaps", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("c", i)}})
	}
	count := func(obj runtime.Object) runtime.Object {
		cm := obj.(*corev1.ConfigMap)
		n, _ := strconv.Atoi(cm.Data["n"])
		cm.Data = map[string]string{"n": strconv.Itoa(n + 1)}
		return cm
	}
	var writing sync.WaitGroup
	for writer := range writers {
		writing.Go(func() {
			for round := range rounds {
				name := fmt.Sprint("c", (writer+round)%objects)
				if writer%2 == 0 {
					f.update("configmaps", "", "default", name, func(obj runtime.Object) { count(obj) })
					continue
				}
				f.replaceUntilItFits("configmaps", name, count)
			}
		})
	}
	writing.Wait()
	total := 0
	for i := range objects {
		n, err := strconv.Atoi(f.get("configmaps", "default", fmt.Sprint("c", i)).Runtime().(*corev1.ConfigMap).Data["n"])
		if err != nil {
			t.Fatal(err)
		}
		total += n
	}
	if total != writers*rounds {
		t.Errorf("%d updates are left of %d", total, writers*rounds)
	}
}

// replaceUntilItFits reads, changes a copy and puts it with its resourceVersion, as clients of the API do.
func (f *fixture) replaceUntilItFits(resource, name string, change func(runtime.Object) runtime.Object) {
	for {
		mine := change(f.get(resource, "default", name).Runtime().DeepCopyObject())
		_, err := f.Update(context.Background(), f.res(resource), UpdateRequest{
			Namespace: "default", Name: name, Modify: func(runtime.Object) (runtime.Object, error) { return mine, nil },
		})
		if err == nil {
			return
		}
		if !apierrors.IsConflict(err) {
			f.tb.Error(err)
			return
		}
	}
}

// TestHammer does everything at once, for the race detector's sake: readers touch all that they are given.
func TestHammer(t *testing.T) {
	f := newFixture(t)
	ctx, stop := context.WithCancel(context.Background())
	var reading, writing sync.WaitGroup
	for i := range 3 {
		w := f.watchPods(WatchRequest{Label: mustLabels(t, []string{"", "app=a", "app!=a"}[i])})
		reading.Go(func() {
			for {
				events, err := w.Next(ctx)
				if err != nil {
					return
				}
				for _, e := range events {
					touch(t, e.Object)
				}
			}
		})
	}
	for range 2 {
		reading.Go(func() {
			for ctx.Err() == nil {
				list, err := f.List(ctx, f.res("pods"), ListRequest{Label: mustLabels(t, "app in (a,b)"), Limit: 3})
				if err != nil && ctx.Err() == nil {
					t.Error(err)
				}
				for _, o := range list.Items {
					touch(t, o)
				}
			}
		})
	}
	for writer := range 4 {
		writing.Go(func() {
			for round := range 40 {
				hammer(t, f, fmt.Sprint("p", (writer*7+round)%5), round)
			}
		})
	}
	writing.Wait()
	stop()
	reading.Wait()
}

// hammer writes without caring what is there: others write too.
func hammer(t *testing.T, f *fixture, name string, round int) {
	ctx, pods := context.Background(), f.res("pods")
	var err error
	switch round % 4 {
	case 0:
		_, err = f.Create(ctx, pods, CreateRequest{Object: newPod(name)})
	case 1:
		_, err = f.Update(ctx, pods, UpdateRequest{Namespace: "default", Name: name, Modify: func(live runtime.Object) (runtime.Object, error) {
			live.(*corev1.Pod).Labels = map[string]string{"app": string("abc"[round%3]), "round": fmt.Sprint(round)}
			return live, nil
		}})
	case 2:
		err = f.Bind(ctx, "default", name, "", "n")
	case 3:
		_, err = f.Delete(ctx, pods, DeleteRequest{Namespace: "default", Name: name, Options: &metav1.DeleteOptions{}})
	}
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsAlreadyExists(err) && !apierrors.IsConflict(err) {
		t.Error(err)
	}
}

// touch reads all that there is of an object.
func touch(t *testing.T, o *Object) {
	if len(o.JSON()) == 0 || o.Meta().GetResourceVersion() != strconv.FormatInt(o.Revision(), 10) {
		t.Errorf("object at %d: %s", o.Revision(), o.JSON())
	}
	if _, err := o.Protobuf(); err != nil {
		t.Error(err)
	}
	_ = o.Runtime().DeepCopyObject()
}
