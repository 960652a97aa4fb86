package oci

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"

	"edgepod/server/oci/depot"
	"edgepod/server/registry"
)

// QuotaAnnotation of a namespace says what its images may take together, as a quantity such as 500Mi.
const QuotaAnnotation = "edgepod.dev/registry-quota"

// limits returns what may be pushed to a repository, whose namespace must exist and stay.
func (g *Registry) limits(ctx context.Context, repository string) (depot.Limits, error) {
	name := depot.NamespaceOf(repository)
	object, err := g.config.Objects.Get(ctx, g.config.Objects.Resource("", "namespaces"), "", name)
	if apierrors.IsNotFound(err) {
		return depot.Limits{}, refuse(http.StatusNotFound, nameUnknown, "namespace %s does not exist: make it, or push to another", name)
	}
	if err != nil {
		return depot.Limits{}, err
	}
	namespace := object.Runtime().(*corev1.Namespace)
	if namespace.DeletionTimestamp != nil {
		return depot.Limits{}, refuse(http.StatusForbidden, denied, "namespace %s is being deleted", name)
	}
	limits := depot.Limits{Quota: g.config.Quota, Blob: g.config.Blob}
	if text, ok := namespace.Annotations[QuotaAnnotation]; ok {
		quantity, err := resource.ParseQuantity(text)
		if err != nil || quantity.Sign() < 0 {
			return limits, refuse(http.StatusForbidden, denied, "annotation %s of namespace %s is %q, which is no quantity such as 500Mi", QuotaAnnotation, name, text)
		}
		limits.Quota = quantity.Value()
	}
	return limits, nil
}

// imagesInUse returns whether pods name a manifest by its digest.
func (g *Registry) imagesInUse(ctx context.Context) (func(depot.Digest) bool, error) {
	pods, err := g.config.Objects.List(ctx, g.config.Objects.Resource("", "pods"), registry.ListRequest{})
	if err != nil {
		return nil, fmt.Errorf("images in use: %w", err)
	}
	used := map[depot.Digest]bool{}
	for _, object := range pods.Items {
		pod := object.Runtime().(*corev1.Pod)
		for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
			for _, container := range containers {
				if _, digest, ok := strings.Cut(container.Image, "@"); ok {
					used[depot.Digest(digest)] = true
				}
			}
		}
	}
	return func(digest depot.Digest) bool { return used[digest] }, nil
}
