package upstream

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/apis/coordination"
	coordinationvalidation "k8s.io/kubernetes/pkg/apis/coordination/validation"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/core/validation"
)

// NamespaceCreate validates a new namespace.
func NamespaceCreate(obj *corev1.Namespace) field.ErrorList {
	return check(obj, nil, "", func(obj, _ *core.Namespace) field.ErrorList { return validation.ValidateNamespace(obj) })
}

// NamespaceUpdate validates a change of a namespace.
func NamespaceUpdate(obj, old *corev1.Namespace) field.ErrorList {
	return check(obj, old, "", func(obj, old *core.Namespace) field.ErrorList {
		return append(validation.ValidateNamespace(obj), validation.ValidateNamespaceUpdate(obj, old)...)
	})
}

// NamespaceStatus validates a change of a namespace's status.
func NamespaceStatus(obj, old *corev1.Namespace) field.ErrorList {
	return check(obj, old, "status", validation.ValidateNamespaceStatusUpdate)
}

// NamespaceFinalize validates a change of a namespace's spec.finalizers.
func NamespaceFinalize(obj, old *corev1.Namespace) field.ErrorList {
	return check(obj, old, "finalize", validation.ValidateNamespaceFinalizeUpdate)
}

// NodeCreate validates a new node.
func NodeCreate(obj *corev1.Node) field.ErrorList {
	return check(obj, nil, "", func(obj, _ *core.Node) field.ErrorList { return validation.ValidateNode(obj) })
}

// NodeUpdate validates a change of a node.
func NodeUpdate(obj, old *corev1.Node) field.ErrorList {
	return check(obj, old, "", func(obj, old *core.Node) field.ErrorList {
		return append(validation.ValidateNode(obj), validation.ValidateNodeUpdate(obj, old)...)
	})
}

// NodeStatus validates a change of a node's status.
func NodeStatus(obj, old *corev1.Node) field.ErrorList {
	return check(obj, old, "status", validation.ValidateNodeUpdate)
}

// EventCreate validates a new event.
func EventCreate(obj *corev1.Event) field.ErrorList {
	return check(obj, nil, "", func(obj, _ *core.Event) field.ErrorList {
		return validation.ValidateEventCreate(obj, corev1.SchemeGroupVersion)
	})
}

// EventUpdate validates a change of an event.
func EventUpdate(obj, old *corev1.Event) field.ErrorList {
	return check(obj, old, "", func(obj, old *core.Event) field.ErrorList {
		return validation.ValidateEventUpdate(obj, old, corev1.SchemeGroupVersion)
	})
}

// ConfigMapCreate validates a new config map.
func ConfigMapCreate(obj *corev1.ConfigMap) field.ErrorList {
	return check(obj, nil, "", func(obj, _ *core.ConfigMap) field.ErrorList { return validation.ValidateConfigMap(obj) })
}

// ConfigMapUpdate validates a change of a config map.
func ConfigMapUpdate(obj, old *corev1.ConfigMap) field.ErrorList {
	return check(obj, old, "", validation.ValidateConfigMapUpdate)
}

// SecretCreate validates a new secret and moves stringData into data.
func SecretCreate(obj *corev1.Secret) field.ErrorList {
	return check(obj, nil, "", func(obj, _ *core.Secret) field.ErrorList { return validation.ValidateSecret(obj) })
}

// SecretUpdate validates a change of a secret and moves stringData into data.
func SecretUpdate(obj, old *corev1.Secret) field.ErrorList {
	return check(obj, old, "", validation.ValidateSecretUpdate)
}

// ServiceAccountCreate validates a new service account.
func ServiceAccountCreate(obj *corev1.ServiceAccount) field.ErrorList {
	return check(obj, nil, "", func(obj, _ *core.ServiceAccount) field.ErrorList { return validation.ValidateServiceAccount(obj) })
}

// ServiceAccountUpdate validates a change of a service account.
func ServiceAccountUpdate(obj, old *corev1.ServiceAccount) field.ErrorList {
	return check(obj, old, "", validation.ValidateServiceAccountUpdate)
}

// LeaseCreate validates a new lease.
func LeaseCreate(obj *coordinationv1.Lease) field.ErrorList {
	return check(obj, nil, "", func(obj, _ *coordination.Lease) field.ErrorList { return coordinationvalidation.ValidateLease(obj) })
}

// LeaseUpdate validates a change of a lease.
func LeaseUpdate(obj, old *coordinationv1.Lease) field.ErrorList {
	return check(obj, old, "", coordinationvalidation.ValidateLeaseUpdate)
}
