package sched

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// FitError says that no node can run the pod.
type FitError struct {
	// Pod is namespace/name.
	Pod string
	// Nodes is how many nodes there are.
	Nodes int
	// Reason, if not empty, is why the pod was rejected before a node was looked at.
	Reason string
	// Rejected counts the nodes that fell, by filter and reason. A node may count for several reasons.
	Rejected []Count
	// Filters are the names of those that rejected the pod somewhere, sorted: what has to change before it is worth
	// another try.
	Filters []string
	// Preemption is why removing pods of lower priority would not help, in the words that events use. It is empty if
	// that would help.
	Preemption string
}

// Count is how many nodes fell to one reason of one filter.
type Count struct {
	Filter string
	Code   Code
	Reason string
	Nodes  int
}

// Error is the message of the FailedScheduling event, as kube-scheduler words it.
func (e *FitError) Error() string {
	if e.Nodes == 0 {
		return "no nodes available to schedule pods"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "0/%d nodes are available:", e.Nodes)
	switch {
	case e.Reason != "":
		fmt.Fprintf(&b, " %s.", e.Reason)
	case len(e.Rejected) > 0:
		counts := map[string]int{}
		for _, c := range e.Rejected {
			counts[c.Reason] += c.Nodes
		}
		fmt.Fprintf(&b, " %s.", histogram(counts))
	}
	if e.Preemption != "" {
		b.WriteString(" " + e.Preemption)
	}
	return b.String()
}

// histogram lists counted reasons in the order of their texts, numbers included.
func histogram(counts map[string]int) string {
	texts := make([]string, 0, len(counts))
	for reason, n := range counts {
		texts = append(texts, fmt.Sprintf("%d %s", n, reason))
	}
	slices.Sort(texts)
	return strings.Join(texts, ", ")
}

// tally counts rejections; equal ones are mostly the same pointer.
type tally []tallied

type tallied struct {
	r     *Rejection
	nodes int
}

func (t *tally) add(r *Rejection, nodes int) {
	for i := range *t {
		if (*t)[i].r == r {
			(*t)[i].nodes += nodes
			return
		}
	}
	*t = append(*t, tallied{r, nodes})
}

func (t tally) reset() tally {
	clear(t)
	return t[:0]
}

// counts is the tally by filter and reason, in the order of these names.
func (t tally) counts() []Count {
	if len(t) == 0 {
		return nil
	}
	sum := make([]Count, 0, len(t))
	for _, x := range t {
		for _, reason := range x.r.Reasons {
			c := Count{Filter: x.r.Filter, Code: x.r.Code, Reason: reason}
			i := slices.IndexFunc(sum, func(have Count) bool { c.Nodes = have.Nodes; return have == c })
			if i < 0 {
				c.Nodes = x.nodes
				sum = append(sum, c)
				continue
			}
			sum[i].Nodes += x.nodes
		}
	}
	slices.SortFunc(sum, func(a, b Count) int {
		return cmp.Or(strings.Compare(a.Filter, b.Filter), strings.Compare(a.Reason, b.Reason), cmp.Compare(a.Code, b.Code))
	})
	return sum
}

// filters are the names of all that rejected, and of those that left nodes out.
func (t tally) filters(also []string) []string {
	names := map[string]struct{}{}
	for _, name := range also {
		names[name] = struct{}{}
	}
	for _, x := range t {
		for _, name := range strings.Split(x.r.Filter, ",") {
			names[name] = struct{}{}
		}
	}
	return slices.Sorted(maps.Keys(names))
}
