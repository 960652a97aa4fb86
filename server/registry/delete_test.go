package registry

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/google/go-cmp/cmp"
)

func TestDeletePods(t *testing.T) {
	type request struct {
		after time.Duration
		grace *int64
	}
	asked := func(grace int64) request { return request{grace: &grace} }
	tests := []struct {
		name       string
		prepare    func(*corev1.Pod) // of the status
		unbound    bool
		finalizers []string
		requests   []request
		gone       bool
		deleted    time.Duration // deletionTimestamp after the first request
		grace      int64
		generation int64
	}{
		{name: "gives a running pod the time that its spec names", requests: []request{{}}, deleted: 30 * time.Second, grace: 30, generation: 2},
		{name: "gives a running pod the time asked for", requests: []request{asked(7)}, deleted: 7 * time.Second, grace: 7, generation: 2},
		{name: "takes a negative time for a second", requests: []request{asked(-5)}, deleted: time.Second, grace: 1, generation: 2},
		{name: "removes a running pod at once where asked", requests: []request{asked(0)}, gone: true, grace: 0, generation: 2},
		{name: "removes a pod that was never bound", unbound: true, requests: []request{{}}, gone: true, generation: 2},
		{
			name: "removes a pod that has ended", requests: []request{{}}, gone: true, generation: 2,
			prepare: func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodSucceeded },
		},
		{name: "changes nothing when asked again", requests: []request{{}, {after: time.Second}}, deleted: 30 * time.Second, grace: 30, generation: 2},
		{name: "never makes the time longer", requests: []request{asked(5), asked(60)}, deleted: 5 * time.Second, grace: 5, generation: 2},
		{name: "makes the time shorter", requests: []request{{}, {after: time.Second, grace: new(int64(10))}}, deleted: 10 * time.Second, grace: 10, generation: 2},
		{name: "makes the time shorter than what has passed", requests: []request{{}, {after: 20 * time.Second, grace: new(int64(10))}}, deleted: 20 * time.Second, grace: 1, generation: 2},
		{name: "removes a pod that is being deleted where asked", requests: []request{{}, asked(0)}, gone: true, generation: 2},
		{name: "keeps what a finalizer holds", finalizers: []string{"example.com/hold"}, requests: []request{asked(0)}, generation: 2},
		{name: "keeps what a finalizer holds, whatever is asked later", finalizers: []string{"example.com/hold"}, requests: []request{{}, asked(0), asked(0)}, generation: 2},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f := newFixture(t)
			pod := newPod("p")
			pod.Finalizers = test.finalizers
			f.create("pods", pod)
			if !test.unbound {
				if err := f.Bind(context.Background(), "default", "p", "", "n"); err != nil {
					t.Fatal(err)
				}
			}
			if test.prepare != nil {
				f.update("pods", "status", "default", "p", func(obj runtime.Object) { test.prepare(obj.(*corev1.Pod)) })
			}
			first := f.now
			var result Result
			for _, r := range test.requests {
				f.now = f.now.Add(r.after)
				result = f.delete("pods", "default", "p", &metav1.DeleteOptions{GracePeriodSeconds: r.grace})
			}
			if result.Gone != test.gone {
				t.Fatalf("gone is %v, want %v: %s", result.Gone, test.gone, result.Object.JSON())
			}
			if test.gone {
				f.gone("pods", "default", "p")
			} else if f.get("pods", "default", "p") != result.Object {
				t.Error("the answer is not what is stored")
			}
			meta := result.Object.Meta()
			if meta.GetDeletionTimestamp() == nil || !meta.GetDeletionTimestamp().Time.Equal(first.Add(test.deleted)) {
				t.Errorf("deletionTimestamp is %v, want %v", meta.GetDeletionTimestamp(), first.Add(test.deleted))
			}
			if grace := meta.GetDeletionGracePeriodSeconds(); grace == nil || *grace != test.grace {
				t.Errorf("deletionGracePeriodSeconds is %v, want %d", grace, test.grace)
			}
			if meta.GetGeneration() != test.generation {
				t.Errorf("generation is %d, want %d", meta.GetGeneration(), test.generation)
			}
		})
	}
}

func TestDeleteRefuses(t *testing.T) {
	f := newFixture(t)
	live := f.create("configmaps", newConfigMap("c"))
	policy := metav1.DeletionPropagation("Sideways")
	tests := []struct {
		name, resource, object string
		options                metav1.DeleteOptions
		code                   int32
		reason                 metav1.StatusReason
		message                string
	}{
		{"what does not exist", "configmaps", "none", metav1.DeleteOptions{}, 404, metav1.StatusReasonNotFound, `configmaps "none" not found`},
		{
			"another uid", "configmaps", "c",
			metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: new(types.UID("x"))}},
			409, metav1.StatusReasonConflict,
			fmt.Sprintf(`Operation cannot be fulfilled on ConfigMap "c": the UID in the precondition (x) does not match the UID in record (%s). The object might have been deleted and then recreated`, live.Meta().GetUID()),
		},
		{
			"another version", "configmaps", "c",
			metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: new("1")}},
			409, metav1.StatusReasonConflict,
			fmt.Sprintf(`Operation cannot be fulfilled on ConfigMap "c": the ResourceVersion in the precondition (1) does not match the ResourceVersion in record (%d). The object might have been modified`, live.Revision()),
		},
		{"a policy that there isn't", "configmaps", "c", metav1.DeleteOptions{PropagationPolicy: &policy}, 422, metav1.StatusReasonInvalid, `DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Unsupported value: "Sideways"`},
		{"what every cluster needs", "namespaces", "kube-system", metav1.DeleteOptions{}, 403, metav1.StatusReasonForbidden, `namespaces "kube-system" is forbidden: this namespace may not be deleted`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			namespace := "default"
			if test.resource == "namespaces" {
				namespace = ""
			}
			_, err := f.Delete(context.Background(), f.res(test.resource), DeleteRequest{Namespace: namespace, Name: test.object, Options: &test.options})
			wantStatus(t, err, test.code, test.reason, test.message)
		})
	}
	f.get("configmaps", "default", "c")
}

func TestFinalizersHoldAnObject(t *testing.T) {
	f := newFixture(t)
	cm := newConfigMap("c")
	cm.Finalizers = []string{"example.com/a", "example.com/b"}
	f.create("configmaps", cm)
	if f.delete("configmaps", "default", "c", &metav1.DeleteOptions{}).Gone {
		t.Fatal("gone in spite of finalizers")
	}
	before := f.store.Revision()
	f.delete("configmaps", "default", "c", &metav1.DeleteOptions{})
	if f.store.Revision() != before {
		t.Error("a second request was stored though it changes nothing")
	}
	_, err := f.Update(context.Background(), f.res("configmaps"), UpdateRequest{
		Namespace: "default", Name: "c",
		Modify: func(live runtime.Object) (runtime.Object, error) {
			live.(*corev1.ConfigMap).Finalizers = append(live.(*corev1.ConfigMap).Finalizers, "example.com/c")
			return live, nil
		},
	})
	wantStatus(t, err, 422, metav1.StatusReasonInvalid, `ConfigMap "c" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted`)
	drop := func(obj runtime.Object) {
		cm := obj.(*corev1.ConfigMap)
		cm.Finalizers = cm.Finalizers[1:]
		cm.DeletionTimestamp = nil
	}
	if f.update("configmaps", "", "default", "c", drop).Gone {
		t.Fatal("gone in spite of a finalizer")
	}
	if o := f.get("configmaps", "default", "c"); o.Meta().GetDeletionTimestamp() == nil {
		t.Error("an update took the deletionTimestamp away")
	}
	w, err := f.Watch(context.Background(), f.res("configmaps"), WatchRequest{ResourceVersion: fmt.Sprint(f.store.Revision())})
	if err != nil {
		t.Fatal(err)
	}
	if result := f.update("configmaps", "", "default", "c", drop); !result.Gone || len(result.Object.Meta().GetFinalizers()) != 0 {
		t.Errorf("gone is %v, finalizers %v", result.Gone, result.Object.Meta().GetFinalizers())
	}
	f.gone("configmaps", "default", "c")
	events, err := w.Next(context.Background())
	if err != nil || len(events) != 1 || events[0].Type != string(watch.Deleted) || events[0].Object.Revision() != f.store.Revision() {
		t.Errorf("a watcher saw %+v, %v", events, err)
	}
}

func TestPropagationPolicyBecomesFinalizers(t *testing.T) {
	orphan, foreground := metav1.FinalizerOrphanDependents, metav1.FinalizerDeleteDependents
	policy := func(p metav1.DeletionPropagation) metav1.DeleteOptions {
		return metav1.DeleteOptions{PropagationPolicy: &p}
	}
	tests := []struct {
		name       string
		finalizers []string
		options    metav1.DeleteOptions
		want       []string // nil: gone
	}{
		{"nothing said", nil, metav1.DeleteOptions{}, nil},
		{"background", nil, policy(metav1.DeletePropagationBackground), nil},
		{"foreground", nil, policy(metav1.DeletePropagationForeground), []string{foreground}},
		{"orphan", nil, policy(metav1.DeletePropagationOrphan), []string{orphan}},
		{"orphanDependents", nil, metav1.DeleteOptions{OrphanDependents: new(true)}, []string{orphan}},
		{"not orphanDependents", []string{orphan}, metav1.DeleteOptions{OrphanDependents: new(false)}, nil},
		{"background over what the object says", []string{foreground}, policy(metav1.DeletePropagationBackground), nil},
		{"foreground over what the object says", []string{orphan}, policy(metav1.DeletePropagationForeground), []string{foreground}},
		{"what the object says", []string{foreground}, metav1.DeleteOptions{}, []string{foreground}},
		{"other finalizers stay", []string{"example.com/a"}, policy(metav1.DeletePropagationForeground), []string{"example.com/a", foreground}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f := newFixture(t)
			f.collected = true
			cm := newConfigMap("c")
			cm.Finalizers = test.finalizers
			f.create("configmaps", cm)
			result := f.delete("configmaps", "default", "c", &test.options)
			if result.Gone != (test.want == nil) {
				t.Fatalf("gone is %v: %s", result.Gone, result.Object.JSON())
			}
			if diff := cmp.Diff(test.want, result.Object.Meta().GetFinalizers()); test.want != nil && diff != "" {
				t.Errorf("finalizers (-want +got):\n%s", diff)
			}
		})
	}
	f := newFixture(t)
	options := policy(metav1.DeletePropagationForeground)
	f.create("configmaps", newConfigMap("c"))
	if !f.delete("configmaps", "default", "c", &options).Gone {
		t.Error("an object waits for a garbage collection that there isn't")
	}
	f.collected = true
	event := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "e"}, InvolvedObject: corev1.ObjectReference{Namespace: "default"}}
	f.create("events", event)
	if !f.delete("events", "default", "e", &options).Gone {
		t.Error("an event, which owns nothing, waits for garbage collection")
	}
}

func TestNamespaceEndsThroughFinalize(t *testing.T) {
	f := newFixture(t)
	f.create("namespaces", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}})
	result := f.delete("namespaces", "", "team", &metav1.DeleteOptions{})
	ns := result.Object.Runtime().(*corev1.Namespace)
	if result.Gone || ns.Status.Phase != corev1.NamespaceTerminating || ns.DeletionTimestamp == nil {
		t.Fatalf("first request: gone %v, phase %s, deletionTimestamp %v", result.Gone, ns.Status.Phase, ns.DeletionTimestamp)
	}
	before := f.store.Revision()
	if f.delete("namespaces", "", "team", &metav1.DeleteOptions{}).Gone || f.store.Revision() != before {
		t.Error("a second request changed something")
	}
	result = f.update("namespaces", "finalize", "", "team", func(obj runtime.Object) { obj.(*corev1.Namespace).Spec.Finalizers = nil })
	if !result.Gone {
		t.Errorf("finalized, and still there: %s", result.Object.JSON())
	}
	f.gone("namespaces", "", "team")
}

func TestDeleteCollection(t *testing.T) {
	f := newFixture(t)
	for i := range 5 {
		cm := newConfigMap(fmt.Sprint("c", i))
		cm.Labels = map[string]string{"odd": fmt.Sprint(i%2 == 1)}
		f.create("configmaps", cm)
	}
	list, err := f.DeleteCollection(context.Background(), f.res("configmaps"),
		ListRequest{Namespace: "default", Label: mustLabels(t, "odd=true")}, DeleteRequest{Options: &metav1.DeleteOptions{}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"c1", "c3"}, names(list.Items)); diff != "" {
		t.Errorf("deleted (-want +got):\n%s", diff)
	}
	rest, err := f.List(context.Background(), f.res("configmaps"), ListRequest{Namespace: "default"})
	if diff := cmp.Diff([]string{"c0", "c2", "c4"}, names(rest.Items)); err != nil || diff != "" {
		t.Errorf("left over: %v (-want +got):\n%s", err, diff)
	}
}
