package registry

import (
	"crypto/tls"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"edgepod/server/registry/upstream"
)

func secrets() *Resource {
	return &Resource{
		Kind: corev1.SchemeGroupVersion.WithKind("Secret"),
		Name: "secrets", Singular: "secret", Namespaced: true, Verbs: verbsAll,
		New:     func() runtime.Object { return &corev1.Secret{} },
		NewList: func() runtime.Object { return &corev1.SecretList{} },
		rules: rules{
			create: onCreate(func(obj *corev1.Secret) verdict {
				fillNulls(obj.Data)
				return verdict{errs: upstream.SecretCreate(obj), warnings: secretWarnings(obj)}
			}),
			update: map[string]func(obj, old runtime.Object) verdict{
				"": onUpdate(func(obj, old *corev1.Secret) verdict {
					fillNulls(obj.Data)
					return verdict{errs: upstream.SecretUpdate(obj, old), warnings: secretWarnings(obj)}
				}),
			},
			field: onField(func(obj *corev1.Secret, name string) string {
				if name == "type" {
					return string(obj.Type)
				}
				return ""
			}),
		},
	}
}

// fillNulls makes of values that are null empty ones, which is what they are to all who read them.
func fillNulls(data map[string][]byte) {
	for key, value := range data {
		if value == nil {
			data[key] = []byte{}
		}
	}
}

// secretWarnings tells of a key that does not belong to its certificate.
func secretWarnings(obj *corev1.Secret) []string {
	if obj.Type != corev1.SecretTypeTLS {
		return nil
	}
	if _, err := tls.X509KeyPair(obj.Data[corev1.TLSCertKey], obj.Data[corev1.TLSPrivateKeyKey]); err != nil {
		return []string{err.Error()}
	}
	return nil
}
