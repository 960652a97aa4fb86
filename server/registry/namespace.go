package registry

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"edgepod/server/registry/upstream"
)

// systemNamespaces exist in every cluster; those that are immortal can't be deleted.
var (
	immortalNamespaces = []string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic}
	systemNamespaces   = append(slices.Clone(immortalNamespaces), corev1.NamespaceNodeLease)
)

func namespaces() *Resource {
	kind := corev1.SchemeGroupVersion.WithKind("Namespace")
	return &Resource{
		Kind: kind, Name: "namespaces", Singular: "namespace", ShortNames: []string{"ns"},
		Verbs: []string{"create", "delete", "get", "list", "patch", "update", "watch"},
		Subresources: []Subresource{
			{Name: "finalize", Kind: kind, Verbs: []string{"update"}},
			{Name: "status", Kind: kind, Verbs: []string{"get", "patch", "update"}},
		},
		New:     func() runtime.Object { return &corev1.Namespace{} },
		NewList: func() runtime.Object { return &corev1.NamespaceList{} },
		rules: rules{
			create: onCreate(createNamespace),
			update: map[string]func(obj, old runtime.Object) verdict{
				"":         onUpdate(updateNamespace),
				"status":   onUpdate(updateNamespaceStatus),
				"finalize": onUpdate(finalizeNamespace),
			},
			field: onField(namespaceField),
			terminate: func(obj runtime.Object) {
				obj.(*corev1.Namespace).Status.Phase = corev1.NamespaceTerminating
			},
			held:     onObject(func(ns *corev1.Namespace) bool { return len(ns.Spec.Finalizers) > 0 }),
			immortal: immortalNamespaces,
		},
	}
}

func createNamespace(ns *corev1.Namespace) verdict {
	ns.Status = corev1.NamespaceStatus{Phase: corev1.NamespaceActive}
	if !slices.Contains(ns.Spec.Finalizers, corev1.FinalizerKubernetes) {
		ns.Spec.Finalizers = append(ns.Spec.Finalizers, corev1.FinalizerKubernetes)
	}
	labelNamespace(ns)
	return verdict{errs: upstream.NamespaceCreate(ns)}
}

// updateNamespace leaves the finalizers in spec to the subresource finalize.
func updateNamespace(ns, old *corev1.Namespace) verdict {
	ns.Spec.Finalizers = old.Spec.Finalizers
	ns.Status = old.Status
	labelNamespace(ns)
	return verdict{errs: upstream.NamespaceUpdate(ns, old)}
}

func updateNamespaceStatus(ns, old *corev1.Namespace) verdict {
	ns.Spec = old.Spec
	labelNamespace(ns)
	return verdict{errs: upstream.NamespaceStatus(ns, old)}
}

func finalizeNamespace(ns, old *corev1.Namespace) verdict {
	ns.Status = old.Status
	labelNamespace(ns)
	return verdict{errs: upstream.NamespaceFinalize(ns, old)}
}

// labelNamespace sets the label by which selectors find a namespace by name.
func labelNamespace(ns *corev1.Namespace) {
	if ns.Labels == nil {
		ns.Labels = map[string]string{}
	}
	ns.Labels[corev1.LabelMetadataName] = ns.Name
}

func namespaceField(ns *corev1.Namespace, name string) string {
	if name == "status.phase" {
		return string(ns.Status.Phase)
	}
	return ""
}
