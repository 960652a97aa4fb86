package sched

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// FilterNodeResourcesFit rejects nodes without room for one more pod, or for what this one requests.
func FilterNodeResourcesFit(c *Cycle) Prepared {
	f := &fit{requests: c.Pod.Requests}
	for _, scalar := range c.Pod.Requests.Scalars {
		if scalar.Value > 0 {
			f.scalars = append(f.scalars, scalar)
		}
	}
	return Prepared{Check: f.check}
}

// fit is the requests of one pod, and the rejections given so far, by what was lacking.
type fit struct {
	requests Resources
	scalars  []Scalar
	given    []givenRejection
}

type givenRejection struct {
	lacking lacking
	r       *Rejection
}

// lacking says which resources a node lacks: a bit for each, in the order in which they are reported.
type lacking struct {
	mask uint64
	more string // names beyond the mask's bits
	code Code
}

const (
	lacksPods = 1 << iota
	lacksCPU
	lacksMemory
	lacksEphemeralStorage

	firstScalarBit = 4
)

func (f *fit) check(n *NodeInfo) *Rejection {
	var l lacking
	if int64(len(n.Pods))+1 > n.MaxPods {
		l.mask |= lacksPods
	}
	l.compare(lacksCPU, f.requests.MilliCPU, n.Requested.MilliCPU, n.Allocatable.MilliCPU)
	l.compare(lacksMemory, f.requests.Memory, n.Requested.Memory, n.Allocatable.Memory)
	l.compare(lacksEphemeralStorage, f.requests.EphemeralStorage, n.Requested.EphemeralStorage, n.Allocatable.EphemeralStorage)
	for i := range f.scalars {
		s := &f.scalars[i]
		bit := uint64(1) << (firstScalarBit + i) // 0 beyond the mask
		if l.compare(bit, s.Value, n.Requested.Scalar(s.Name), n.Allocatable.Scalar(s.Name)) && bit == 0 {
			l.more += string(s.Name) + ","
		}
	}
	if l == (lacking{}) {
		return nil
	}
	return f.rejection(l)
}

// compare sets the bit if the request is greater than what is left, and tells so.
func (l *lacking) compare(bit uint64, request, used, allocatable int64) bool {
	if request <= 0 || request <= allocatable-used {
		return false
	}
	l.mask |= bit
	if request > allocatable {
		l.code = UnschedulableAndUnresolvable
	}
	return true
}

// rejection is the same pointer for the same lack.
func (f *fit) rejection(l lacking) *Rejection {
	for i := range f.given {
		if f.given[i].lacking == l {
			return f.given[i].r
		}
	}
	r := &Rejection{Filter: "NodeResourcesFit", Code: l.code, Reasons: f.reasons(l)}
	f.given = append(f.given, givenRejection{l, r})
	return r
}

func (f *fit) reasons(l lacking) []string {
	var reasons []string
	if l.mask&lacksPods != 0 {
		reasons = append(reasons, "Too many pods")
	}
	for i, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
		if l.mask&(lacksCPU<<i) != 0 {
			reasons = append(reasons, "Insufficient "+string(name))
		}
	}
	for i, s := range f.scalars {
		if l.mask&(uint64(1)<<(firstScalarBit+i)) != 0 {
			reasons = append(reasons, "Insufficient "+string(s.Name))
		}
	}
	for _, name := range strings.FieldsFunc(l.more, func(r rune) bool { return r == ',' }) {
		reasons = append(reasons, "Insufficient "+name)
	}
	return reasons
}
