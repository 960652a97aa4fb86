package controller

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"edgepod/server/registry"
)

// Namespaces empties namespaces that are being deleted, and lets go of them when nothing is left.
type Namespaces struct {
	config Config
	log    *slog.Logger
}

// NewNamespaces returns the loop.
func NewNamespaces(config Config) *Namespaces {
	return &Namespaces{config: config, log: config.logger("namespaces")}
}

// Run implements Loop.
func (n *Namespaces) Run(ctx context.Context) error {
	q := newQueue(n.log, 4, n.reconcile)
	return q.run(ctx, func(ctx context.Context) {
		follow(ctx, n.config, n.log, "", "namespaces", func(events []registry.Event) {
			for _, event := range events {
				if event.Object.Meta().GetDeletionTimestamp() != nil {
					q.add("", event.Object.Meta().GetName())
				}
			}
		})
	})
}

// retryEmptying is how long to wait for pods to stop before looking again.
const retryEmptying = 500 * time.Millisecond

func (n *Namespaces) reconcile(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
	resource := n.config.Verbs.Resource("", "namespaces")
	object, err := n.config.Verbs.Get(ctx, resource, "", key.Name)
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	namespace := object.Runtime().(*corev1.Namespace)
	if namespace.DeletionTimestamp == nil || !slices.Contains(namespace.Spec.Finalizers, corev1.FinalizerKubernetes) {
		return 0, nil
	}
	left, err := n.empty(ctx, key.Name)
	if err != nil {
		return 0, fmt.Errorf("empty namespace %s: %w", key.Name, err)
	}
	if len(left) > 0 {
		return retryEmptying, n.report(ctx, key.Name, left)
	}
	return 0, n.finalize(ctx, key.Name)
}

// empty deletes everything in the namespace and returns what is still there, such as "pods: 2".
func (n *Namespaces) empty(ctx context.Context, namespace string) (left []string, err error) {
	for _, resource := range n.config.Verbs.Resources() {
		if !resource.Namespaced || !slices.Contains(resource.Verbs, "deletecollection") {
			continue
		}
		list := registry.ListRequest{Namespace: namespace}
		request := registry.DeleteRequest{Namespace: namespace, Options: &metav1.DeleteOptions{}}
		if _, err := n.config.Verbs.DeleteCollection(ctx, resource, list, request); err != nil {
			return nil, fmt.Errorf("%s: %w", resource.Name, err)
		}
		rest, err := n.config.Verbs.List(ctx, resource, list)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", resource.Name, err)
		}
		if len(rest.Items) > 0 {
			left = append(left, fmt.Sprintf("%s: %d", resource.GroupResource(), len(rest.Items)))
		}
	}
	return left, nil
}

// report says in the namespace's conditions what its deletion waits for.
func (n *Namespaces) report(ctx context.Context, name string, left []string) error {
	condition := corev1.NamespaceCondition{
		Type: corev1.NamespaceContentRemaining, Status: corev1.ConditionTrue, Reason: "SomeResourcesRemain",
		Message: "Some resources are remaining: " + strings.Join(left, ", "),
	}
	_, err := n.config.Verbs.Update(ctx, n.config.Verbs.Resource("", "namespaces"), registry.UpdateRequest{
		Name: name, Subresource: "status",
		Modify: func(live runtime.Object) (runtime.Object, error) {
			namespace := live.(*corev1.Namespace)
			for i, old := range namespace.Status.Conditions {
				if old.Type != condition.Type {
					continue
				}
				condition.LastTransitionTime = old.LastTransitionTime
				namespace.Status.Conditions[i] = condition
				return namespace, nil
			}
			condition.LastTransitionTime = metav1.Now()
			namespace.Status.Conditions = append(namespace.Status.Conditions, condition)
			return namespace, nil
		},
	})
	return ignoreNotFound(err)
}

func (n *Namespaces) finalize(ctx context.Context, name string) error {
	_, err := n.config.Verbs.Update(ctx, n.config.Verbs.Resource("", "namespaces"), registry.UpdateRequest{
		Name: name, Subresource: "finalize",
		Modify: func(live runtime.Object) (runtime.Object, error) {
			namespace := live.(*corev1.Namespace)
			namespace.Spec.Finalizers = slices.DeleteFunc(namespace.Spec.Finalizers, func(f corev1.FinalizerName) bool {
				return f == corev1.FinalizerKubernetes
			})
			return namespace, nil
		},
	})
	return ignoreNotFound(err)
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
