package sched

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// nodeNameField is the only field that terms can match.
const nodeNameField = "metadata.name"

// FilterNodeAffinity rejects nodes that don't match the pod's nodeSelector and one of its required terms.
func FilterNodeAffinity(c *Cycle) Prepared {
	spec := &c.Pod.Pod.Spec
	var required *corev1.NodeSelector
	if spec.Affinity != nil && spec.Affinity.NodeAffinity != nil {
		required = spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	if required == nil && len(spec.NodeSelector) == 0 {
		return Prepared{}
	}
	var terms []nodeTerm
	var only []string
	if required != nil {
		terms = newNodeTerms(required.NodeSelectorTerms)
		only = namedNodes(required.NodeSelectorTerms)
		if only != nil && len(only) == 0 {
			return Prepared{Reject: &Rejection{
				Filter:  "NodeAffinity",
				Code:    UnschedulableAndUnresolvable,
				Reasons: []string{"pod affinity terms conflict"},
			}}
		}
	}
	reject := &Rejection{
		Filter:  "NodeAffinity",
		Code:    UnschedulableAndUnresolvable,
		Reasons: []string{"node(s) didn't match Pod's node affinity/selector"},
	}
	return Prepared{Only: only, Check: func(n *NodeInfo) *Rejection {
		if !selects(spec.NodeSelector, n) || required != nil && !anyMatches(terms, n) {
			return reject
		}
		return nil
	}}
}

// ScoreNodeAffinity prefers nodes by the weights of the pod's preferred terms that they match.
func ScoreNodeAffinity(c *Cycle, _ []*NodeInfo) Rating {
	affinity := c.Pod.Pod.Spec.Affinity
	if affinity == nil || affinity.NodeAffinity == nil {
		return Rating{}
	}
	preferred := affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution
	if len(preferred) == 0 {
		return Rating{}
	}
	terms := make([]nodeTerm, len(preferred))
	for i := range preferred {
		terms[i] = newNodeTerm(&preferred[i].Preference)
	}
	return Rating{
		Rate: func(n *NodeInfo) int64 {
			var sum int64
			for i := range terms {
				if terms[i].matches(n) {
					sum += int64(preferred[i].Weight)
				}
			}
			return sum
		},
		Normalize: func(values []int64) { scale(values, false) },
	}
}

// selects tells whether the node has all of these labels.
func selects(selector map[string]string, n *NodeInfo) bool {
	for key, want := range selector {
		if have, ok := n.Node.Labels[key]; !ok || have != want {
			return false
		}
	}
	return true
}

// namedNodes are the nodes that the terms name, if every one of them names some; nil if not.
func namedNodes(terms []corev1.NodeSelectorTerm) []string {
	var all []string
	for i := range terms {
		var names []string
		pinned := false
		for _, field := range terms[i].MatchFields {
			if field.Key != nodeNameField || field.Operator != corev1.NodeSelectorOpIn {
				continue
			}
			if !pinned {
				names, pinned = slices.Clone(field.Values), true
				continue
			}
			names = slices.DeleteFunc(names, func(name string) bool { return !slices.Contains(field.Values, name) })
		}
		if !pinned {
			return nil
		}
		all = append(all, names...)
	}
	if all == nil && len(terms) > 0 {
		return []string{}
	}
	return all
}

// nodeTerm is a term of a node selector made ready. Its zero value matches nothing.
type nodeTerm struct {
	valid  bool
	labels labels.Requirements
	fields []fieldRequirement
}

// fieldRequirement demands that a field of the node has, or has not, this value.
type fieldRequirement struct {
	key, value string
	equal      bool
}

var labelOperators = map[corev1.NodeSelectorOperator]selection.Operator{
	corev1.NodeSelectorOpIn:           selection.In,
	corev1.NodeSelectorOpNotIn:        selection.NotIn,
	corev1.NodeSelectorOpExists:       selection.Exists,
	corev1.NodeSelectorOpDoesNotExist: selection.DoesNotExist,
	corev1.NodeSelectorOpGt:           selection.GreaterThan,
	corev1.NodeSelectorOpLt:           selection.LessThan,
}

func newNodeTerms(terms []corev1.NodeSelectorTerm) []nodeTerm {
	ready := make([]nodeTerm, len(terms))
	for i := range terms {
		ready[i] = newNodeTerm(&terms[i])
	}
	return ready
}

// newNodeTerm makes a term ready. An empty one matches nothing, and neither does one that makes no sense.
func newNodeTerm(term *corev1.NodeSelectorTerm) nodeTerm {
	t := nodeTerm{valid: len(term.MatchExpressions)+len(term.MatchFields) > 0}
	for _, e := range term.MatchExpressions {
		operator, known := labelOperators[e.Operator]
		if !known {
			return nodeTerm{}
		}
		requirement, err := labels.NewRequirement(e.Key, operator, e.Values)
		if err != nil {
			return nodeTerm{}
		}
		t.labels = append(t.labels, *requirement)
	}
	for _, f := range term.MatchFields {
		equal := f.Operator == corev1.NodeSelectorOpIn
		if len(f.Values) != 1 || !equal && f.Operator != corev1.NodeSelectorOpNotIn {
			return nodeTerm{}
		}
		t.fields = append(t.fields, fieldRequirement{key: f.Key, value: f.Values[0], equal: equal})
	}
	return t
}

func anyMatches(terms []nodeTerm, n *NodeInfo) bool {
	for i := range terms {
		if terms[i].matches(n) {
			return true
		}
	}
	return false
}

func (t *nodeTerm) matches(n *NodeInfo) bool {
	if !t.valid {
		return false
	}
	for i := range t.labels {
		if !t.labels[i].Matches(labels.Set(n.Node.Labels)) {
			return false
		}
	}
	for _, f := range t.fields {
		value := ""
		if f.key == nodeNameField {
			value = n.Name
		}
		if f.equal != (f.value == value) {
			return false
		}
	}
	return true
}
