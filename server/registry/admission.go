package registry

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// lostNodeSeconds is how long a pod stays bound to a node that is not heard of.
const lostNodeSeconds = 300

// priorityClasses are those that exist without being created.
var priorityClasses = map[string]int32{
	"":                        0,
	"system-cluster-critical": 2000000000,
	"system-node-critical":    2000001000,
}

// admitPod completes a pod as the admission of Kubernetes does by default.
func admitPod(ctx context.Context, r *Registry, pod *corev1.Pod) error {
	pod.Spec.ServiceAccountName = cmp.Or(pod.Spec.ServiceAccountName, "default")
	pod.Spec.DeprecatedServiceAccount = pod.Spec.ServiceAccountName
	tolerateLostNode(pod)
	if err := setPriority(pod); err != nil {
		return err
	}
	return r.setPullSecrets(ctx, pod)
}

// setPullSecrets gives a pod that names no pull secrets those of its service account, if that is there.
func (r *Registry) setPullSecrets(ctx context.Context, pod *corev1.Pod) error {
	if len(pod.Spec.ImagePullSecrets) > 0 {
		return nil
	}
	account, err := r.Get(ctx, r.Resource("", "serviceaccounts"), pod.Namespace, pod.Spec.ServiceAccountName)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	pod.Spec.ImagePullSecrets = slices.Clone(account.decoded.(*corev1.ServiceAccount).ImagePullSecrets)
	return nil
}

// tolerateLostNode gives the pod the tolerations that keep it on a lost node for a while, unless it has its own.
func tolerateLostNode(pod *corev1.Pod) {
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		if toleratesNoExecute(pod.Spec.Tolerations, key) {
			continue
		}
		limit := int64(lostNodeSeconds)
		pod.Spec.Tolerations = append(pod.Spec.Tolerations[:len(pod.Spec.Tolerations):len(pod.Spec.Tolerations)], corev1.Toleration{
			Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &limit,
		})
	}
}

func toleratesNoExecute(tolerations []corev1.Toleration, key string) bool {
	for _, t := range tolerations {
		if (t.Key == key || t.Key == "") && (t.Effect == corev1.TaintEffectNoExecute || t.Effect == "") {
			return true
		}
	}
	return false
}

// setPriority turns the class into a number.
func setPriority(pod *corev1.Pod) error {
	priority, known := priorityClasses[pod.Spec.PriorityClassName]
	refuse := func(format string, args ...any) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, pod.Name, fmt.Errorf(format, args...))
	}
	if !known {
		return refuse("no PriorityClass with name %v was found", pod.Spec.PriorityClassName)
	}
	if given := pod.Spec.Priority; given != nil && *given != priority {
		return refuse("the integer value of priority (%d) must not be provided in pod spec; priority admission controller computed %d from the given PriorityClass name", *given, priority)
	}
	policy := corev1.PreemptLowerPriority
	if given := pod.Spec.PreemptionPolicy; given != nil && *given != policy {
		return refuse("the string value of PreemptionPolicy (%s) must not be provided in pod spec; priority admission controller computed %s from the given PriorityClass name", *given, policy)
	}
	pod.Spec.Priority, pod.Spec.PreemptionPolicy = &priority, &policy
	return nil
}
