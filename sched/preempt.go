package sched

import (
	corev1 "k8s.io/api/core/v1"
)

// preemption says why it would not help the pod, which fits nowhere, if pods of lower priority were removed; empty if
// it would. s.open holds the nodes where it is worth asking.
func (s *Scheduler) preemption(c *Cycle) string {
	const prefix = "preemption: "
	if policy := c.Pod.Pod.Spec.PreemptionPolicy; policy != nil && *policy == corev1.PreemptNever {
		return prefix + "not eligible due to preemptionPolicy=Never."
	}
	counts := map[string]int{}
	if hopeless := c.Snapshot.Len() - len(s.open); hopeless > 0 {
		counts["Preemption is not helpful for scheduling"] = hopeless
	}
	for _, node := range s.open {
		if len(node.Pods) == 0 || node.lowest >= c.Pod.Priority {
			counts["No preemption victims found for incoming pod"]++
			continue
		}
		r := s.verdict(c, withoutLower(node, c.Pod.Priority))
		if r == nil {
			return ""
		}
		for _, reason := range r.Reasons {
			counts[reason]++
		}
	}
	e := FitError{Nodes: c.Snapshot.Len(), Reason: histogram(counts)}
	return prefix + e.Error()
}

// withoutLower is the node as it would be without the pods of lower priority.
func withoutLower(node *NodeInfo, priority int32) *NodeInfo {
	left := *node
	left.Pods, left.Ports, left.Requested, left.NonZero = nil, nil, Resources{}, NonZeroRequests{}
	for _, p := range node.Pods {
		if p.Priority >= priority {
			left.add(p)
		}
	}
	return &left
}
