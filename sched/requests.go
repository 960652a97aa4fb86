package sched

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// requestRules are the variants in which a pod's requests are computed.
type requestRules struct {
	// fillCPU and fillMemory count containers that don't name the resource as if they asked for a little.
	fillCPU, fillMemory bool
	// ignorePodLevel leaves out amounts that are requested for the pod as a whole.
	ignorePodLevel bool
}

// podRequests is what the pod takes from its node:
//
//	max(containers + sidecars, each init step) + overhead
//
// where an init step is an init container beside the sidecars started before it. Amounts given for the pod as a whole
// replace the computed ones. A running pod that is being resized takes the most of what is wanted, given and in use.
func podRequests(pod *corev1.Pod, rules requestRules) amounts {
	sum := containerRequests(pod, rules)
	if level := podLevelRequests(pod); level != nil && !rules.ignorePodLevel {
		for name, q := range level {
			if isPodLevel(name) {
				sum.set(name, q)
			}
		}
	}
	sum.addList(pod.Spec.Overhead)
	return sum
}

// containerRequests is podRequests without amounts that concern the pod as a whole.
func containerRequests(pod *corev1.Pod, rules requestRules) amounts {
	wanted := func(c *corev1.Container, _ *corev1.ContainerStatus) corev1.ResourceList { return c.Resources.Requests }
	if !reportsResources(pod) {
		return sumContainers(pod, rules, wanted)
	}
	var sum amounts
	infeasible := resizeInfeasible(pod)
	if !infeasible {
		sum = sumContainers(pod, rules, wanted)
	}
	fallback := func(c *corev1.Container) corev1.ResourceList {
		if infeasible {
			return nil
		}
		return c.Resources.Requests
	}
	given := func(c *corev1.Container, status *corev1.ContainerStatus) corev1.ResourceList {
		if status != nil && status.AllocatedResources != nil {
			return status.AllocatedResources
		}
		return fallback(c)
	}
	inUse := func(c *corev1.Container, status *corev1.ContainerStatus) corev1.ResourceList {
		if status != nil && status.Resources != nil && status.Resources.Requests != nil {
			return status.Resources.Requests
		}
		return given(c, status)
	}
	sum.raise(sumContainers(pod, rules, given))
	sum.raise(sumContainers(pod, rules, inUse))
	return sum
}

type requestsOf func(*corev1.Container, *corev1.ContainerStatus) corev1.ResourceList

func sumContainers(pod *corev1.Pod, rules requestRules, of requestsOf) amounts {
	one := func(c *corev1.Container) amounts {
		var a amounts
		a.addList(of(c, containerStatus(pod, c.Name)))
		a.fill(rules)
		return a
	}
	var sum, sidecars, steps amounts
	for i := range pod.Spec.Containers {
		sum.addAll(one(&pod.Spec.Containers[i]))
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		step := one(c)
		if isSidecar(c) {
			sum.addAll(step)
			sidecars.addAll(step)
			continue
		}
		step.addAll(sidecars)
		steps.raise(step)
	}
	sum.raise(steps)
	return sum
}

func isSidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

func containerStatus(pod *corev1.Pod, name string) *corev1.ContainerStatus {
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses} {
		for i := range statuses {
			if statuses[i].Name == name {
				return &statuses[i]
			}
		}
	}
	return nil
}

// reportsResources tells whether the pod's status says anything about amounts.
func reportsResources(pod *corev1.Pod) bool {
	says := func(s corev1.ContainerStatus) bool { return s.AllocatedResources != nil || s.Resources != nil }
	return slices.ContainsFunc(pod.Status.ContainerStatuses, says) ||
		slices.ContainsFunc(pod.Status.InitContainerStatuses, says)
}

func resizeInfeasible(pod *corev1.Pod) bool {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == corev1.PodResizePending {
			return pod.Status.Conditions[i].Reason == corev1.PodReasonInfeasible
		}
	}
	return false
}

// podLevelRequests are the amounts requested for the pod as a whole, nil if none of them counts.
func podLevelRequests(pod *corev1.Pod) corev1.ResourceList {
	if pod.Spec.Resources == nil {
		return nil
	}
	for name := range pod.Spec.Resources.Requests {
		if isPodLevel(name) {
			return pod.Spec.Resources.Requests
		}
	}
	return nil
}

func isPodLevel(name corev1.ResourceName) bool {
	return name == corev1.ResourceCPU || name == corev1.ResourceMemory ||
		strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}
