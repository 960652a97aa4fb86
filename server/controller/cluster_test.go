package controller

import (
	"context"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"edgepod/server/registry"
	"edgepod/server/store"
)

// cluster is a real registry on a real store in a temporary folder. Node agents alone are played, by writing what they would.
type cluster struct {
	registry.Verbs
	tb testing.TB
}

func newCluster(tb testing.TB, configure ...func(*store.Config)) *cluster {
	tb.Helper()
	config := store.Config{Path: filepath.Join(tb.TempDir(), "state.db")}
	for _, f := range configure {
		f(&config)
	}
	s, err := store.Open(config)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	r, err := registry.New(registry.Config{Store: s})
	if err != nil {
		tb.Fatal(err)
	}
	return &cluster{Verbs: r, tb: tb}
}

// shortHistory makes watches expire all the time.
func shortHistory(c *store.Config) { c.HistoryEvents = 16 }

// start runs loops until stop is called, or the test ends; stop returns when they have.
func (c *cluster) start(loops ...Loop) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wait sync.WaitGroup
	for _, loop := range loops {
		wait.Go(func() {
			if err := loop.Run(ctx); err != nil {
				c.tb.Errorf("%T: %v", loop, err)
			}
		})
	}
	stop = func() {
		cancel()
		wait.Wait()
	}
	c.tb.Cleanup(stop)
	return stop
}

// pass lets time go by, in a bubble of synctest, until all is quiet again.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func (c *cluster) config() Config { return Config{Verbs: c.Verbs} }

func (c *cluster) res(name string) *registry.Resource {
	if name == "leases" {
		return c.Resource("coordination.k8s.io", name)
	}
	return c.Resource("", name)
}

func (c *cluster) create(resource string, obj runtime.Object) runtime.Object {
	c.tb.Helper()
	result, err := c.Create(context.Background(), c.res(resource), registry.CreateRequest{Object: obj})
	if err != nil {
		c.tb.Fatalf("create %s: %v", resource, err)
	}
	return result.Object.Runtime()
}

// update changes an object in place.
func update[T any](c *cluster, resource, subresource, namespace, name string, change func(*T)) {
	c.tb.Helper()
	_, err := c.Update(context.Background(), c.res(resource), registry.UpdateRequest{
		Namespace: namespace, Name: name, Subresource: subresource,
		Modify: func(live runtime.Object) (runtime.Object, error) {
			change(live.(any).(*T))
			return live, nil
		},
	})
	if err != nil {
		c.tb.Fatalf("update %s %s: %v", resource, name, err)
	}
}

func (c *cluster) node(name string, change func(*corev1.Node)) {
	c.tb.Helper()
	update(c, "nodes", "", "", name, change)
}

func (c *cluster) podStatus(name string, change func(*corev1.PodStatus)) {
	c.tb.Helper()
	update(c, "pods", "status", "default", name, func(pod *corev1.Pod) { change(&pod.Status) })
}

// end tells, as an agent would, that a pod has ended.
func (c *cluster) end(name string) {
	c.tb.Helper()
	c.podStatus(name, func(s *corev1.PodStatus) { s.Phase = corev1.PodSucceeded })
}

// delete asks for the deletion of an object, with no grace period if it is a pod.
func (c *cluster) delete(resource, namespace, name string) {
	c.tb.Helper()
	options := &metav1.DeleteOptions{}
	if resource == "pods" {
		options.GracePeriodSeconds = new(int64(0))
	}
	_, err := c.Delete(context.Background(), c.res(resource), registry.DeleteRequest{Namespace: namespace, Name: name, Options: options})
	if err != nil {
		c.tb.Fatalf("delete %s %s: %v", resource, name, err)
	}
}

// get returns an object, nil if there is none.
func get[T any](c *cluster, resource, namespace, name string) *T {
	c.tb.Helper()
	o, err := c.Get(context.Background(), c.res(resource), namespace, name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		c.tb.Fatalf("get %s %s: %v", resource, name, err)
	}
	return o.Runtime().(any).(*T)
}

func list[T any](c *cluster, resource, namespace string) []*T {
	c.tb.Helper()
	l, err := c.List(context.Background(), c.res(resource), registry.ListRequest{Namespace: namespace})
	if err != nil {
		c.tb.Fatalf("list %s: %v", resource, err)
	}
	items := make([]*T, len(l.Items))
	for i, o := range l.Items {
		items[i] = o.Runtime().(any).(*T)
	}
	return items
}

func (c *cluster) pod(name string) *corev1.Pod {
	c.tb.Helper()
	pod := get[corev1.Pod](c, "pods", "default", name)
	if pod == nil {
		c.tb.Fatalf("no pod %s", name)
	}
	return pod
}

// nodeOf returns where a pod is bound.
func (c *cluster) nodeOf(pod string) string {
	c.tb.Helper()
	return c.pod(pod).Spec.NodeName
}

// eventsOf returns the Events about a pod with that reason.
func (c *cluster) eventsOf(pod, reason string) []*corev1.Event {
	c.tb.Helper()
	return slices.DeleteFunc(list[corev1.Event](c, "events", ""), func(e *corev1.Event) bool {
		return e.InvolvedObject.Name != pod || e.Reason != reason
	})
}

// revision of the newest write.
func (c *cluster) revision() string {
	c.tb.Helper()
	l, err := c.List(context.Background(), c.res("nodes"), registry.ListRequest{})
	if err != nil {
		c.tb.Fatal(err)
	}
	return l.ResourceVersion
}

// readyNode is a node of so many CPUs, with room for 110 pods, as its agent registers it.
func readyNode(name, cpu string) *corev1.Node {
	room := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("8Gi"),
		corev1.ResourcePods: resource.MustParse("110"),
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
		Status: corev1.NodeStatus{
			Capacity: room, Allocatable: room,
			Conditions: []corev1.NodeCondition{{
				Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady",
				LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now(),
			}},
		},
	}
}

// newPod asks for so much CPU.
func newPod(name, cpu string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "main", Image: "edgepod.dev/toolbox",
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}},
		}}},
	}
}

// renew writes the node's Lease, as its agent does every ten seconds.
func (c *cluster) renew(node string) {
	c.tb.Helper()
	now := metav1.NewMicroTime(time.Now())
	if get[coordinationv1.Lease](c, "leases", corev1.NamespaceNodeLease, node) == nil {
		c.create("leases", &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: node},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: &node, LeaseDurationSeconds: new(int32(40)), RenewTime: &now},
		})
		return
	}
	update(c, "leases", "", corev1.NamespaceNodeLease, node, func(l *coordinationv1.Lease) { l.Spec.RenewTime = &now })
}
