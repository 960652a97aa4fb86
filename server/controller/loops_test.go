package controller

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"edgepod/server/registry"
)

func namespaceNamed(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// A namespace goes when its pods have ended and finalizers let go; what pods use stays until they have.
func TestNamespaceIsEmptiedPodsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.start(NewNamespaces(c.config()), NewServiceAccounts(c.config()))
		c.create("namespaces", namespaceNamed("doomed"))
		synctest.Wait()
		pod := newPod("slow", "1")
		pod.Namespace, pod.Spec.NodeName = "doomed", "n1"
		c.create("pods", pod)
		held := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "doomed", Name: "held", Finalizers: []string{"example.com/hold"}}}
		c.create("configmaps", held)
		c.create("secrets", &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "doomed", Name: "s"}})

		c.delete("namespaces", "", "doomed")
		pass(time.Minute)
		if got := get[corev1.Pod](c, "pods", "doomed", "slow"); got == nil || got.DeletionTimestamp == nil {
			t.Fatalf("pod: %+v, want it to be given its grace period", got)
		}
		if get[corev1.Secret](c, "secrets", "doomed", "s") == nil {
			t.Error("the secret went before the pod that may use it")
		}
		wantRemaining(t, c, "Some resources are remaining: pods. has 1 resource instances", "All content-preserving finalizers finished")

		c.delete("pods", "doomed", "slow")
		pass(time.Minute)
		wantRemaining(t, c, "Some resources are remaining: configmaps. has 1 resource instances",
			"Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances")
		update(c, "configmaps", "", "doomed", "held", func(m *corev1.ConfigMap) { m.Finalizers = nil })
		pass(time.Minute)
		if ns := get[corev1.Namespace](c, "namespaces", "", "doomed"); ns != nil {
			t.Errorf("namespace is still there: %+v", ns)
		}
		for _, resource := range c.Resources() {
			if !resource.Namespaced {
				continue
			}
			left, err := c.List(t.Context(), resource, registry.ListRequest{Namespace: "doomed"})
			if err != nil || len(left.Items) > 0 {
				t.Errorf("%d %s are left over (%v)", len(left.Items), resource.Name, err)
			}
		}
	})
}

func wantRemaining(t *testing.T, c *cluster, messages ...string) {
	t.Helper()
	var got []string
	for _, condition := range get[corev1.Namespace](c, "namespaces", "", "doomed").Status.Conditions {
		got = append(got, condition.Message)
	}
	if !slices.Equal(got, messages) {
		t.Errorf("conditions say %q, want %q", got, messages)
	}
}

// The deletion of a namespace goes on after a restart, and one that was created again meanwhile is another.
func TestNamespaceDeletionGoesOnAfterRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		for i := range 20 {
			c.create("namespaces", namespaceNamed(fmt.Sprintf("ns%d", i)))
			c.create("configmaps", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprintf("ns%d", i), Name: "m"}})
			c.delete("namespaces", "", fmt.Sprintf("ns%d", i))
		}
		c.start(NewNamespaces(c.config()))
		pass(time.Second)
		if n := len(list[corev1.Namespace](c, "namespaces", "")); n != 4 {
			t.Errorf("%d namespaces are left, want the four of every cluster", n)
		}
		c.create("namespaces", namespaceNamed("ns0"))
		c.create("configmaps", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns0", Name: "m"}})
		pass(time.Minute)
		if get[corev1.ConfigMap](c, "configmaps", "ns0", "m") == nil {
			t.Error("the content of the new namespace went with the old one")
		}
	})
}

func TestEmptyingIsLookedAtLessOftenTheLongerItTakes(t *testing.T) {
	for elapsed, want := range map[time.Duration]time.Duration{
		0: emptyingPauseLeast, time.Second: 250 * time.Millisecond, 8 * time.Second: 2 * time.Second, time.Hour: emptyingPauseMost,
	} {
		if got := emptyingPause(elapsed); got != want {
			t.Errorf("after %v: pause of %v, want %v", elapsed, got, want)
		}
	}
}

func TestEveryNamespaceHasADefaultServiceAccount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		stop := c.start(NewServiceAccounts(c.config()))
		c.create("namespaces", namespaceNamed("new"))
		synctest.Wait()
		wantAccount := func(namespace string) {
			t.Helper()
			if get[corev1.ServiceAccount](c, "serviceaccounts", namespace, "default") == nil {
				t.Errorf("namespace %s has no ServiceAccount default", namespace)
			}
		}
		wantAccount("default")
		wantAccount("new")
		c.delete("serviceaccounts", "new", "default")
		synctest.Wait()
		wantAccount("new")
		stop()
		c.delete("serviceaccounts", "new", "default")
		c.start(NewServiceAccounts(c.config()))
		synctest.Wait()
		wantAccount("new")
	})
}

func TestEventsGoAnHourAfterTheyHappenedLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.start(NewEvents(c.config()))
		r := newRecorder(c.Verbs, "test")
		pod := c.create("pods", newPod("p", "1")).(*corev1.Pod)
		write := func(reason string) string {
			name, err := r.create(t.Context(), pod, notice{kind: corev1.EventTypeNormal, reason: reason, message: reason, at: time.Now()}, 1)
			if err != nil {
				t.Fatal(err)
			}
			return name
		}
		write("Once")
		again := write("Again")
		pass(40 * time.Minute)
		if err := r.again(t.Context(), "default", again, 1, time.Now()); err != nil {
			t.Fatal(err)
		}
		wantEvents := func(reasons ...string) {
			t.Helper()
			var got []string
			for _, e := range list[corev1.Event](c, "events", "") {
				got = append(got, e.Reason)
			}
			if slices.Sort(got); !slices.Equal(got, reasons) {
				t.Errorf("Events %v, want %v", got, reasons)
			}
		}
		wantEvents("Again", "Once")
		pass(30 * time.Minute)
		wantEvents("Again")
		pass(40 * time.Minute)
		wantEvents()
	})
}

func TestEventsAboutLongNamesAreTakenByTheAPI(t *testing.T) {
	c := newCluster(t)
	r := newRecorder(c.Verbs, "test")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: strings.Repeat("a.", 126) + "b", UID: "u"}}
	now := time.Now()
	for range 2 {
		if _, err := r.create(t.Context(), pod, notice{kind: "Normal", reason: "R", message: strings.Repeat("é", 1000), at: now}, 1); err != nil {
			t.Error(err)
		}
	}
}

func TestPodsOfDeletedNodesAreCollected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		for _, name := range []string{"n1", "n2"} {
			c.create("nodes", readyNode(name, "1"))
			pod := newPod("on-"+name, "100m")
			pod.Spec.NodeName = name
			c.create("pods", pod)
		}
		c.create("pods", newPod("unbound", "1"))
		c.start(NewPodCollection(c.config()))
		pass(time.Hour)
		c.delete("nodes", "", "n1")
		pass(orphanQuarantine - time.Second)
		if get[corev1.Pod](c, "pods", "default", "on-n1") == nil {
			t.Error("the pod went although its node may come back")
		}
		pass(collectPeriod + orphanQuarantine)
		var left []string
		for _, pod := range list[corev1.Pod](c, "pods", "") {
			left = append(left, pod.Name)
		}
		if !slices.Equal(left, []string{"on-n2", "unbound"}) {
			t.Errorf("pods left: %v", left)
		}
	})
}
