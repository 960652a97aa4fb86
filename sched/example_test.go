package sched_test

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"edgepod/sched"
)

func Example() {
	var cache sched.Cache
	for _, name := range []string{"a", "b"} {
		cache.SetNode(&corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       corev1.NodeSpec{Unschedulable: name == "b"},
			Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
				corev1.ResourceCPU:  resource.MustParse("1"),
				corev1.ResourcePods: resource.MustParse("110"),
			}},
		})
	}
	for _, name := range []string{"first", "second"} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
		pod.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("600m")},
		}}}
		decision, err := sched.Schedule(pod, cache.Snapshot(), sched.DefaultProfile())
		var unfit *sched.FitError
		if errors.As(err, &unfit) {
			fmt.Println(name, "waits:", unfit)
			continue
		}
		fmt.Println(name, "goes to", decision.Node)
		cache.Assume(pod, decision.Node)
	}
	// Output:
	// first goes to a
	// second waits: 0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable. preemption: 0/2 nodes are available: 1 No preemption victims found for incoming pod, 1 Preemption is not helpful for scheduling.
}
