package registry

import (
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"

	"edgepod/server/registry/upstream"
)

func pods() *Resource {
	kind := corev1.SchemeGroupVersion.WithKind("Pod")
	return &Resource{
		Kind: kind, Name: "pods", Singular: "pod", ShortNames: []string{"po"}, Categories: []string{"all"},
		Namespaced: true, Verbs: verbsAll,
		Subresources: []Subresource{
			{Name: "binding", Kind: corev1.SchemeGroupVersion.WithKind("Binding"), Verbs: []string{"create"}},
			{Name: "log", Kind: kind, Verbs: []string{"get"}},
			{Name: "status", Kind: kind, Verbs: []string{"get", "patch", "update"}},
		},
		New:     func() runtime.Object { return &corev1.Pod{} },
		NewList: func() runtime.Object { return &corev1.PodList{} },
		rules: rules{
			support: onCreate(podSupport(unsupported)),
			admit:   onAdmit(admitPod),
			create:  onCreate(createPod),
			update: map[string]func(obj, old runtime.Object) verdict{
				"":       onUpdate(updatePod),
				"status": onUpdate(updatePodStatus),
			},
			field: onField(podField),
			grace: func(obj runtime.Object, asked *int64) int64 { return podGrace(obj.(*corev1.Pod), asked) },
		},
	}
}

func createPod(pod *corev1.Pod) verdict {
	pod.Generation = 1
	pod.Status = corev1.PodStatus{Phase: corev1.PodPending}
	if len(pod.Spec.SchedulingGates) > 0 {
		setPodCondition(&pod.Status, corev1.PodCondition{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, LastTransitionTime: pod.CreationTimestamp,
			Reason: corev1.PodReasonSchedulingGated, Message: "Scheduling is blocked due to non-empty scheduling gates",
		})
	}
	errs, warnings := upstream.PodCreate(pod)
	return verdict{errs: errs, warnings: warnings}
}

// updatePod leaves the status to its subresource.
func updatePod(pod, old *corev1.Pod) verdict {
	if pod.Spec.Priority == nil {
		pod.Spec.Priority = old.Spec.Priority
	}
	if pod.Spec.PreemptionPolicy == nil {
		pod.Spec.PreemptionPolicy = old.Spec.PreemptionPolicy
	}
	tolerateLostNode(pod)
	if apiequality.Semantic.DeepEqual(pod.Spec, old.Spec) {
		pod.Spec, pod.Status = old.Spec, old.Status // all versions share one, as long as it is the same
		return verdict{errs: upstream.PodMetadata(pod, old)}
	}
	pod.Status = *old.Status.DeepCopy() // upstream's rules write to it, and old is frozen
	errs := upstream.PodUpdate(pod, old)
	if !apiequality.Semantic.DeepEqual(pod.Spec, old.Spec) {
		pod.Generation++
	}
	return verdict{errs: errs}
}

// updatePodStatus leaves the rest to the pod itself, but for labels, annotations and finalizers, as Kubernetes does.
func updatePodStatus(pod, old *corev1.Pod) verdict {
	pod.Spec = *old.Spec.DeepCopy() // upstream's rules write to it, and old is frozen
	pod.DeletionTimestamp = old.DeletionTimestamp
	pod.OwnerReferences = old.OwnerReferences
	if pod.Status.QOSClass == "" {
		pod.Status.QOSClass = old.Status.QOSClass
	}
	keepObservedGeneration(pod, old)
	errs := upstream.PodStatus(pod, old)
	pod.Spec = old.Spec
	return verdict{errs: errs}
}

// keepObservedGeneration restores what reporters who don't know of observedGeneration have dropped.
func keepObservedGeneration(pod, old *corev1.Pod) {
	if pod.Status.ObservedGeneration == 0 {
		pod.Status.ObservedGeneration = old.Status.ObservedGeneration
	}
	for i, c := range pod.Status.Conditions {
		if c.ObservedGeneration != 0 {
			continue
		}
		for _, before := range old.Status.Conditions {
			if before.Type == c.Type {
				pod.Status.Conditions[i].ObservedGeneration = before.ObservedGeneration
				break
			}
		}
	}
}

// podGrace is the time that a pod gets to end: none if it has not started or has ended already.
func podGrace(pod *corev1.Pod, asked *int64) int64 {
	var grace int64
	switch {
	case asked != nil:
		grace = *asked
	case pod.Spec.TerminationGracePeriodSeconds != nil:
		grace = *pod.Spec.TerminationGracePeriodSeconds
	}
	ended := pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
	switch {
	case pod.Spec.NodeName == "", ended:
		return 0
	case grace < 0:
		return 1
	}
	return grace
}

func seconds(n int64) time.Duration { return time.Duration(n) * time.Second }

func podField(pod *corev1.Pod, name string) string {
	switch name {
	case "spec.nodeName":
		return pod.Spec.NodeName
	case "spec.restartPolicy":
		return string(pod.Spec.RestartPolicy)
	case "spec.schedulerName":
		return pod.Spec.SchedulerName
	case "spec.serviceAccountName":
		return pod.Spec.ServiceAccountName
	case "spec.hostNetwork":
		return strconv.FormatBool(pod.Spec.HostNetwork)
	case "status.phase":
		return string(pod.Status.Phase)
	case "status.podIP":
		if len(pod.Status.PodIPs) > 0 {
			return pod.Status.PodIPs[0].IP
		}
	case "status.nominatedNodeName":
		return pod.Status.NominatedNodeName
	}
	return ""
}
