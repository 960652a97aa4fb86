package lifecycle

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// qosClass is Guaranteed where each container limits cpu and memory and requests as much, BestEffort where none says
// anything, Burstable else. The API server fills it in as a rule; this is for pods that come without.
func qosClass(pod *corev1.Pod) corev1.PodQOSClass {
	guaranteed, silent := true, true
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			limit, limited := c.Resources.Limits[name]
			request, requested := c.Resources.Requests[name]
			limited, requested = limited && !limit.IsZero(), requested && !request.IsZero()
			silent = silent && !limited && !requested
			guaranteed = guaranteed && limited && (!requested || request.Equal(limit))
		}
	}
	switch {
	case silent:
		return corev1.PodQOSBestEffort
	case guaranteed:
		return corev1.PodQOSGuaranteed
	}
	return corev1.PodQOSBurstable
}
