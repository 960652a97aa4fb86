package sched

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
)

var recordedFile = flag.String("recorded", "testdata/recorded.jsonl", "answers of kube-scheduler to compare with")

type recordedCase struct {
	Name        string
	Nodes       []*corev1.Node
	Pods        []*corev1.Pod
	Pod         *corev1.Pod
	FitStrategy *recordedStrategy
	Expect      recordedAnswer
	Steps       []recordedStep
}

type recordedStrategy struct {
	Type      string
	Resources []ResourceWeight
	Shape     []struct{ Utilization, Score int64 }
}

type recordedAnswer struct {
	Filter    map[string]recordedRejection
	FilterAll map[string]map[string]recordedRejection
	Feasible  []string
	Points    map[string][]int64
	Totals    map[string]int64
	Best      []string
	Message   string
	Filters   []string
	// Candidates tells that kube-scheduler found a node where preemption helps.
	Candidates bool
}

type recordedRejection struct {
	Code, Plugin string
	Reasons      []string
}

type recordedStep struct {
	Op, Key string
	Pod     *corev1.Pod
	Node    *corev1.Node
	Totals  map[string]int64
	Chosen  string
	Message string
}

func TestAnswersAreThoseOfKubeScheduler(t *testing.T) {
	for _, c := range readRecorded(t) {
		t.Run(c.Name, func(t *testing.T) {
			if c.Steps != nil {
				replay(t, c)
				return
			}
			var cache Cache
			for _, node := range c.Nodes {
				cache.SetNode(node)
			}
			for _, pod := range c.Pods {
				cache.AddPod(pod)
			}
			compareRejections(t, c, cache.Snapshot())
			comparePoints(t, c, cache.Snapshot())
			if c.Expect.Totals != nil {
				compareDecision(t, c, cache.Snapshot())
			}
			if c.Expect.Message != "" {
				compareMessage(t, c, cache.Snapshot())
			}
		})
	}
}

func readRecorded(t *testing.T) []recordedCase {
	f, err := os.Open(*recordedFile)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var cases []recordedCase
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var c recordedCase
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatalf("%.80s: %v", lines.Text(), err)
		}
		cases = append(cases, c)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return cases
}

func (c recordedCase) profile() Profile {
	p := DefaultProfile()
	if c.FitStrategy == nil {
		return p
	}
	i := slices.IndexFunc(p.Scores, func(s Score) bool { return s.Name == "NodeResourcesFit" })
	switch c.FitStrategy.Type {
	case "LeastAllocated":
		p.Scores[i].Prepare = LeastAllocated(c.FitStrategy.Resources)
	case "MostAllocated":
		p.Scores[i].Prepare = MostAllocated(c.FitStrategy.Resources)
	case "RequestedToCapacityRatio":
		var shape []ShapePoint
		for _, point := range c.FitStrategy.Shape {
			shape = append(shape, ShapePoint{point.Utilization, 10 * point.Score})
		}
		p.Scores[i].Prepare = RequestedToCapacityRatio(c.FitStrategy.Resources, shape)
	}
	return p
}

// compareRejections compares what each filter says of each node that is left to it.
func compareRejections(t *testing.T, c recordedCase, snapshot *Snapshot) {
	ours := map[string]bool{}
	for _, f := range c.profile().Filters {
		ours[f.Name] = true
	}
	for _, node := range Explain(c.Pod, snapshot, c.profile()).Nodes {
		first := c.Expect.Filter[node.Node]
		if first.Code == "PreFilterResult" {
			continue
		}
		want := c.Expect.FilterAll[node.Node]
		if want == nil && ours[first.Plugin] {
			want = map[string]recordedRejection{first.Plugin: {Code: first.Code, Reasons: first.Reasons}}
		}
		got := map[string]recordedRejection{}
		for _, r := range node.Rejections {
			got[r.Filter] = recordedRejection{Code: r.Code.String(), Reasons: r.Reasons}
		}
		sortReasons := cmpopts.SortSlices(strings.Compare)
		if diff := cmp.Diff(want, got, sortReasons, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("rejections of node %s (-want +got):\n%s", node.Node, diff)
		}
	}
}

// comparePoints compares the points that each score gives to the nodes which were feasible then.
func comparePoints(t *testing.T, c recordedCase, snapshot *Snapshot) {
	if c.Expect.Points == nil {
		return
	}
	s := Scheduler{}
	cycle := Cycle{Pod: NewPodInfo(c.Pod), Snapshot: snapshot}
	for _, name := range c.Expect.Feasible {
		s.feasible = append(s.feasible, snapshot.Node(name))
	}
	scores := c.profile().Scores
	s.rate(&cycle, scores)
	got := map[string][]int64{}
	for i, node := range s.feasible {
		for _, p := range s.points(scores, i) {
			got[node.Name] = append(got[node.Name], p.Weighted)
		}
	}
	if diff := cmp.Diff(c.Expect.Points, got); diff != "" {
		t.Errorf("points (-want +got):\n%s", diff)
	}
}

func compareDecision(t *testing.T, c recordedCase, snapshot *Snapshot) {
	decision, err := Schedule(c.Pod, snapshot, c.profile())
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(c.Expect.Best, decision.Node) || decision.Ties != len(c.Expect.Best) {
		t.Errorf("chose %s with %d ties, want one of %v", decision.Node, decision.Ties, c.Expect.Best)
	}
	compareTotals(t, c.Expect.Totals, c.Pod, snapshot, c.profile())
}

func compareTotals(t *testing.T, want map[string]int64, pod *corev1.Pod, snapshot *Snapshot, profile Profile) {
	got := map[string]int64{}
	for _, node := range Explain(pod, snapshot, profile).Nodes {
		if node.Feasible {
			got[node.Node] = node.Total
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("totals (-want +got):\n%s", diff)
	}
}

func compareMessage(t *testing.T, c recordedCase, snapshot *Snapshot) {
	_, err := Schedule(c.Pod, snapshot, c.profile())
	var unfit *FitError
	if !errors.As(err, &unfit) {
		t.Fatalf("got %v, want %q", err, c.Expect.Message)
	}
	want := c.Expect.Message
	if c.Expect.Candidates {
		want, _, _ = strings.Cut(want, " preemption: ")
	}
	if err.Error() != want {
		t.Errorf("got  %q\nwant %q", err, want)
	}
	if diff := cmp.Diff(c.Expect.Filters, unfit.Filters); diff != "" {
		t.Errorf("filters that rejected (-want +got):\n%s", diff)
	}
}

// replay goes through a case of many steps with one cache and one scheduler, taking snapshots as a loop would.
func replay(t *testing.T, c recordedCase) {
	var cache Cache
	var s Scheduler
	pods := map[string]*corev1.Pod{}
	for _, node := range c.Nodes {
		cache.SetNode(node)
	}
	for i, step := range c.Steps {
		switch step.Op {
		case "addNode", "updateNode":
			cache.SetNode(step.Node)
		case "deleteNode":
			cache.RemoveNode(step.Key)
			for key, pod := range pods {
				if pod.Spec.NodeName == step.Key {
					cache.RemovePod(pod)
					delete(pods, key)
				}
			}
		case "deletePod":
			cache.RemovePod(pods[step.Key])
			delete(pods, step.Key)
		case "schedule":
			decision, err := s.Schedule(step.Pod, cache.Snapshot(), c.profile())
			if step.Chosen == "" {
				message, _, _ := strings.Cut(err.Error(), " preemption: ")
				if message != step.Message {
					t.Errorf("step %d: got %q, want %q", i, message, step.Message)
				}
				continue
			}
			if err != nil || decision.Total != step.Totals[step.Chosen] {
				t.Errorf("step %d: got %+v, %v, want %s", i, decision, err, step.Chosen)
			}
			compareTotals(t, step.Totals, step.Pod, cache.Snapshot(), c.profile())
			bound := step.Pod.DeepCopy()
			bound.Spec.NodeName = step.Chosen
			cache.Assume(step.Pod, step.Chosen)
			cache.AddPod(bound)
			pods[podName(bound)] = bound
		default:
			t.Fatalf("step %d: unknown operation %q", i, step.Op)
		}
	}
}
