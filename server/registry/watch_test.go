package registry

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"edgepod/server/store"

	"github.com/google/go-cmp/cmp"
)

// watchPods opens a watch, which must work.
func (f *fixture) watchPods(req WatchRequest) Watcher {
	f.tb.Helper()
	w, err := f.Watch(context.Background(), f.res("pods"), req)
	if err != nil {
		f.tb.Fatal(err)
	}
	return w
}

// next reads so many events, each as "TYPE name".
func (f *fixture) next(w Watcher, n int) []string {
	f.tb.Helper()
	var got []string
	for len(got) < n {
		events, err := w.Next(context.Background())
		if err != nil {
			f.tb.Fatal(err)
		}
		for _, e := range events {
			line := e.Type
			if e.Object != nil {
				line += " " + e.Object.Meta().GetName()
			}
			got = append(got, line)
		}
	}
	return got
}

// idle checks that a watcher has nothing to deliver and has seen everything.
func (f *fixture) idle(w Watcher) {
	f.tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if events, err := w.Next(ctx); err != context.Canceled {
		f.tb.Errorf("watcher delivered %+v, %v; want nothing", events, err)
	}
	if w.Seen() != f.store.Revision() {
		f.tb.Errorf("watcher has seen %d of %d", w.Seen(), f.store.Revision())
	}
}

func TestWatchStartsWithWhatIsThere(t *testing.T) {
	f := zoo(t)
	there := []string{"ADDED b", "ADDED e", "ADDED h"}
	for _, version := range []string{"", "0"} {
		w := f.watchPods(WatchRequest{Namespace: "east", ResourceVersion: version})
		if diff := cmp.Diff(there, f.next(w, 3)); diff != "" {
			t.Errorf("from version %q (-want +got):\n%s", version, diff)
		}
		f.idle(w)
	}
	at := strconv.FormatInt(f.store.Revision(), 10)
	for _, version := range []string{"", "0", at, "1"} {
		w := f.watchPods(WatchRequest{Namespace: "east", ResourceVersion: version, SendInitialEvents: true})
		events, err := w.Next(context.Background())
		if err != nil || len(events) != 4 {
			t.Fatalf("from version %q: %+v, %v", version, events, err)
		}
		if end := events[3]; end.Type != "BOOKMARK" || end.Object != nil || end.Revision != f.store.Revision() {
			t.Errorf("from version %q: the initial events end with %+v", version, end)
		}
		f.idle(w)
	}
	w := f.watchPods(WatchRequest{Namespace: "east", ResourceVersion: at})
	f.idle(w)
	empty := f.watchPods(WatchRequest{Namespace: "kube-public", SendInitialEvents: true})
	if diff := cmp.Diff([]string{"BOOKMARK"}, f.next(empty, 1)); diff != "" {
		t.Errorf("of nothing (-want +got):\n%s", diff)
	}
}

func TestWatchSeesChangesThroughItsSelectors(t *testing.T) {
	f := newFixture(t)
	web := f.watchPods(WatchRequest{Label: mustLabels(t, "app=web")})
	node := f.watchPods(WatchRequest{Field: mustFields(t, "spec.nodeName=n")})
	name := f.watchPods(WatchRequest{Namespace: "default", Field: mustFields(t, "metadata.name=p")})
	other := f.watchPods(WatchRequest{Namespace: "kube-system"})

	pod := newPod("p")
	pod.Labels = map[string]string{"app": "web"}
	f.create("pods", pod)
	f.create("pods", newPod("q"))
	if err := f.Bind(context.Background(), "default", "p", "", "n"); err != nil {
		t.Fatal(err)
	}
	relabel := func(app string) {
		f.update("pods", "", "default", "p", func(obj runtime.Object) { obj.(*corev1.Pod).Labels = map[string]string{"app": app} })
	}
	relabel("db")
	relabel("web")
	f.delete("pods", "default", "p", &metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
	f.delete("pods", "default", "q", &metav1.DeleteOptions{})

	for _, test := range []struct {
		name string
		w    Watcher
		want string
	}{
		{"a label", web, "ADDED p, MODIFIED p, DELETED p, ADDED p, DELETED p"},
		{"a node", node, "ADDED p, MODIFIED p, MODIFIED p, DELETED p"},
		{"a name", name, "ADDED p, MODIFIED p, MODIFIED p, MODIFIED p, DELETED p"},
		{"another namespace", other, ""},
	} {
		want := strings.Split(test.want, ", ")
		if test.want == "" {
			want = nil
		}
		if diff := cmp.Diff(want, f.next(test.w, len(want))); diff != "" {
			t.Errorf("through %s (-want +got):\n%s", test.name, diff)
		}
		f.idle(test.w)
	}
}

func TestWatchShowsWhatIsLostFromSightAsItWas(t *testing.T) {
	f := newFixture(t)
	pod := newPod("p")
	pod.Labels = map[string]string{"app": "web"}
	before := f.create("pods", pod)
	w := f.watchPods(WatchRequest{Label: mustLabels(t, "app=web"), ResourceVersion: strconv.FormatInt(before.Revision(), 10)})
	f.update("pods", "", "default", "p", func(obj runtime.Object) { obj.(*corev1.Pod).Labels = nil })
	events, err := w.Next(context.Background())
	if err != nil || len(events) != 1 || events[0].Type != "DELETED" {
		t.Fatalf("got %+v, %v", events, err)
	}
	got, now := events[0].Object, strconv.FormatInt(f.store.Revision(), 10)
	if got.Meta().GetLabels()["app"] != "web" || got.Meta().GetResourceVersion() != now || !strings.Contains(string(got.JSON()), `"resourceVersion":"`+now+`"`) {
		t.Errorf("got %s, want the pod with its label, at revision %s", got.JSON(), now)
	}
	if before.Meta().GetResourceVersion() == now {
		t.Error("the frozen object was changed")
	}
}

func TestDeletedObjectsCarryTheRevisionOfTheirEnd(t *testing.T) {
	f := newFixture(t)
	f.create("pods", newPod("p"))
	w := f.watchPods(WatchRequest{ResourceVersion: strconv.FormatInt(f.store.Revision(), 10)})
	f.delete("pods", "default", "p", &metav1.DeleteOptions{})
	events, err := w.Next(context.Background())
	if err != nil || len(events) != 1 {
		t.Fatalf("got %+v, %v", events, err)
	}
	o, now := events[0].Object, f.store.Revision()
	if events[0].Revision != now || o.Revision() != now || o.Meta().GetResourceVersion() != strconv.FormatInt(now, 10) || o.Meta().GetDeletionTimestamp() == nil {
		t.Errorf("revision %d, object %s; want revision %d and a deletionTimestamp", events[0].Revision, o.JSON(), now)
	}
}

func TestWatchFromTheFutureWaits(t *testing.T) {
	f := newFixture(t)
	w := f.watchPods(WatchRequest{ResourceVersion: strconv.FormatInt(f.store.Revision()+2, 10)})
	for _, name := range []string{"a", "b", "c"} {
		f.create("pods", newPod(name))
	}
	if diff := cmp.Diff([]string{"ADDED c"}, f.next(w, 1)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	_, err := f.Watch(context.Background(), f.res("pods"), WatchRequest{ResourceVersion: "1000000", SendInitialEvents: true})
	wantStatus(t, err, 504, metav1.StatusReasonTimeout, "Timeout: Too large resource version: 1000000, current: ")
}

func TestWatchRefuses(t *testing.T) {
	f := newFixture(t, func(c *store.Config) { c.HistoryEvents = 4 })
	old := strconv.FormatInt(f.create("pods", newPod("a")).Revision(), 10)
	slow := f.watchPods(WatchRequest{ResourceVersion: old})
	for i := range 10 {
		f.create("pods", newPod(fmt.Sprint("p", i)))
	}
	_, err := f.Watch(context.Background(), f.res("pods"), WatchRequest{ResourceVersion: old})
	wantStatus(t, err, 410, metav1.StatusReasonExpired, "The resourceVersion for the provided watch is too old.")
	_, err = slow.Next(context.Background())
	wantStatus(t, err, 410, metav1.StatusReasonExpired, "The resourceVersion for the provided watch is too old.")
	_, err = f.Watch(context.Background(), f.res("pods"), WatchRequest{ResourceVersion: "x"})
	wantStatus(t, err, 400, metav1.StatusReasonBadRequest, `resourceVersion: Invalid value: "x"`)
	_, err = f.Watch(context.Background(), f.res("pods"), WatchRequest{Field: mustFields(t, "spec.color=red")})
	wantStatus(t, err, 400, metav1.StatusReasonBadRequest, "field label not supported: spec.color")
}

// TestWatchKeepsAModelTrue lets watchers with all kinds of selectors follow random writes. Each keeps what it was told, and
// must in the end hold exactly what a list with the same selectors shows.
func TestWatchKeepsAModelTrue(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { followScribbles(t, rand.New(rand.NewPCG(seed, 1))) })
		})
	}
}

func followScribbles(t *testing.T, rnd *rand.Rand) {
	f := newFixture(t)
	ctx, cancel := context.WithCancel(context.Background())
	var models []*model
	var following sync.WaitGroup
	for _, label := range []string{"", "app=a", "app!=a", "app in (a,b),!gone"} {
		for _, field := range []string{"", "metadata.name=p3", "spec.nodeName=n1", "status.phase!=Pending"} {
			req := WatchRequest{Namespace: "default", Label: mustLabels(t, label), Field: mustFields(t, field)}
			m := &model{name: label + " " + field, req: req, watcher: f.watchPods(req), known: map[string]string{}}
			models = append(models, m)
			following.Go(func() { m.follow(ctx, t) })
		}
	}
	for range 300 {
		f.scribble(rnd, fmt.Sprint("p", rnd.IntN(6)))
	}
	synctest.Wait()
	for _, m := range models {
		list, err := f.List(ctx, f.res("pods"), ListRequest{Namespace: m.req.Namespace, Label: m.req.Label, Field: m.req.Field})
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]string{}
		for _, o := range list.Items {
			want[o.Meta().GetName()] = string(o.JSON())
		}
		if diff := cmp.Diff(want, m.known); diff != "" {
			t.Errorf("watch with %q (-list +watched):\n%s", m.name, diff)
		}
	}
	cancel()
	following.Wait()
}

// scribble does one random thing to a pod: whatever fits what there is.
func (f *fixture) scribble(rnd *rand.Rand, name string) {
	ctx := context.Background()
	o, err := f.Get(ctx, f.res("pods"), "default", name)
	if apierrors.IsNotFound(err) {
		pod := newPod(name)
		pod.Labels = map[string]string{"app": string("abc"[rnd.IntN(3)])}
		f.create("pods", pod)
		return
	}
	switch rnd.IntN(5) {
	case 0:
		f.update("pods", "", "default", name, func(obj runtime.Object) {
			obj.(*corev1.Pod).Labels = map[string]string{"app": string("abc"[rnd.IntN(3)])}
		})
	case 1:
		f.update("pods", "", "default", name, func(obj runtime.Object) {
			obj.(*corev1.Pod).Labels = map[string]string{"gone": "yes", "n": fmt.Sprint(rnd.IntN(3))}
		})
	case 2:
		f.update("pods", "status", "default", name, func(obj runtime.Object) {
			obj.(*corev1.Pod).Status.Phase = []corev1.PodPhase{corev1.PodPending, corev1.PodRunning}[rnd.IntN(2)]
		})
	case 3:
		if o.Runtime().(*corev1.Pod).Spec.NodeName == "" && o.Meta().GetDeletionTimestamp() == nil {
			if err := f.Bind(ctx, "default", name, "", fmt.Sprint("n", rnd.IntN(2))); err != nil {
				f.tb.Error(err)
			}
		}
	case 4:
		f.delete("pods", "default", name, &metav1.DeleteOptions{GracePeriodSeconds: new(int64(rnd.IntN(2)))})
	}
}

// model is what a watcher knows.
type model struct {
	name    string
	req     WatchRequest
	watcher Watcher
	known   map[string]string
}

// follow applies what the watcher delivers, and checks that each event makes sense.
func (m *model) follow(ctx context.Context, t *testing.T) {
	last := int64(0)
	for {
		events, err := m.watcher.Next(ctx)
		if err != nil {
			if err != context.Canceled {
				t.Errorf("watch with %q: %v", m.name, err)
			}
			return
		}
		for _, e := range events {
			name := e.Object.Meta().GetName()
			if _, known := m.known[name]; known != (e.Type != "ADDED") {
				t.Errorf("watch with %q: %s of %s, known before: %v", m.name, e.Type, name, known)
			}
			if e.Revision <= last || e.Object.Revision() != e.Revision {
				t.Errorf("watch with %q: revision %d of an object at %d comes after %d", m.name, e.Revision, e.Object.Revision(), last)
			}
			last = e.Revision
			if m.known[name] = string(e.Object.JSON()); e.Type == "DELETED" {
				delete(m.known, name)
			}
		}
	}
}
