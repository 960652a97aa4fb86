package sched

import (
	"fmt"
	"slices"
	"strings"
)

// filter fills s.feasible. If that stays empty it says why.
func (s *Scheduler) filter(c *Cycle, filters []Filter) *FitError {
	s.feasible, s.open, s.tally = s.feasible[:0], s.open[:0], s.tally.reset()
	var unfit *FitError
	if s.left, unfit = s.prepare(c, filters); unfit != nil {
		return unfit
	}
	if nominated := c.Snapshot.Node(c.Pod.Pod.Status.NominatedNodeName); nominated != nil {
		if s.verdict(c, nominated) == nil {
			s.feasible = append(s.feasible, nominated)
			return nil
		}
	}
	if s.left.by == nil {
		for _, page := range c.Snapshot.pages {
			for _, node := range page {
				s.judge(c, node)
			}
		}
	} else {
		s.judgeOnly(c, s.left)
	}
	if len(s.feasible) > 0 {
		return nil
	}
	return &FitError{
		Pod:        podName(c.Pod.Pod),
		Nodes:      c.Snapshot.Len(),
		Rejected:   s.tally.counts(),
		Filters:    s.tally.filters(s.left.by),
		Preemption: s.preemption(c),
	}
}

// narrowed is the set of nodes that filters left to look at while they were prepared, and the filters which did so.
type narrowed struct {
	names []string
	by    []string
}

// prepare fills s.checks. A filter may reject the pod or narrow the nodes at this point already.
func (s *Scheduler) prepare(c *Cycle, filters []Filter) (narrowed, *FitError) {
	s.checks = s.checks[:0]
	var n narrowed
	for _, f := range filters {
		p := f.Prepare(c)
		if p.Reject != nil {
			return n, s.rejected(c, strings.Join(p.Reject.Reasons, ", "), append(n.by, f.Name))
		}
		if p.Only != nil {
			n = n.narrow(f.Name, p.Only)
			if len(n.names) == 0 {
				return n, s.rejected(c, n.nothingLeft(), n.by)
			}
		}
		if p.Check != nil {
			s.checks = append(s.checks, p.Check)
		}
	}
	return n, nil
}

func (n narrowed) narrow(filter string, only []string) narrowed {
	if n.by == nil {
		names := slices.Clone(only)
		slices.Sort(names)
		return narrowed{names: slices.Compact(names), by: []string{filter}}
	}
	both := slices.DeleteFunc(n.names, func(name string) bool { return !slices.Contains(only, name) })
	return narrowed{names: both, by: append(n.by, filter)}
}

// nothingLeft is what kube-scheduler says when the filters have no node in common.
func (n narrowed) nothingLeft() string {
	if len(n.by) == 1 {
		return "node(s) didn't satisfy plugin " + n.by[0]
	}
	return fmt.Sprintf("node(s) didn't satisfy plugin(s) %v simultaneously", sorted(n.by))
}

// rejected is the error for a pod that no node was asked about.
func (s *Scheduler) rejected(c *Cycle, reason string, by []string) *FitError {
	return &FitError{
		Pod:        podName(c.Pod.Pod),
		Nodes:      c.Snapshot.Len(),
		Reason:     reason,
		Filters:    sorted(by),
		Preemption: s.preemption(c),
	}
}

// judgeOnly asks only about the nodes that are left, and counts the others as rejected by whoever left them out.
func (s *Scheduler) judgeOnly(c *Cycle, n narrowed) {
	found := 0
	for _, name := range n.names {
		if node := c.Snapshot.Node(name); node != nil {
			found++
			s.judge(c, node)
		}
	}
	if others := c.Snapshot.Len() - found; others > 0 {
		s.tally.add(n.excluded(), others)
	}
}

// excluded is the rejection of the nodes that are not among those left.
func (n narrowed) excluded() *Rejection {
	by := sorted(n.by)
	return &Rejection{
		Filter:  strings.Join(by, ","),
		Code:    UnschedulableAndUnresolvable,
		Reasons: []string{fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", by)},
	}
}

// judge notes whether the node can run the pod.
func (s *Scheduler) judge(c *Cycle, node *NodeInfo) {
	r := s.verdict(c, node)
	if r == nil {
		s.feasible = append(s.feasible, node)
		return
	}
	s.tally.add(r, 1)
	if r.Code == Unschedulable {
		s.open = append(s.open, node)
	}
}

// verdict is the first check's rejection. Where pods of at least this priority are to get room by preemption, the pod
// must fit beside them, and without them too, for they may never come.
func (s *Scheduler) verdict(c *Cycle, node *NodeInfo) *Rejection {
	if len(node.Nominated) > 0 {
		if beside := besideNominated(node, c.Pod); beside != nil {
			if r := s.first(beside); r != nil {
				return r
			}
		}
	}
	return s.first(node)
}

func (s *Scheduler) first(node *NodeInfo) *Rejection {
	for _, check := range s.checks {
		if r := check(node); r != nil {
			return r
		}
	}
	return nil
}

// besideNominated is the node with the nominated pods that go before this one, nil if there are none.
func besideNominated(node *NodeInfo, pod *PodInfo) *NodeInfo {
	var beside *NodeInfo
	for _, p := range node.Nominated {
		if p.Priority < pod.Priority || keyOf(p.Pod) == keyOf(pod.Pod) {
			continue
		}
		if beside == nil {
			beside = node.clone().detach()
		}
		beside.add(p)
	}
	return beside
}

func sorted(names []string) []string {
	s := slices.Clone(names)
	slices.Sort(s)
	return slices.Compact(s)
}
