package registry

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"edgepod/server/registry/upstream"
	"edgepod/server/store"
)

// Bind sets the node of a pod that has none.
func (r *Registry) Bind(ctx context.Context, namespace, pod string, uid types.UID, node string) error {
	binding := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: pod},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node},
	}
	if errs := upstream.Binding(binding); len(errs) > 0 {
		return apierrors.NewInvalid(schema.GroupKind{Kind: "Binding"}, pod, errs)
	}
	var want *metav1.Preconditions
	if uid != "" {
		want = &metav1.Preconditions{UID: &uid}
	}
	for {
		err := r.bind(ctx, namespace, pod, node, want)
		if errors.Is(err, store.ErrConflict) && ctx.Err() == nil {
			continue
		}
		return statusOf(err, r.pods, pod)
	}
}

func (r *Registry) bind(ctx context.Context, namespace, name, node string, want *metav1.Preconditions) error {
	live, err := r.Get(ctx, r.pods, namespace, name)
	if err != nil {
		return err
	}
	if err := checkPreconditions(r.pods, want, live); err != nil {
		return err
	}
	pod := live.decoded.DeepCopyObject().(*corev1.Pod)
	if err := bindable(pod); err != nil {
		return apierrors.NewConflict(schema.GroupResource{Resource: "pods/binding"}, name, err)
	}
	pod.Spec.NodeName = node
	pod.Status.NominatedNodeName = ""
	setPodCondition(&pod.Status, corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: r.now(),
	})
	_, err = r.replace(ctx, live, pod, false)
	return err
}

func bindable(pod *corev1.Pod) error {
	switch {
	case pod.DeletionTimestamp != nil:
		return fmt.Errorf("pod %s is being deleted, cannot be assigned to a host", pod.Name)
	case pod.Spec.NodeName != "":
		return fmt.Errorf("pod %v is already assigned to node %q", pod.Name, pod.Spec.NodeName)
	case len(pod.Spec.SchedulingGates) > 0:
		return fmt.Errorf("pod %v has non-empty .spec.schedulingGates", pod.Name)
	}
	return nil
}

// setPodCondition replaces the condition of the same type, which keeps its time as long as its status does.
func setPodCondition(status *corev1.PodStatus, c corev1.PodCondition) {
	for i, old := range status.Conditions {
		if old.Type != c.Type {
			continue
		}
		if old.Status == c.Status {
			c.LastTransitionTime = old.LastTransitionTime
		}
		status.Conditions[i] = c
		return
	}
	status.Conditions = append(status.Conditions, c)
}
