package sched

import (
	corev1 "k8s.io/api/core/v1"
)

// FilterTaintToleration rejects nodes with a NoSchedule or NoExecute taint that the pod does not tolerate.
func FilterTaintToleration(c *Cycle) Prepared {
	tolerations := c.Pod.Pod.Spec.Tolerations
	reject := &Rejection{
		Filter:  "TaintToleration",
		Code:    UnschedulableAndUnresolvable,
		Reasons: []string{"node(s) had untolerated taint(s)"},
	}
	return Prepared{Check: func(n *NodeInfo) *Rejection {
		for i := range n.taints.keepOut {
			if !tolerated(&n.taints.keepOut[i], tolerations) {
				return reject
			}
		}
		return nil
	}}
}

// ScoreTaintToleration prefers nodes with fewer PreferNoSchedule taints that the pod does not tolerate.
func ScoreTaintToleration(c *Cycle, _ []*NodeInfo) Rating {
	var tolerations []corev1.Toleration
	for _, t := range c.Pod.Pod.Spec.Tolerations {
		if t.Effect == "" || t.Effect == corev1.TaintEffectPreferNoSchedule {
			tolerations = append(tolerations, t)
		}
	}
	return Rating{
		Rate: func(n *NodeInfo) int64 {
			var count int64
			for i := range n.taints.avoid {
				if !tolerated(&n.taints.avoid[i], tolerations) {
					count++
				}
			}
			return count
		},
		Normalize: func(values []int64) { scale(values, true) },
	}
}

func tolerated(taint *corev1.Taint, tolerations []corev1.Toleration) bool {
	for i := range tolerations {
		if tolerates(&tolerations[i], taint) {
			return true
		}
	}
	return false
}

// tolerates tells whether the toleration covers the taint: an empty effect or key covers all of them.
func tolerates(t *corev1.Toleration, taint *corev1.Taint) bool {
	if t.Effect != "" && t.Effect != taint.Effect || t.Key != "" && t.Key != taint.Key {
		return false
	}
	switch t.Operator {
	case "", corev1.TolerationOpEqual:
		return t.Value == taint.Value
	case corev1.TolerationOpExists:
		return true
	}
	return false
}
