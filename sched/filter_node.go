package sched

import (
	corev1 "k8s.io/api/core/v1"
)

// FilterNodeName keeps a pod that names its node to that node.
func FilterNodeName(c *Cycle) Prepared {
	name := c.Pod.Pod.Spec.NodeName
	if name == "" {
		return Prepared{}
	}
	reject := &Rejection{
		Filter:  "NodeName",
		Code:    UnschedulableAndUnresolvable,
		Reasons: []string{"node(s) didn't match the requested node name"},
	}
	return Prepared{
		Only: []string{name},
		Check: func(n *NodeInfo) *Rejection {
			if n.Name != name {
				return reject
			}
			return nil
		},
	}
}

// FilterNodeUnschedulable rejects cordoned nodes, unless the pod tolerates the taint that stands for that.
func FilterNodeUnschedulable(c *Cycle) Prepared {
	cordoned := corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}
	if tolerated(&cordoned, c.Pod.Pod.Spec.Tolerations) {
		return Prepared{}
	}
	reject := &Rejection{
		Filter:  "NodeUnschedulable",
		Code:    UnschedulableAndUnresolvable,
		Reasons: []string{"node(s) were unschedulable"},
	}
	return Prepared{Check: func(n *NodeInfo) *Rejection {
		if n.cordoned {
			return reject
		}
		return nil
	}}
}

// FilterNodePorts rejects nodes where one of the pod's host ports is taken.
func FilterNodePorts(c *Cycle) Prepared {
	wanted := c.Pod.Ports
	if len(wanted) == 0 {
		return Prepared{}
	}
	reject := &Rejection{
		Filter:  "NodePorts",
		Code:    Unschedulable,
		Reasons: []string{"node(s) didn't have free ports for the requested pod ports"},
	}
	return Prepared{Check: func(n *NodeInfo) *Rejection {
		for i := range wanted {
			for j := range n.Ports {
				if wanted[i].conflicts(n.Ports[j]) {
					return reject
				}
			}
		}
		return nil
	}}
}
