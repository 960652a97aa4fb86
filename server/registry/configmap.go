package registry

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"edgepod/server/registry/upstream"
)

func configMaps() *Resource {
	return &Resource{
		Kind: corev1.SchemeGroupVersion.WithKind("ConfigMap"),
		Name: "configmaps", Singular: "configmap", ShortNames: []string{"cm"}, Namespaced: true, Verbs: verbsAll,
		New:     func() runtime.Object { return &corev1.ConfigMap{} },
		NewList: func() runtime.Object { return &corev1.ConfigMapList{} },
		rules: rules{
			create: onCreate(func(obj *corev1.ConfigMap) verdict {
				fillNulls(obj.BinaryData)
				return verdict{errs: upstream.ConfigMapCreate(obj)}
			}),
			update: map[string]func(obj, old runtime.Object) verdict{
				"": onUpdate(func(obj, old *corev1.ConfigMap) verdict {
					fillNulls(obj.BinaryData)
					return verdict{errs: upstream.ConfigMapUpdate(obj, old)}
				}),
			},
		},
	}
}
