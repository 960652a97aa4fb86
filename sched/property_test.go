package sched

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// TestDecisionAndExplanationAgreeWithBruteForce fills random clusters pod by pod and compares each answer with the one
// found straight from the rules. The pods that land are counted too: no node may ever hold more than it can.
func TestDecisionAndExplanationAgreeWithBruteForce(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			m := newMaker(seed)
			var cache Cache
			var scheduler Scheduler
			var o oracle
			for i := range 1 + m.IntN(8) {
				node := m.node(fmt.Sprintf("node-%d", i))
				o.nodes = append(o.nodes, node)
				cache.SetNode(node)
			}
			for range 25 {
				pod := m.pod()
				profile := DefaultProfile()
				profile.Seed = seed
				e := Explain(pod, cache.Snapshot(), profile)
				compareWithOracle(t, o, pod, e)
				d, err := scheduler.Schedule(pod, cache.Snapshot(), profile)
				compareWithExplanation(t, d, err, e)
				if err == nil {
					cache.Assume(pod, d.Node)
					o.pods = append(o.pods, on(d.Node, pod.DeepCopy()))
				}
			}
			neverOver(t, o)
		})
	}
}

func compareWithOracle(t *testing.T, o oracle, pod *corev1.Pod, e Explanation) {
	t.Helper()
	want := o.totals(pod)
	got := map[string]int64{}
	for _, x := range e.Nodes {
		if x.Feasible {
			got[x.Node] = x.Total
		}
		i := slices.IndexFunc(o.nodes, func(n *corev1.Node) bool { return n.Name == x.Node })
		first := ""
		if len(x.Rejections) > 0 {
			first = x.Rejections[0].Filter + ": " + strings.Join(x.Rejections[0].Reasons, ", ")
		}
		// Nodes that a pod with named nodes leaves out need not be asked; the filter gives its reason all the same.
		if want := o.rejection(pod, o.nodes[i]); first != want && !strings.Contains(first, "conflict") {
			t.Errorf("%s on %s: got rejection %q, want %q", e.Pod, x.Node, first, want)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s: totals (-want +got):\n%s", e.Pod, diff)
	}
}

func compareWithExplanation(t *testing.T, d Decision, err error, e Explanation) {
	t.Helper()
	best, count, rejected := int64(math.MinInt64), 0, 0
	for _, x := range e.Nodes {
		if x.Feasible != (x.Decisive == nil) && (e.Unfit == nil || e.Unfit.Reason == "") {
			t.Errorf("%s on %s: feasible %t, but decisive is %+v", e.Pod, x.Node, x.Feasible, x.Decisive)
		}
		switch {
		case !x.Feasible:
			rejected++
		case x.Total > best:
			best, count = x.Total, 1
		case x.Total == best:
			count++
		}
	}
	var unfit *FitError
	if errors.As(err, &unfit) {
		if diff := cmp.Diff(e.Unfit, unfit); diff != "" || rejected != len(e.Nodes) {
			t.Errorf("%s: %d of %d nodes rejected, error (-explained +got):\n%s", e.Pod, rejected, len(e.Nodes), diff)
		}
		return
	}
	if diff := cmp.Diff(e.Decision, &d); diff != "" {
		t.Errorf("%s: decision (-explained +got):\n%s", e.Pod, diff)
	}
	if d.Total != best || d.Ties != count || d.Feasible != len(e.Nodes)-rejected || d.Nodes != len(e.Nodes) {
		t.Errorf("%s: %+v, but the best is %d, reached by %d; %d rejected", e.Pod, d, best, count, rejected)
	}
	var sum int64
	for _, p := range d.Points {
		sum += p.Weighted
	}
	if sum != d.Total {
		t.Errorf("%s: points %+v don't add up to %d", e.Pod, d.Points, d.Total)
	}
}

// neverOver checks every node's pods against what it has.
func neverOver(t *testing.T, o oracle) {
	t.Helper()
	for _, node := range o.nodes {
		for _, name := range []corev1.ResourceName{"cpu", "memory", "example.com/npu"} {
			if used, all := o.used(node, name, 0), oracleAllocatable(node, name); used > all {
				t.Errorf("%s: %d of %s in use, %d allocatable", node.Name, used, name, all)
			}
		}
		if pods, most := len(o.on(node)), oracleAllocatable(node, "pods"); int64(pods) > most {
			t.Errorf("%s: %d pods, room for %d", node.Name, pods, most)
		}
		for i, pod := range o.pods {
			if pod.Spec.NodeName != node.Name {
				continue
			}
			others := oracle{nodes: o.nodes, pods: slices.Delete(slices.Clone(o.pods), i, i+1)}
			if others.portTaken(pod, node) {
				t.Errorf("%s: %s takes a port that is taken", node.Name, pod.Name)
			}
		}
	}
}

func TestSameSeedSameNode(t *testing.T) {
	names := []string{"a", "b", "c", "d", "e"}
	chosen := map[string]bool{}
	for seed := range uint64(64) {
		profile := DefaultProfile()
		profile.Seed = seed
		pod := testPod("p", milliCPU(100))
		var first string
		for turn := range len(names) {
			var cache Cache
			for i := range names {
				cache.SetNode(testNode(names[(i+turn)%len(names)], cpu(4), memory(1<<30)))
			}
			d, err := Schedule(pod, cache.Snapshot(), profile)
			if err != nil {
				t.Fatal(err)
			}
			if first == "" {
				first = d.Node
			}
			if d.Node != first || d.Ties != len(names) || d.Margin != 0 || d.RunnerUp == d.Node {
				t.Errorf("seed %d, order %d: got %+v, want node %s", seed, turn, d, first)
			}
		}
		chosen[first] = true
	}
	if len(chosen) != len(names) {
		t.Errorf("64 seeds chose only %v of %v", chosen, names)
	}
}

func TestTiesAreSpreadOverPods(t *testing.T) {
	var cache Cache
	for _, name := range []string{"a", "b", "c"} {
		cache.SetNode(testNode(name, cpu(4), memory(1<<30)))
	}
	count := map[string]int{}
	for i := range 300 {
		d, err := Schedule(testPod(fmt.Sprint(i)), cache.Snapshot(), DefaultProfile())
		if err != nil {
			t.Fatal(err)
		}
		count[d.Node]++
	}
	for _, name := range []string{"a", "b", "c"} {
		if count[name] < 60 {
			t.Errorf("300 pods of equal choice landed as %v", count)
		}
	}
}
