package sched

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// NodeInfo is a node with the pods on it and their sums. Those in a Snapshot never change.
type NodeInfo struct {
	Node *corev1.Node
	Name string

	Allocatable Resources
	MaxPods     int64
	Requested   Resources
	// NonZero is Requested where containers that name no cpu or memory count as asking for a little.
	NonZero NonZeroRequests

	Pods []*PodInfo
	// Nominated are pods that are to get room here by preemption, and have not arrived.
	Nominated []*PodInfo
	// Ports are the ports taken by Pods, one entry for each taker.
	Ports []HostPort

	cordoned bool
	taints   taints
	images   map[string]struct{}
	balance  int64  // how even cpu and memory are in use now, see score_balance.go
	tie      uint64 // decides among equal nodes, see choose
	lowest   int32  // lowest priority of Pods, if any
}

// taints of one node by what they do.
type taints struct {
	keepOut []corev1.Taint // NoSchedule and NoExecute
	avoid   []corev1.Taint // PreferNoSchedule
}

func newNodeInfo(node *corev1.Node) *NodeInfo {
	n := &NodeInfo{}
	n.setNode(node)
	return n
}

// setNode takes the node's own figures over and leaves those of its pods.
func (n *NodeInfo) setNode(node *corev1.Node) {
	if n.Node == nil || !sameImages(n.Node, node) {
		n.images = imageNames(node)
	}
	n.Node = node
	n.Name = node.Name
	n.Allocatable = newResources(node.Status.Allocatable)
	n.MaxPods = node.Status.Allocatable.Pods().Value()
	n.tie = hash(node.Name)
	n.cordoned = node.Spec.Unschedulable
	n.taints = taints{}
	for _, taint := range node.Spec.Taints {
		switch taint.Effect {
		case corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute:
			n.taints.keepOut = append(n.taints.keepOut, taint)
		case corev1.TaintEffectPreferNoSchedule:
			n.taints.avoid = append(n.taints.avoid, taint)
		}
	}
	n.balance = balance(n.Requested.MilliCPU, n.Requested.Memory, &n.Allocatable)
}

// clone is a copy that may be changed: what the two share is replaced, or appended beyond the original's length, and
// never changed in place.
func (n *NodeInfo) clone() *NodeInfo {
	c := *n
	return &c
}

// detach makes appending to the copy safe when the original goes on growing too.
func (n *NodeInfo) detach() *NodeInfo {
	n.Pods, n.Nominated, n.Ports = slices.Clip(n.Pods), slices.Clip(n.Nominated), slices.Clip(n.Ports)
	return n
}

func (n *NodeInfo) add(p *PodInfo) {
	if len(n.Pods) == 0 || p.Priority < n.lowest {
		n.lowest = p.Priority
	}
	n.Pods = append(n.Pods, p)
	n.Ports = append(n.Ports, p.Ports...)
	n.sum(p, 1)
}

// remove takes the pod away again; it must be the pointer that was added.
func (n *NodeInfo) remove(p *PodInfo) {
	i := slices.Index(n.Pods, p)
	if i < 0 {
		return
	}
	n.Pods = without(n.Pods, i)
	for _, port := range p.Ports {
		n.Ports = without(n.Ports, slices.Index(n.Ports, port))
	}
	n.lowest = 0
	for i, other := range n.Pods {
		if i == 0 || other.Priority < n.lowest {
			n.lowest = other.Priority
		}
	}
	n.sum(p, -1)
}

func (n *NodeInfo) sum(p *PodInfo, sign int64) {
	n.Requested.add(&p.Requests, sign)
	n.NonZero.MilliCPU += sign * p.NonZero.MilliCPU
	n.NonZero.Memory += sign * p.NonZero.Memory
	n.balance = balance(n.Requested.MilliCPU, n.Requested.Memory, &n.Allocatable)
}

// without is a new slice that lacks element i.
func without[T any](s []T, i int) []T {
	if len(s) == 1 {
		return nil
	}
	out := make([]T, 0, len(s))
	return append(append(out, s[:i]...), s[i+1:]...)
}

// hash is FNV-1a of the string, mixed so that similar names are far apart.
func hash(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return mix(h)
}

// mix is a bijection in which every bit of the input changes about half of the output's.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
