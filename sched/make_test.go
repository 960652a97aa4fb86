package sched

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// amountOf is a resource and how much of it a test's node has, or a test's pod requests.
type amountOf struct {
	name corev1.ResourceName
	q    resource.Quantity
}

func cpu(n int64) amountOf { return scalar(corev1.ResourceCPU, n) }
func milliCPU(n int64) amountOf {
	return of(corev1.ResourceCPU, resource.NewMilliQuantity(n, resource.DecimalSI))
}

func memory(n int64) amountOf {
	return of(corev1.ResourceMemory, resource.NewQuantity(n, resource.BinarySI))
}
func maxPods(n int64) amountOf { return scalar(corev1.ResourcePods, n) }

func scalar(name corev1.ResourceName, n int64) amountOf {
	return of(name, resource.NewQuantity(n, resource.DecimalSI))
}

func of(name corev1.ResourceName, q *resource.Quantity) amountOf { return amountOf{name, *q} }

func list(amounts []amountOf) corev1.ResourceList {
	l := corev1.ResourceList{}
	for _, a := range amounts {
		l[a.name] = a.q
	}
	return l
}

// testNode has room for 110 pods if nothing else is said.
func testNode(name string, allocatable ...amountOf) *corev1.Node {
	l := list(allocatable)
	if _, ok := l[corev1.ResourcePods]; !ok {
		l[corev1.ResourcePods] = *resource.NewQuantity(110, resource.DecimalSI)
	}
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{Allocatable: l}}
}

// testPod has one container.
func testPod(name string, requests ...amountOf) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "c", Image: "app:1", Resources: corev1.ResourceRequirements{Requests: list(requests)},
		}}},
	}
}

// on is the pod bound to the node.
func on(node string, pod *corev1.Pod) *corev1.Pod {
	pod.Spec.NodeName = node
	return pod
}
