package sched

import (
	corev1 "k8s.io/api/core/v1"
)

// PodInfo is a pod with what filters and scores need of it, computed once. It is read-only and keeps the pod, which
// must not change either.
type PodInfo struct {
	Pod      *corev1.Pod
	Priority int32
	// Requests is what the pod takes from its node.
	Requests Resources
	// NonZero is the same where containers that name no cpu or memory count as asking for a little: what the pod adds
	// to the node's sums for NodeResourcesFit's points.
	NonZero NonZeroRequests
	// Rated is NonZero while the pod looks for a node. As in kube-scheduler it leaves out amounts that are requested
	// for the pod as a whole.
	Rated NonZeroRequests
	// Ports are the ports that the pod takes on its node.
	Ports []HostPort
}

// HostPort is a port of the node. IP and Protocol are never empty.
type HostPort struct {
	IP       string
	Protocol corev1.Protocol
	Port     int32
}

// anyIP stands for all addresses of the node.
const anyIP = "0.0.0.0"

// conflicts tells whether the two can't be taken at once.
func (p HostPort) conflicts(other HostPort) bool {
	return p.Port == other.Port && p.Protocol == other.Protocol &&
		(p.IP == other.IP || p.IP == anyIP || other.IP == anyIP)
}

// NewPodInfo computes what the scheduler needs of the pod.
func NewPodInfo(pod *corev1.Pod) *PodInfo {
	p := &PodInfo{Pod: pod, Ports: hostPorts(pod)}
	if pod.Spec.Priority != nil {
		p.Priority = *pod.Spec.Priority
	}
	exact := podRequests(pod, requestRules{})
	p.Requests = exact.resources()
	p.NonZero = NonZeroRequests{p.Requests.MilliCPU, p.Requests.Memory}
	p.Rated = p.NonZero
	if podLevelRequests(pod) != nil {
		fill := requestRules{fillCPU: exact.find(corev1.ResourceCPU) < 0, fillMemory: exact.find(corev1.ResourceMemory) < 0}
		p.NonZero = podRequests(pod, fill).nonZero()
		rated := requestRules{fillCPU: true, fillMemory: true, ignorePodLevel: true}
		p.Rated = podRequests(pod, rated).nonZero()
		return p
	}
	if !namesAll(pod) {
		p.NonZero = podRequests(pod, requestRules{fillCPU: true, fillMemory: true}).nonZero()
		p.Rated = p.NonZero
	}
	return p
}

// namesAll tells whether every container requests cpu and memory by name, so that nothing is to be filled in.
func namesAll(pod *corev1.Pod) bool {
	for _, containers := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range containers {
			requests := containers[i].Resources.Requests
			if _, ok := requests[corev1.ResourceCPU]; !ok {
				return false
			}
			if _, ok := requests[corev1.ResourceMemory]; !ok {
				return false
			}
		}
	}
	return true
}

// hostPorts are the ports that the pod's containers and sidecars take on the node.
func hostPorts(pod *corev1.Pod) []HostPort {
	var ports []HostPort
	collect := func(c *corev1.Container) {
		for _, p := range c.Ports {
			if p.HostPort <= 0 {
				continue
			}
			port := HostPort{IP: p.HostIP, Protocol: p.Protocol, Port: p.HostPort}
			if port.IP == "" {
				port.IP = anyIP
			}
			if port.Protocol == "" {
				port.Protocol = corev1.ProtocolTCP
			}
			ports = append(ports, port)
		}
	}
	for i := range pod.Spec.InitContainers {
		if isSidecar(&pod.Spec.InitContainers[i]) {
			collect(&pod.Spec.InitContainers[i])
		}
	}
	for i := range pod.Spec.Containers {
		collect(&pod.Spec.Containers[i])
	}
	return ports
}
