package controller

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
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
		follow(ctx, n.config, n.log, "", "namespaces", func(changes []change) {
			for _, c := range changes {
				if c.object().Meta().GetDeletionTimestamp() != nil {
					q.add("", c.object().Meta().GetName())
				}
			}
		})
	})
}

// How long to wait for what is left to go before looking again: the longer it takes, the longer.
const (
	emptyingPauseLeast = 200 * time.Millisecond
	emptyingPauseMost  = 15 * time.Second
)

func emptyingPause(elapsed time.Duration) time.Duration {
	return min(max(elapsed/4, emptyingPauseLeast), emptyingPauseMost)
}

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
	if len(left.resources) > 0 {
		return emptyingPause(time.Since(namespace.DeletionTimestamp.Time)), n.report(ctx, key.Name, left)
	}
	if n.config.Release != nil {
		if err := n.config.Release(ctx, key.Name); err != nil {
			return 0, err
		}
	}
	return 0, n.finalize(ctx, key.Name)
}

// remains is what is left of a namespace's content: how many objects of each resource, and how many each finalizer holds.
type remains struct{ resources, finalizers map[string]int }

// empty deletes everything in the namespace and returns what is still there. Pods go first: what they use stays until they
// have ended.
func (n *Namespaces) empty(ctx context.Context, namespace string) (remains, error) {
	left := remains{resources: map[string]int{}, finalizers: map[string]int{}}
	pods := n.config.Verbs.Resource("", "pods")
	if err := n.emptyOf(ctx, pods, namespace, &left); err != nil || len(left.resources) > 0 {
		return left, err
	}
	for _, resource := range n.config.Verbs.Resources() {
		if !resource.Namespaced || !slices.Contains(resource.Verbs, "deletecollection") {
			continue
		}
		if err := n.emptyOf(ctx, resource, namespace, &left); err != nil {
			return left, err
		}
	}
	return left, nil
}

func (n *Namespaces) emptyOf(ctx context.Context, resource *registry.Resource, namespace string, left *remains) error {
	list := registry.ListRequest{Namespace: namespace}
	request := registry.DeleteRequest{Namespace: namespace, Options: &metav1.DeleteOptions{}}
	if _, err := n.config.Verbs.DeleteCollection(ctx, resource, list, request); err != nil {
		return fmt.Errorf("%s: %w", resource.Name, err)
	}
	rest, err := n.config.Verbs.List(ctx, resource, list)
	if err != nil {
		return fmt.Errorf("%s: %w", resource.Name, err)
	}
	for _, object := range rest.Items {
		left.resources[resource.Name+"."+resource.Kind.Group]++
		for _, finalizer := range object.Meta().GetFinalizers() {
			left.finalizers[finalizer]++
		}
	}
	return nil
}

// conditions say what the deletion of a namespace waits for, in the words of Kubernetes.
func (r remains) conditions() []corev1.NamespaceCondition {
	content := corev1.NamespaceCondition{
		Type: corev1.NamespaceContentRemaining, Status: corev1.ConditionFalse, Reason: "ContentRemoved",
		Message: "All content successfully removed",
	}
	if len(r.resources) > 0 {
		content.Status, content.Reason = corev1.ConditionTrue, "SomeResourcesRemain"
		content.Message = "Some resources are remaining: " + countsText(r.resources, "%s has %d resource instances")
	}
	finalizers := corev1.NamespaceCondition{
		Type: corev1.NamespaceFinalizersRemaining, Status: corev1.ConditionFalse, Reason: "ContentHasNoFinalizers",
		Message: "All content-preserving finalizers finished",
	}
	if len(r.finalizers) > 0 {
		finalizers.Status, finalizers.Reason = corev1.ConditionTrue, "SomeFinalizersRemain"
		finalizers.Message = "Some content in the namespace has finalizers remaining: " +
			countsText(r.finalizers, "%s in %d resource instances")
	}
	return []corev1.NamespaceCondition{content, finalizers}
}

func countsText(counts map[string]int, format string) string {
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		texts = append(texts, fmt.Sprintf(format, name, counts[name]))
	}
	return strings.Join(texts, ", ")
}

// report says in the namespace's conditions what its deletion waits for.
func (n *Namespaces) report(ctx context.Context, name string, left remains) error {
	_, err := n.config.Verbs.Update(ctx, n.config.Verbs.Resource("", "namespaces"), registry.UpdateRequest{
		Name: name, Subresource: "status",
		Modify: func(live runtime.Object) (runtime.Object, error) {
			for _, condition := range left.conditions() {
				setNamespaceCondition(live.(*corev1.Namespace), condition)
			}
			return live, nil
		},
	})
	return ignoreNotFound(err)
}

func setNamespaceCondition(namespace *corev1.Namespace, condition corev1.NamespaceCondition) {
	condition.LastTransitionTime = metav1.Now()
	for i, old := range namespace.Status.Conditions {
		if old.Type != condition.Type {
			continue
		}
		if old.Status == condition.Status {
			condition.LastTransitionTime = old.LastTransitionTime
		}
		namespace.Status.Conditions[i] = condition
		return
	}
	namespace.Status.Conditions = append(namespace.Status.Conditions, condition)
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
