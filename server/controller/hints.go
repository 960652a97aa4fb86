package controller

import (
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
)

// hint says what kind of change may let a pod fit that did not.
type hint uint8

const (
	nodeAdded hint = 1 << iota
	nodeTainted
	nodeLabelled
	nodeGrown
	podGone

	anyHint = ^hint(0)
)

// hintsFor names the changes that can help a pod which the filter rejected somewhere, as the plugins of kube-scheduler
// register them. A filter that is not here may be helped by any.
var hintsFor = map[string]hint{
	"NodeName":          nodeAdded,
	"NodeUnschedulable": nodeAdded | nodeTainted,
	"TaintToleration":   nodeAdded | nodeTainted,
	"NodeAffinity":      nodeAdded | nodeLabelled,
	"NodePorts":         nodeAdded | podGone,
	"NodeResourcesFit":  nodeAdded | nodeGrown | podGone,
}

// helpers are the changes worth waiting for after a rejection by these filters.
func helpers(filters []string) hint {
	var helps hint
	for _, filter := range filters {
		one, known := hintsFor[filter]
		if !known {
			return anyHint
		}
		helps |= one
	}
	if helps == 0 {
		return anyHint
	}
	return helps
}

// nodeHints are what a node's change may help; before is nil for a new node.
func nodeHints(before, after *corev1.Node) (helps hint) {
	if before == nil {
		return nodeAdded
	}
	if before.Spec.Unschedulable && !after.Spec.Unschedulable ||
		!apiequality.Semantic.DeepEqual(before.Spec.Taints, after.Spec.Taints) {
		helps |= nodeTainted
	}
	if !apiequality.Semantic.DeepEqual(before.Labels, after.Labels) {
		helps |= nodeLabelled
	}
	for name, quantity := range after.Status.Allocatable {
		if old := before.Status.Allocatable[name]; quantity.Cmp(old) > 0 {
			helps |= nodeGrown
		}
	}
	return helps
}
