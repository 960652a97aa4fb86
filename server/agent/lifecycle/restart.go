package lifecycle

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// isSidecar tells whether an init container is one that runs beside the others.
func isSidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// restarts tells whether the container is to run again after it ended with code. Its own rules come first, then its own
// policy, then the pod's, by which an init container never runs again once it has succeeded.
func restarts(pod *corev1.Pod, c *corev1.Container, code int32) bool {
	for _, rule := range c.RestartPolicyRules {
		if rule.Action == corev1.ContainerRestartRuleActionRestart && matches(rule.ExitCodes, code) {
			return true
		}
	}
	policy := string(pod.Spec.RestartPolicy)
	if c.RestartPolicy != nil {
		policy = string(*c.RestartPolicy)
	} else if isInit(pod, c.Name) && policy == string(corev1.RestartPolicyAlways) {
		policy = string(corev1.RestartPolicyOnFailure)
	}
	switch policy {
	case string(corev1.RestartPolicyNever):
		return false
	case string(corev1.RestartPolicyOnFailure):
		return code != 0
	}
	return true
}

func matches(codes *corev1.ContainerRestartRuleOnExitCodes, code int32) bool {
	if codes == nil {
		return false
	}
	in := slices.Contains(codes.Values, code)
	switch codes.Operator {
	case corev1.ContainerRestartRuleOnExitCodesOpIn:
		return in
	case corev1.ContainerRestartRuleOnExitCodesOpNotIn:
		return !in
	}
	return false
}

func isInit(pod *corev1.Pod, name string) bool {
	return slices.ContainsFunc(pod.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == name })
}

func ended(phase corev1.PodPhase) bool {
	return phase == corev1.PodSucceeded || phase == corev1.PodFailed
}

func sortedNames(m map[string]*Container) []string { return slices.Sorted(maps.Keys(m)) }
