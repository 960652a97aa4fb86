package registry

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"edgepod/server/registry/upstream"
)

func serviceAccounts() *Resource {
	return &Resource{
		Kind: corev1.SchemeGroupVersion.WithKind("ServiceAccount"),
		Name: "serviceaccounts", Singular: "serviceaccount", ShortNames: []string{"sa"}, Namespaced: true, Verbs: verbsAll,
		New:     func() runtime.Object { return &corev1.ServiceAccount{} },
		NewList: func() runtime.Object { return &corev1.ServiceAccountList{} },
		rules: rules{
			create: onCreate(func(obj *corev1.ServiceAccount) verdict {
				nameSecretsOnly(obj)
				return verdict{errs: upstream.ServiceAccountCreate(obj), warnings: serviceAccountWarnings(obj, &corev1.ServiceAccount{})}
			}),
			update: map[string]func(obj, old runtime.Object) verdict{
				"": onUpdate(func(obj, old *corev1.ServiceAccount) verdict {
					nameSecretsOnly(obj)
					return verdict{errs: upstream.ServiceAccountUpdate(obj, old), warnings: serviceAccountWarnings(obj, old)}
				}),
			},
		},
	}
}

// nameSecretsOnly leaves of references to secrets the names: they are always in the account's namespace.
func nameSecretsOnly(obj *corev1.ServiceAccount) {
	for i, secret := range obj.Secrets {
		obj.Secrets[i] = corev1.ObjectReference{Name: secret.Name}
	}
}

const enforceMountableSecrets = "kubernetes.io/enforce-mountable-secrets"

func serviceAccountWarnings(obj, old *corev1.ServiceAccount) []string {
	_, had := old.Annotations[enforceMountableSecrets]
	if _, has := obj.Annotations[enforceMountableSecrets]; !has || had {
		return nil
	}
	return []string{"metadata.annotations[" + enforceMountableSecrets + "]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"}
}
