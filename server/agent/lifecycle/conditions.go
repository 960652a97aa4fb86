package lifecycle

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// The reasons of conditions, as Kubernetes spells them.
const (
	reasonContainersNotReady       = "ContainersNotReady"
	reasonContainersNotInitialized = "ContainersNotInitialized"
	reasonReadinessGatesNotReady   = "ReadinessGatesNotReady"
	reasonPodCompleted             = "PodCompleted"
	reasonPodFailed                = "PodFailed"
)

// conditions are ours, with the times kept of those that did not change, and then those of others.
func (p *planner) conditions(st corev1.PodStatus) []corev1.PodCondition {
	ready := p.containersReady(st)
	own := []corev1.PodCondition{
		condition(corev1.PodReadyToStartContainers, p.seen.Sandbox.Done),
		p.initialized(st),
		p.ready(ready),
		ready,
		condition(corev1.PodScheduled, true),
	}
	if p.evicted() {
		c := condition(corev1.DisruptionTarget, true)
		c.Reason, c.Message = corev1.PodReasonTerminationByKubelet, st.Message
		own = append(own, c)
	}
	for i := range own {
		own[i].ObservedGeneration = p.pod.Generation
		own[i].LastTransitionTime = *seconds(p.now)
		p.keepTime(&own[i])
	}
	for _, c := range p.pod.Status.Conditions {
		if find(own, c.Type) == nil {
			own = append(own, c)
		}
	}
	return own
}

// keepTime takes over the time of the last transition where the condition is as it was.
func (p *planner) keepTime(c *corev1.PodCondition) {
	for _, known := range [][]corev1.PodCondition{p.seen.Status.Conditions, p.pod.Status.Conditions} {
		if old := find(known, c.Type); old != nil && old.Status == c.Status && !old.LastTransitionTime.IsZero() {
			c.LastTransitionTime = old.LastTransitionTime
			return
		}
	}
}

func (p *planner) initialized(st corev1.PodStatus) corev1.PodCondition {
	c := condition(corev1.PodInitialized, true)
	if st.Phase == corev1.PodSucceeded {
		c.Reason = reasonPodCompleted
		return c
	}
	if p.begun() {
		return c
	}
	var incomplete []string
	for i, cs := range st.InitContainerStatuses {
		if done := cs.Ready || isSidecar(&p.pod.Spec.InitContainers[i]) && *cs.Started; !done {
			incomplete = append(incomplete, cs.Name)
		}
	}
	if len(incomplete) > 0 {
		c.Status, c.Reason = corev1.ConditionFalse, reasonContainersNotInitialized
		c.Message = fmt.Sprintf("containers with incomplete status: %s", incomplete)
	}
	return c
}

func (p *planner) containersReady(st corev1.PodStatus) corev1.PodCondition {
	c := condition(corev1.ContainersReady, false)
	switch st.Phase {
	case corev1.PodSucceeded:
		c.Reason = reasonPodCompleted
		return c
	case corev1.PodFailed:
		c.Reason = reasonPodFailed
		return c
	}
	var unready []string
	for i, cs := range st.InitContainerStatuses {
		if isSidecar(&p.pod.Spec.InitContainers[i]) && !cs.Ready {
			unready = append(unready, cs.Name)
		}
	}
	for _, cs := range st.ContainerStatuses {
		if !cs.Ready {
			unready = append(unready, cs.Name)
		}
	}
	if len(unready) == 0 {
		c.Status = corev1.ConditionTrue
		return c
	}
	c.Reason, c.Message = reasonContainersNotReady, fmt.Sprintf("containers with unready status: %s", unready)
	return c
}

// ready is the containers' readiness and that of the pod's readiness gates.
func (p *planner) ready(containers corev1.PodCondition) corev1.PodCondition {
	c := containers
	c.Type = corev1.PodReady
	if c.Status != corev1.ConditionTrue {
		return c
	}
	var missing []string
	for _, gate := range p.pod.Spec.ReadinessGates {
		switch g := find(p.pod.Status.Conditions, gate.ConditionType); {
		case g == nil:
			missing = append(missing, fmt.Sprintf("corresponding condition of pod readiness gate %q does not exist.", gate.ConditionType))
		case g.Status != corev1.ConditionTrue:
			missing = append(missing, fmt.Sprintf("the status of pod readiness gate %q is not \"True\", but %v", gate.ConditionType, g.Status))
		}
	}
	if len(missing) > 0 {
		c.Status, c.Reason, c.Message = corev1.ConditionFalse, reasonReadinessGatesNotReady, strings.Join(missing, ", ")
	}
	return c
}

func condition(t corev1.PodConditionType, holds bool) corev1.PodCondition {
	if holds {
		return corev1.PodCondition{Type: t, Status: corev1.ConditionTrue}
	}
	return corev1.PodCondition{Type: t, Status: corev1.ConditionFalse}
}

func find(all []corev1.PodCondition, t corev1.PodConditionType) *corev1.PodCondition {
	i := slices.IndexFunc(all, func(c corev1.PodCondition) bool { return c.Type == t })
	if i < 0 {
		return nil
	}
	return &all[i]
}
