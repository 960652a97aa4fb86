package registry

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"edgepod/server/registry/upstream"

	"github.com/google/go-cmp/cmp"
)

// TestSelectableFields tries each field that upstream lets a selector name, on an object that has it set.
func TestSelectableFields(t *testing.T) {
	meta := metav1.ObjectMeta{Namespace: "ns", Name: "x"}
	byMeta := map[string]string{"metadata.name": "x", "metadata.namespace": "ns"}
	tests := []struct {
		resource string
		obj      runtime.Object
		want     map[string]string
	}{
		{"pods", &corev1.Pod{
			ObjectMeta: meta,
			Spec: corev1.PodSpec{
				NodeName: "n", RestartPolicy: "Never", SchedulerName: "s", ServiceAccountName: "sa", HostNetwork: true,
			},
			Status: corev1.PodStatus{
				Phase: "Running", PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}, {IP: "::1"}}, NominatedNodeName: "m",
			},
		}, map[string]string{
			"metadata.name": "x", "metadata.namespace": "ns",
			"spec.nodeName": "n", "spec.restartPolicy": "Never", "spec.schedulerName": "s", "spec.serviceAccountName": "sa",
			"spec.hostNetwork": "true", "status.phase": "Running", "status.podIP": "10.0.0.1", "status.nominatedNodeName": "m",
		}},
		{"events", &corev1.Event{
			ObjectMeta: meta,
			InvolvedObject: corev1.ObjectReference{
				Kind: "Pod", Namespace: "ns", Name: "p", UID: "u", APIVersion: "v1", ResourceVersion: "7", FieldPath: "spec",
			},
			Reason: "Started", ReportingController: "kubelet", Type: "Normal", Source: corev1.EventSource{Component: "agent"},
		}, map[string]string{
			"metadata.name": "x", "metadata.namespace": "ns",
			"involvedObject.kind": "Pod", "involvedObject.namespace": "ns", "involvedObject.name": "p", "involvedObject.uid": "u",
			"involvedObject.apiVersion": "v1", "involvedObject.resourceVersion": "7", "involvedObject.fieldPath": "spec",
			"reason": "Started", "reportingComponent": "kubelet", "source": "agent", "type": "Normal",
		}},
		{"events", &corev1.Event{ObjectMeta: meta, ReportingController: "kubelet"}, map[string]string{"source": "kubelet"}},
		{"namespaces", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Status: corev1.NamespaceStatus{Phase: "Active"}}, map[string]string{
			"metadata.name": "x", "status.phase": "Active",
		}},
		{"nodes", &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Spec: corev1.NodeSpec{Unschedulable: true}}, map[string]string{
			"metadata.name": "x", "spec.unschedulable": "true",
		}},
		{"secrets", &corev1.Secret{ObjectMeta: meta, Type: "Opaque"}, map[string]string{"metadata.name": "x", "metadata.namespace": "ns", "type": "Opaque"}},
		{"configmaps", &corev1.ConfigMap{ObjectMeta: meta}, byMeta},
		{"serviceaccounts", &corev1.ServiceAccount{ObjectMeta: meta}, byMeta},
	}
	f := newFixture(t)
	for _, test := range tests {
		res := f.res(test.resource)
		for label, want := range test.want {
			if _, _, err := upstream.FieldLabel(res.Kind, label, want); err != nil {
				t.Errorf("%s: %v", res.Name, err)
			}
			if got := (fieldsOf{&Object{resource: res, decoded: test.obj}}).Get(label); got != want {
				t.Errorf("%s: %s is %q, want %q", res.Name, label, got, want)
			}
		}
	}
}

func TestWarnings(t *testing.T) {
	f := newFixture(t)
	meta := metav1.ObjectMeta{Namespace: "default", Name: "x"}
	annotated := meta.DeepCopy()
	annotated.Annotations = map[string]string{enforceMountableSecrets: "true"}
	tests := []struct {
		resource string
		obj      runtime.Object
		want     string
	}{
		{"secrets", &corev1.Secret{ObjectMeta: meta, Type: corev1.SecretTypeTLS, Data: map[string][]byte{"tls.crt": nil, "tls.key": nil}}, "tls: failed to find any PEM data in certificate input"},
		{"serviceaccounts", &corev1.ServiceAccount{ObjectMeta: *annotated}, "metadata.annotations[kubernetes.io/enforce-mountable-secrets]: deprecated"},
		{"nodes", &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Spec: corev1.NodeSpec{DoNotUseExternalID: "x"}}, "spec.externalID: this field is deprecated"},
		{"pods", &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a.b"}, Spec: newPod("x").Spec}, "metadata.name: this is used in the Pod's hostname"},
	}
	for _, test := range tests {
		result, err := f.Create(context.Background(), f.res(test.resource), CreateRequest{Object: test.obj})
		if err != nil {
			t.Errorf("%s: %v", test.resource, err)
			continue
		}
		if len(result.Warnings) != 1 || !strings.HasPrefix(result.Warnings[0], test.want) {
			t.Errorf("%s: warnings %q, want %q", test.resource, result.Warnings, test.want)
		}
	}
	again := f.update("serviceaccounts", "", "default", "x", func(obj runtime.Object) { obj.(metav1.Object).SetLabels(map[string]string{"a": "b"}) })
	if len(again.Warnings) > 0 {
		t.Errorf("an update that is not about the annotation warns of it: %q", again.Warnings)
	}
}

func TestNamespaceStatusAndFinalizers(t *testing.T) {
	f := newFixture(t)
	f.create("namespaces", &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: "team"},
		Spec:       corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{"example.com/hold"}},
	})
	ns := f.update("namespaces", "status", "", "team", func(obj runtime.Object) {
		obj.(*corev1.Namespace).Spec.Finalizers = nil
		obj.(*corev1.Namespace).Status.Conditions = []corev1.NamespaceCondition{{Type: corev1.NamespaceContentRemaining, Status: corev1.ConditionFalse}}
	}).Object.Runtime().(*corev1.Namespace)
	want := []corev1.FinalizerName{"example.com/hold", "kubernetes"}
	if diff := cmp.Diff(want, ns.Spec.Finalizers); diff != "" || len(ns.Status.Conditions) != 1 {
		t.Errorf("conditions %v, finalizers (-want +got):\n%s", ns.Status.Conditions, diff)
	}
	f.delete("namespaces", "", "team", &metav1.DeleteOptions{})
	drop := func(obj runtime.Object) {
		obj.(*corev1.Namespace).Spec.Finalizers = obj.(*corev1.Namespace).Spec.Finalizers[1:]
		obj.(*corev1.Namespace).Status.Phase = corev1.NamespaceActive
	}
	result := f.update("namespaces", "finalize", "", "team", drop)
	if result.Gone || result.Object.Runtime().(*corev1.Namespace).Status.Phase != corev1.NamespaceTerminating {
		t.Errorf("gone %v after the first finalizer: %s", result.Gone, result.Object.JSON())
	}
	f.update("namespaces", "", "", "team", func(obj runtime.Object) { obj.(*corev1.Namespace).Finalizers = nil })
	if !f.update("namespaces", "finalize", "", "team", drop).Gone {
		t.Error("still there after the last finalizer")
	}
}

// TestResourcesAreWhatDiscoverySays checks what clients build their commands from.
func TestResourcesAreWhatDiscoverySays(t *testing.T) {
	f := newFixture(t)
	for _, res := range f.Resources() {
		if f.Resource(res.Kind.Group, res.Name) != res {
			t.Errorf("%s is not found by its name", res.Name)
		}
		kinds, _, err := upstream.Scheme.ObjectKinds(res.New())
		if err != nil || kinds[0] != res.Kind {
			t.Errorf("%s makes objects of %v: %v", res.Name, kinds, err)
		}
		lists, _, err := upstream.Scheme.ObjectKinds(res.NewList())
		if err != nil || lists[0] != res.Kind.GroupVersion().WithKind(res.Kind.Kind+"List") {
			t.Errorf("%s makes lists of %v: %v", res.Name, lists, err)
		}
		if res.update[""] == nil || res.rules.create == nil {
			t.Errorf("%s has no rules", res.Name)
		}
		for _, sub := range res.Subresources {
			if _, ok := res.update[sub.Name]; !ok && sub.Name != "binding" && sub.Name != "log" {
				t.Errorf("%s/%s has no rules", res.Name, sub.Name)
			}
		}
	}
	if f.Resource("", "moons") != nil || f.Resource("apps", "pods") != nil {
		t.Error("a resource that there isn't is found")
	}
}

func TestNullDataIsEmptyData(t *testing.T) {
	f := newFixture(t)
	meta := metav1.ObjectMeta{Namespace: "default", Name: "x"}
	secret := f.create("secrets", &corev1.Secret{ObjectMeta: meta, Data: map[string][]byte{"a": nil}})
	if !strings.Contains(string(secret.JSON()), `"data":{"a":""}`) {
		t.Errorf("got %s", secret.JSON())
	}
	cm := f.create("configmaps", &corev1.ConfigMap{ObjectMeta: meta, BinaryData: map[string][]byte{"a": nil}})
	if !strings.Contains(string(cm.JSON()), `"binaryData":{"a":""}`) {
		t.Errorf("got %s", cm.JSON())
	}
	changed := f.update("secrets", "", "default", "x", func(obj runtime.Object) { obj.(*corev1.Secret).Data["b"] = nil })
	if !strings.Contains(string(changed.Object.JSON()), `"data":{"a":"","b":""}`) {
		t.Errorf("got %s", changed.Object.JSON())
	}
}
