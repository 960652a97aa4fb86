package registry

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"edgepod/server/registry/upstream"
)

func nodes() *Resource {
	kind := corev1.SchemeGroupVersion.WithKind("Node")
	return &Resource{
		Kind: kind, Name: "nodes", Singular: "node", ShortNames: []string{"no"}, Verbs: verbsAll,
		Subresources: []Subresource{{Name: "status", Kind: kind, Verbs: []string{"get", "patch", "update"}}},
		New:          func() runtime.Object { return &corev1.Node{} },
		NewList:      func() runtime.Object { return &corev1.NodeList{} },
		rules: rules{
			create: onCreate(createNode),
			update: map[string]func(obj, old runtime.Object) verdict{
				"":       onUpdate(updateNode),
				"status": onUpdate(updateNodeStatus),
			},
			field: onField(func(node *corev1.Node, name string) string {
				if name == "spec.unschedulable" {
					return strconv.FormatBool(node.Spec.Unschedulable)
				}
				return ""
			}),
			volatile: onChange(isHeartbeat),
		},
	}
}

// createNode takes the status too: a node reports itself.
func createNode(node *corev1.Node) verdict {
	node.Spec.ConfigSource, node.Status.Config = nil, nil
	return verdict{errs: upstream.NodeCreate(node), warnings: nodeWarnings(node)}
}

func updateNode(node, old *corev1.Node) verdict {
	node.Status = old.Status
	node.Spec.ConfigSource = old.Spec.ConfigSource
	return verdict{errs: upstream.NodeUpdate(node, old), warnings: nodeWarnings(node)}
}

func updateNodeStatus(node, old *corev1.Node) verdict {
	node.Spec = old.Spec
	node.Status.Config = old.Status.Config
	return verdict{errs: upstream.NodeStatus(node, old)}
}

func nodeWarnings(node *corev1.Node) []string {
	if node.Spec.DoNotUseExternalID != "" {
		return []string{"spec.externalID: this field is deprecated, and is unused by Kubernetes"}
	}
	return nil
}

// isHeartbeat tells that a node says nothing but that its conditions still hold.
func isHeartbeat(node, old *corev1.Node) bool {
	if len(node.Status.Conditions) != len(old.Status.Conditions) || len(old.Status.Conditions) == 0 {
		return false
	}
	same := *node
	same.ResourceVersion = old.ResourceVersion
	same.Status.Conditions = make([]corev1.NodeCondition, len(node.Status.Conditions))
	was := *old
	was.Status.Conditions = make([]corev1.NodeCondition, len(old.Status.Conditions))
	for i := range node.Status.Conditions {
		same.Status.Conditions[i], was.Status.Conditions[i] = node.Status.Conditions[i], old.Status.Conditions[i]
		same.Status.Conditions[i].LastHeartbeatTime, was.Status.Conditions[i].LastHeartbeatTime = metav1.Time{}, metav1.Time{}
	}
	return apiequality.Semantic.DeepEqual(&same, &was)
}
