package sched

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
)

// MaxPoints is what a score gives the best node after normalization.
const MaxPoints = 100

// Profile is a list of named filters and weighted scores, in the order in which they run.
type Profile struct {
	Filters []Filter
	Scores  []Score
	// Seed decides among nodes of equal points: the same pod, snapshot and seed give the same node.
	Seed uint64
}

// Filter is one kind of reason for which a node can't run a pod.
type Filter struct {
	Name string
	// Prepare looks at the pod, and at the snapshot where it must, once for all nodes.
	Prepare func(*Cycle) Prepared
}

// Score is one kind of preference among nodes that can run a pod.
type Score struct {
	Name   string
	Weight int64
	// Prepare looks at the pod and at the feasible nodes once.
	Prepare func(c *Cycle, feasible []*NodeInfo) Rating
}

// Cycle is what filters and scores prepare themselves from: one pod and one snapshot.
type Cycle struct {
	Pod      *PodInfo
	Snapshot *Snapshot
}

// Check tells why a node can't run the cycle's pod; nil means it can. It must give equal rejections as the same pointer
// where it can, so that they are counted cheaply, and must not remember what it was asked.
type Check func(*NodeInfo) *Rejection

// Prepared is a filter made ready for one pod. Its zero value lets every node pass.
type Prepared struct {
	Check Check
	// Only, if not nil, names the only nodes that are worth checking.
	Only []string
	// Reject, if not nil, rejects the pod whatever the nodes are.
	Reject *Rejection
}

// Rating is a score made ready for one pod. Its zero value gives no points to any node.
type Rating struct {
	Rate func(*NodeInfo) int64
	// Normalize brings the feasible nodes' values to 0..MaxPoints, in place; nil if they already are.
	Normalize func([]int64)
}

// Code says whether preemption could change a rejection.
type Code int8

const (
	// Unschedulable rejections may go away when pods leave the node.
	Unschedulable Code = iota
	// UnschedulableAndUnresolvable rejections hold whatever pods leave the node.
	UnschedulableAndUnresolvable
)

// String is the code's name as kube-scheduler spells it.
func (c Code) String() string {
	if c == UnschedulableAndUnresolvable {
		return "UnschedulableAndUnresolvable"
	}
	return "Unschedulable"
}

// Rejection is why one filter rejects a node. It is shared: treat it as read-only.
type Rejection struct {
	// Filter is the filter's name; names joined by commas where several together leave the node out.
	Filter  string
	Code    Code
	Reasons []string
}

// Points is what one score gives one node.
type Points struct {
	Score string
	// Raw is the value before normalization, Weighted what counts in the total.
	Raw, Weighted int64
}

// Decision is where a pod should run, and how clear the choice was.
type Decision struct {
	Node   string
	Total  int64
	Points []Points
	// Nodes is how many the snapshot held, Feasible how many passed all filters, Ties how many of those reached Total.
	Nodes, Feasible, Ties int
	// RunnerUp is the second choice, empty if there was none; it has Margin points less.
	RunnerUp string
	Margin   int64
	// Rejected counts the nodes that fell, by filter and reason.
	Rejected []Count
}

// Schedule chooses the node for the pod. If no node can run it, the error is a *FitError.
//
// It is the same as the method of a fresh Scheduler, which suits a single question; a loop keeps a Scheduler.
func Schedule(pod *corev1.Pod, snapshot *Snapshot, profile Profile) (Decision, error) {
	var s Scheduler
	return s.Schedule(pod, snapshot, profile)
}

var errNoPod = errors.New("schedule: no pod given")

// Scheduler is Schedule with memory that it uses again, so that a decision allocates next to nothing. What it keeps
// never changes an answer. The zero value is ready; it must not be used by two goroutines at once.
type Scheduler struct {
	checks   []Check
	left     narrowed
	tally    tally
	open     []*NodeInfo // rejected, but preemption might help
	feasible []*NodeInfo
	ratings  []Rating
	rows     [][]int64 // one pair for each rating, by position in feasible: raw values, points
	totals   []int64
}

// Schedule chooses the node for the pod. If no node can run it, the error is a *FitError.
func (s *Scheduler) Schedule(pod *corev1.Pod, snapshot *Snapshot, profile Profile) (Decision, error) {
	if pod == nil {
		return Decision{}, errNoPod
	}
	c := Cycle{Pod: NewPodInfo(pod), Snapshot: snapshot}
	if snapshot.Len() == 0 {
		return Decision{}, &FitError{Pod: podName(pod)}
	}
	defer s.release()
	if unfit := s.filter(&c, profile.Filters); unfit != nil {
		return Decision{}, unfit
	}
	s.rate(&c, profile.Scores)
	return s.choose(&c, profile), nil
}

// release drops what points into the snapshot, so that keeping a Scheduler does not keep old snapshots.
func (s *Scheduler) release() {
	clear(s.checks)
	clear(s.open)
	clear(s.feasible)
	clear(s.ratings)
	s.tally = s.tally.reset()
}

// podName is the pod's namespace and name as messages spell them.
func podName(pod *corev1.Pod) string {
	return pod.Namespace + "/" + pod.Name
}
