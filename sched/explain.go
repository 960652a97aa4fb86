package sched

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Explanation is a decision with all that led to it.
type Explanation struct {
	// Pod is namespace/name.
	Pod string
	// Decision is where the pod goes, nil if nowhere; then Unfit says why.
	Decision *Decision
	Unfit    *FitError
	// Nodes are all nodes, sorted by name.
	Nodes []NodeExplanation
}

// NodeExplanation is what filters and scores say of one node.
type NodeExplanation struct {
	Node string
	// Feasible nodes were compared by Total, the sum of Points.
	Feasible bool
	Points   []Points
	Total    int64
	// Decisive is the rejection that counts, nil if the node passes, or if the pod is rejected before any node is asked.
	// A node that passes may still not be feasible: if the pod fits on the node that preemption made room on, it goes
	// there, and the others are not compared.
	Decisive *Rejection
	// Rejections are those of every filter, each asked alone.
	Rejections []*Rejection
}

// Explain answers as Schedule does, and shows the figures of every node. It does so by asking again, and so costs more.
func Explain(pod *corev1.Pod, snapshot *Snapshot, profile Profile) Explanation {
	var s Scheduler
	c := Cycle{Pod: NewPodInfo(pod), Snapshot: snapshot}
	e := Explanation{Pod: podName(pod)}
	if snapshot.Len() == 0 {
		e.Unfit = &FitError{Pod: podName(pod)}
		return e
	}
	e.Unfit = s.filter(&c, profile.Filters)
	if e.Unfit == nil {
		s.rate(&c, profile.Scores)
		d := s.choose(&c, profile)
		e.Decision = &d
	}
	checks := everyCheck(&c, profile.Filters)
	feasible := map[*NodeInfo]int{}
	for i, node := range s.feasible {
		feasible[node] = i
	}
	e.Nodes = make([]NodeExplanation, 0, snapshot.Len())
	for node := range snapshot.Nodes() {
		x := NodeExplanation{Node: node.Name, Rejections: rejections(checks, node)}
		if i, ok := feasible[node]; ok {
			x.Feasible, x.Points, x.Total = true, s.points(profile.Scores, i), s.totals[i]
		} else if e.Unfit == nil || e.Unfit.Reason == "" {
			x.Decisive = s.decisive(&c, node)
		}
		e.Nodes = append(e.Nodes, x)
	}
	slices.SortFunc(e.Nodes, func(a, b NodeExplanation) int { return strings.Compare(a.Node, b.Node) })
	return e
}

// decisive is what keeps the node from the feasible ones.
func (s *Scheduler) decisive(c *Cycle, node *NodeInfo) *Rejection {
	if s.left.by != nil && !slices.Contains(s.left.names, node.Name) {
		return s.left.excluded()
	}
	return s.verdict(c, node)
}

// everyCheck makes all filters ready, even after one that rejects the pod.
func everyCheck(c *Cycle, filters []Filter) []Check {
	var checks []Check
	for _, f := range filters {
		p := f.Prepare(c)
		if p.Reject != nil {
			p.Check = func(*NodeInfo) *Rejection { return p.Reject }
		}
		if p.Check != nil {
			checks = append(checks, p.Check)
		}
	}
	return checks
}

func rejections(checks []Check, node *NodeInfo) []*Rejection {
	var all []*Rejection
	for _, check := range checks {
		if r := check(node); r != nil {
			all = append(all, r)
		}
	}
	return all
}
