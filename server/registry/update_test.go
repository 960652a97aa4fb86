package registry

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/google/go-cmp/cmp"
)

func TestUpdateRefuses(t *testing.T) {
	f := newFixture(t)
	live := f.create("configmaps", newConfigMap("c"))
	f.create("configmaps", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "fixed"}, Immutable: new(true)})
	f.create("pods", newPod("p"))
	f.create("leases", newLease("l"))
	replaceBy := func(obj runtime.Object) func(runtime.Object) (runtime.Object, error) {
		return func(runtime.Object) (runtime.Object, error) { return obj, nil }
	}
	edit := func(change func(obj metav1.Object)) func(runtime.Object) (runtime.Object, error) {
		return func(live runtime.Object) (runtime.Object, error) {
			change(live.(metav1.Object))
			return live, nil
		}
	}
	tests := []struct {
		name          string
		resource      string
		object        string
		subresource   string
		modify        func(runtime.Object) (runtime.Object, error)
		preconditions *metav1.Preconditions
		code          int32
		reason        metav1.StatusReason
		message       string
	}{
		{
			name: "what does not exist", resource: "configmaps", object: "nothing", modify: edit(func(metav1.Object) {}),
			code: 404, reason: metav1.StatusReasonNotFound, message: `configmaps "nothing" not found`,
		},
		{
			name: "an older version", resource: "configmaps", object: "c", modify: edit(func(o metav1.Object) { o.SetResourceVersion("1") }),
			code: 409, reason: metav1.StatusReasonConflict,
			message: `Operation cannot be fulfilled on configmaps "c": the object has been modified; please apply your changes to the latest version and try again`,
		},
		{
			name: "another uid than the precondition's", resource: "configmaps", object: "c", modify: edit(func(metav1.Object) {}),
			preconditions: &metav1.Preconditions{UID: new(types.UID("other"))},
			code:          409, reason: metav1.StatusReasonConflict,
			message: fmt.Sprintf(`Operation cannot be fulfilled on configmaps "c": Precondition failed: UID in precondition: other, UID in object meta: %s`, live.Meta().GetUID()),
		},
		{
			name: "another version than the precondition's", resource: "configmaps", object: "c", modify: edit(func(metav1.Object) {}),
			preconditions: &metav1.Preconditions{ResourceVersion: new("1")},
			code:          409, reason: metav1.StatusReasonConflict,
			message: fmt.Sprintf(`Operation cannot be fulfilled on configmaps "c": Precondition failed: ResourceVersion in precondition: 1, ResourceVersion in object meta: %d`, live.Revision()),
		},
		{
			name: "another name", resource: "configmaps", object: "c", modify: edit(func(o metav1.Object) { o.SetName("d") }),
			code: 400, reason: metav1.StatusReasonBadRequest, message: "the name of the object (d) does not match the name on the URL (c)",
		},
		{
			name: "another namespace", resource: "configmaps", object: "c", modify: edit(func(o metav1.Object) { o.SetNamespace("kube-system") }),
			code: 400, reason: metav1.StatusReasonBadRequest, message: "the namespace of the object (kube-system) does not match the namespace on the request (default)",
		},
		{
			name: "another kind", resource: "configmaps", object: "c", modify: replaceBy(newPod("c")),
			code: 400, reason: metav1.StatusReasonBadRequest, message: `Pod in version "v1" cannot be handled as a ConfigMap`,
		},
		{
			name: "another uid", resource: "configmaps", object: "c", modify: edit(func(o metav1.Object) { o.SetUID("other") }),
			code: 422, reason: metav1.StatusReasonInvalid, message: `ConfigMap "c" is invalid: metadata.uid: Invalid value: "other": field is immutable`,
		},
		{
			name: "what is immutable", resource: "configmaps", object: "fixed", modify: edit(func(o metav1.Object) { o.(*corev1.ConfigMap).Data = map[string]string{"a": "b"} }),
			code: 422, reason: metav1.StatusReasonInvalid, message: `ConfigMap "fixed" is invalid: data: Forbidden: field is immutable when`,
		},
		{
			name: "a pod's command", resource: "pods", object: "p", modify: edit(func(o metav1.Object) { o.(*corev1.Pod).Spec.Containers[0].Command = []string{"x"} }),
			code: 422, reason: metav1.StatusReasonInvalid, message: "Pod \"p\" is invalid: spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`",
		},
		{
			name: "a status that isn't one", resource: "pods", object: "p", subresource: "status", modify: edit(func(o metav1.Object) {
				o.(*corev1.Pod).Status.NominatedNodeName = "no node"
			}),
			code: 422, reason: metav1.StatusReasonInvalid, message: `Pod "p" is invalid: status.nominatedNodeName: Invalid value: "no node"`,
		},
		{
			name: "a lease without its version", resource: "leases", object: "l", modify: replaceBy(newLease("l")),
			code: 422, reason: metav1.StatusReasonInvalid, message: `leases.coordination.k8s.io "l" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update`,
		},
		{
			name: "an unknown subresource", resource: "configmaps", object: "c", subresource: "status", modify: edit(func(metav1.Object) {}),
			code: 405, reason: metav1.StatusReasonMethodNotAllowed, message: `update is not supported on resources of kind "configmaps"`,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			before := f.store.Revision()
			_, err := f.Update(context.Background(), f.res(test.resource), UpdateRequest{
				Namespace: "default", Name: test.object, Subresource: test.subresource, Modify: test.modify, Preconditions: test.preconditions,
			})
			wantStatus(t, err, test.code, test.reason, test.message)
			if f.store.Revision() != before {
				t.Error("a refused update was stored")
			}
		})
	}
}

func TestModifyErrorIsHandedBack(t *testing.T) {
	f := newFixture(t)
	f.create("configmaps", newConfigMap("c"))
	want := errors.New("patch does not apply")
	_, err := f.Update(context.Background(), f.res("configmaps"), UpdateRequest{
		Namespace: "default", Name: "c", Modify: func(runtime.Object) (runtime.Object, error) { return nil, want },
	})
	if !errors.Is(err, want) {
		t.Errorf("got %v, want %v", err, want)
	}
}

func TestUpdateThatChangesNothingIsNotStored(t *testing.T) {
	f := newFixture(t)
	f.create("pods", newPod("p"))
	f.create("secrets", &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "s"}, StringData: map[string]string{"a": "b"}})
	live, before := f.get("pods", "default", "p"), f.store.Revision()
	f.update("pods", "", "default", "p", func(runtime.Object) {})
	f.update("pods", "status", "default", "p", func(runtime.Object) {})
	// The manifest that made it, applied once more without a version, says nothing new either.
	result, err := f.Update(context.Background(), f.res("secrets"), UpdateRequest{
		Namespace: "default", Name: "s",
		Modify: func(runtime.Object) (runtime.Object, error) {
			return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "s"}, StringData: map[string]string{"a": "b"}}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if f.store.Revision() != before || f.get("pods", "default", "p") != live || result.Object != f.get("secrets", "default", "s") {
		t.Error("an update without a change made a revision")
	}
}

func TestSubresourcesKeepApart(t *testing.T) {
	f := newFixture(t)
	f.create("pods", newPod("p"))
	changeAll := func(obj runtime.Object) {
		pod := obj.(*corev1.Pod)
		pod.Labels = map[string]string{"a": "b"}
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "n", UID: "u"}}
		pod.Spec.Containers[0].Image = "edgepod.dev/other"
		pod.Status.Phase = corev1.PodRunning
		pod.Status.QOSClass = ""
	}
	pod := f.update("pods", "status", "default", "p", changeAll).Object.Runtime().(*corev1.Pod)
	if pod.Spec.Containers[0].Image != "edgepod.dev/hello" || pod.Generation != 1 || pod.OwnerReferences != nil {
		t.Errorf("the status took more than the status: image %s, generation %d, owners %v", pod.Spec.Containers[0].Image, pod.Generation, pod.OwnerReferences)
	}
	if pod.Status.Phase != corev1.PodRunning || pod.Status.QOSClass != corev1.PodQOSBestEffort || pod.Labels["a"] != "b" {
		t.Errorf("phase %s, qosClass %q, labels %v", pod.Status.Phase, pod.Status.QOSClass, pod.Labels)
	}

	pod = f.update("pods", "", "default", "p", func(obj runtime.Object) {
		pod := obj.(*corev1.Pod)
		pod.Spec.Containers[0].Image = "edgepod.dev/other"
		pod.Status.Phase = corev1.PodFailed
		pod.Generation = 99
		pod.CreationTimestamp = metav1.Unix(1, 0)
		pod.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "me"}}
	}).Object.Runtime().(*corev1.Pod)
	if pod.Status.Phase != corev1.PodRunning || !pod.CreationTimestamp.Time.Equal(f.now) || pod.ManagedFields != nil {
		t.Errorf("an update changed what it may not: phase %s, created %s", pod.Status.Phase, pod.CreationTimestamp)
	}
	if pod.Spec.Containers[0].Image != "edgepod.dev/other" || pod.Generation != 2 {
		t.Errorf("image %s, generation %d, want the new one and 2", pod.Spec.Containers[0].Image, pod.Generation)
	}

	ns := f.create("namespaces", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}}).Meta().GetName()
	got := f.update("namespaces", "", "", ns, func(obj runtime.Object) {
		obj.(*corev1.Namespace).Spec.Finalizers = nil
		obj.(*corev1.Namespace).Status.Phase = corev1.NamespaceTerminating
		obj.(*corev1.Namespace).Labels = nil
	}).Object.Runtime().(*corev1.Namespace)
	if len(got.Spec.Finalizers) != 1 || got.Status.Phase != corev1.NamespaceActive || got.Labels["kubernetes.io/metadata.name"] != "team" {
		t.Errorf("an update of a namespace changed more than metadata: %+v", got)
	}

	node := f.create("nodes", &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: corev1.NodeStatus{Phase: corev1.NodeRunning}})
	if node.Runtime().(*corev1.Node).Status.Phase != corev1.NodeRunning {
		t.Error("a node's status is not taken when it is created")
	}
	cordoned := f.update("nodes", "status", "", "n", func(obj runtime.Object) { obj.(*corev1.Node).Spec.Unschedulable = true })
	if cordoned.Object.Runtime().(*corev1.Node).Spec.Unschedulable {
		t.Error("a node's status changed its spec")
	}
}

func TestUpdateCreatesLeasesAndEventsWhereAsked(t *testing.T) {
	f := newFixture(t)
	for _, may := range []bool{false, true} {
		calls := 0
		result, err := f.Update(context.Background(), f.res("leases"), UpdateRequest{
			Namespace: "default", Name: "l", MayCreate: may,
			Modify: func(live runtime.Object) (runtime.Object, error) {
				calls++
				return newLease("l"), nil
			},
		})
		if !may {
			wantStatus(t, err, 404, metav1.StatusReasonNotFound, `leases.coordination.k8s.io "l" not found`)
			continue
		}
		if err != nil || !result.Created || calls != 1 {
			t.Errorf("created %v after %d calls: %v", result.Created, calls, err)
		}
	}
	_, err := f.Update(context.Background(), f.res("configmaps"), UpdateRequest{
		Namespace: "default", Name: "c", MayCreate: true,
		Modify: func(runtime.Object) (runtime.Object, error) { return newConfigMap("c"), nil },
	})
	wantStatus(t, err, 404, metav1.StatusReasonNotFound, `configmaps "c" not found`)
}

func TestUpdateStartsAgainWhenSomebodyElseWasFaster(t *testing.T) {
	f := newFixture(t)
	f.create("configmaps", newConfigMap("c"))
	race := func(obj runtime.Object, interfere int) (calls int, err error) {
		_, err = f.Update(context.Background(), f.res("configmaps"), UpdateRequest{
			Namespace: "default", Name: "c",
			Modify: func(live runtime.Object) (runtime.Object, error) {
				if calls++; calls <= interfere {
					f.update("configmaps", "", "default", "c", func(obj runtime.Object) {
						obj.(*corev1.ConfigMap).Data[fmt.Sprint("other", f.store.Revision())] = "x"
					})
				}
				if obj != nil {
					return obj, nil
				}
				live.(*corev1.ConfigMap).Data["mine"] = "x"
				return live, nil
			},
		})
		return calls, err
	}
	if calls, err := race(nil, 3); err != nil || calls != 4 {
		t.Errorf("a change of the live object: %d calls, %v", calls, err)
	}
	if got := f.get("configmaps", "default", "c").Runtime().(*corev1.ConfigMap).Data; len(got) != 5 {
		t.Errorf("a change got lost: %v", got)
	}
	// A replacement without a version wins, one with a version loses.
	if calls, err := race(newConfigMap("c"), 1); err != nil || calls != 2 {
		t.Errorf("a replacement without a version: %d calls, %v", calls, err)
	}
	versioned := f.get("configmaps", "default", "c").Runtime().DeepCopyObject()
	versioned.(*corev1.ConfigMap).Data["mine"] = "y"
	calls, err := race(versioned, 1)
	wantStatus(t, err, 409, metav1.StatusReasonConflict, `Operation cannot be fulfilled on configmaps "c": the object has been modified`)
	if calls != 2 {
		t.Errorf("a replacement with a version: %d calls, want 2", calls)
	}
}

func TestHeartbeatsAreVolatile(t *testing.T) {
	f := newFixture(t)
	now := metav1.NewTime(f.now)
	node := &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: now}}}}
	changeNode := func(change func(*corev1.Node)) *corev1.Node {
		n := node.DeepCopy()
		change(n)
		return n
	}
	lease := newLease("l")
	changeLease := func(change func(*coordinationv1.Lease)) *coordinationv1.Lease {
		l := lease.DeepCopy()
		change(l)
		return l
	}
	later := metav1.NewTime(now.Add(time.Minute))
	tests := []struct {
		name     string
		resource string
		obj, old runtime.Object
		want     bool
	}{
		{"a node that beats", "nodes", changeNode(func(n *corev1.Node) { n.Status.Conditions[0].LastHeartbeatTime = later }), node, true},
		{"a node that is ready no more", "nodes", changeNode(func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionFalse }), node, false},
		{"a node with a label", "nodes", changeNode(func(n *corev1.Node) { n.Labels = map[string]string{"a": "b"} }), node, false},
		{"a node with another condition", "nodes", changeNode(func(n *corev1.Node) {
			n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: "Other"})
		}), node, false},
		{"a lease that is renewed", "leases", changeLease(func(l *coordinationv1.Lease) { l.Spec.RenewTime = new(metav1.NewMicroTime(later.Time)) }), lease, true},
		{"a lease that changes hands", "leases", changeLease(func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = new("other") }), lease, false},
	}
	for _, test := range tests {
		before := test.old.DeepCopyObject()
		if got := f.res(test.resource).volatile(test.obj, test.old); got != test.want {
			t.Errorf("%s: volatile is %v, want %v", test.name, got, test.want)
		}
		if diff := cmp.Diff(before, test.old); diff != "" {
			t.Errorf("%s: the frozen object was changed:\n%s", test.name, diff)
		}
	}
}

func TestBind(t *testing.T) {
	f := newFixture(t)
	ctx := context.Background()
	uid := f.create("pods", newPod("p")).Meta().GetUID()
	wantStatus(t, f.Bind(ctx, "default", "none", "", "n"), 404, metav1.StatusReasonNotFound, `pods "none" not found`)
	wantStatus(t, f.Bind(ctx, "default", "p", "other", "n"), 409, metav1.StatusReasonConflict,
		`Operation cannot be fulfilled on pods "p": Precondition failed: UID in precondition: other, UID in object meta: `)
	wantStatus(t, f.Bind(ctx, "default", "p", uid, ""), 422, metav1.StatusReasonInvalid, `Binding "p" is invalid: target.name: Required value`)
	if err := f.Bind(ctx, "default", "p", uid, "n"); err != nil {
		t.Fatal(err)
	}
	pod := f.get("pods", "default", "p").Runtime().(*corev1.Pod)
	want := []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(f.now)}}
	if diff := cmp.Diff(want, pod.Status.Conditions); pod.Spec.NodeName != "n" || diff != "" {
		t.Errorf("node %q, conditions (-want +got):\n%s", pod.Spec.NodeName, diff)
	}
	wantStatus(t, f.Bind(ctx, "default", "p", uid, "m"), 409, metav1.StatusReasonConflict,
		`Operation cannot be fulfilled on pods/binding "p": pod p is already assigned to node "n"`)

	gated := newPod("gated")
	gated.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/wait"}}
	if c := f.create("pods", gated).Runtime().(*corev1.Pod).Status.Conditions; len(c) != 1 || c[0].Reason != corev1.PodReasonSchedulingGated {
		t.Errorf("conditions of a gated pod: %+v", c)
	}
	wantStatus(t, f.Bind(ctx, "default", "gated", "", "n"), 409, metav1.StatusReasonConflict,
		`Operation cannot be fulfilled on pods/binding "gated": pod gated has non-empty .spec.schedulingGates`)
}

func newLease(name string) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: new("me"), LeaseDurationSeconds: new(int32(40))},
	}
}
