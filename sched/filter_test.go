package sched

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func nominatedTo(node string, pod *corev1.Pod) *corev1.Pod {
	pod.Status.NominatedNodeName = node
	return pod
}

func TestRoomMadeByPreemptionIsKept(t *testing.T) {
	for name, c := range map[string]struct {
		waiting, pod int32
		fits         bool
	}{
		"for a pod that goes before": {waiting: 9, pod: 5, fits: false},
		"for an equal pod":           {waiting: 5, pod: 5, fits: false},
		"but not for a lesser pod":   {waiting: 1, pod: 5, fits: true},
	} {
		t.Run(name, func(t *testing.T) {
			var cache Cache
			cache.SetNode(testNode("a", cpu(1)))
			cache.AddPod(nominatedTo("a", withPriority(c.waiting, testPod("waiting", milliCPU(800)))))
			_, err := Schedule(withPriority(c.pod, testPod("p", milliCPU(800))), cache.Snapshot(), DefaultProfile())
			if (err == nil) != c.fits {
				t.Errorf("got %v, want it to fit: %t", err, c.fits)
			}
		})
	}
}

func TestAskingAboutAnOldSnapshotLeavesNewerOnesAlone(t *testing.T) {
	var cache Cache
	cache.SetNode(testNode("a", cpu(9)))
	cache.AddPod(nominatedTo("a", withPriority(9, testPod("waiting"))))
	var snapshots []*Snapshot
	for i := range 12 {
		cache.AddPod(on("a", testPod(fmt.Sprint(i))))
		snapshots = append(snapshots, cache.Snapshot())
	}
	for _, snapshot := range snapshots {
		if _, err := Schedule(testPod("p"), snapshot, DefaultProfile()); err != nil {
			t.Fatal(err)
		}
	}
	for i, p := range cache.Snapshot().Node("a").Pods {
		if p.Pod.Name != fmt.Sprint(i) {
			t.Errorf("pod %d of the newest snapshot is now %s", i, p.Pod.Name)
		}
	}
}

func TestNominatedNodeIsTakenIfThePodFits(t *testing.T) {
	var cache Cache
	cache.SetNode(testNode("small", cpu(1)))
	cache.SetNode(testNode("large", cpu(100)))
	pod := nominatedTo("small", testPod("p", milliCPU(600)))
	cache.AddPod(pod)
	d, err := Schedule(pod, cache.Snapshot(), DefaultProfile())
	if err != nil || d.Node != "small" || d.Feasible != 1 {
		t.Errorf("got %+v, %v, want node small", d, err)
	}
	e := Explain(pod, cache.Snapshot(), DefaultProfile())
	if large := e.Nodes[0]; large.Node != "large" || large.Feasible || large.Decisive != nil {
		t.Errorf("got %+v, want a node that passes but is not compared", large)
	}
	cache.AddPod(on("small", testPod("other", milliCPU(500))))
	d, err = Schedule(pod, cache.Snapshot(), DefaultProfile())
	if err != nil || d.Node != "large" {
		t.Errorf("with small taken meanwhile: got %+v, %v, want node large", d, err)
	}
}

func TestNamedNodeIsTheOnlyOne(t *testing.T) {
	var cache Cache
	for i := range 200 {
		cache.SetNode(testNode(fmt.Sprint("n", i), cpu(1)))
	}
	pod := testPod("p", milliCPU(600))
	pod.Spec.Affinity = pinned("n150")
	d, err := Schedule(pod, cache.Snapshot(), DefaultProfile())
	if err != nil || d.Node != "n150" || d.RunnerUp != "" || d.Feasible != 1 {
		t.Fatalf("got %+v, %v, want node n150", d, err)
	}
	want := []Count{{
		Filter: "NodeAffinity", Code: UnschedulableAndUnresolvable, Nodes: 199,
		Reason: "node(s) didn't satisfy plugin(s) [NodeAffinity]",
	}}
	if !slices.Equal(d.Rejected, want) {
		t.Errorf("got %+v, want %+v", d.Rejected, want)
	}
}

func TestPodsThatRequestNothingFitOnOvercommittedNodes(t *testing.T) {
	var cache Cache
	cache.SetNode(testNode("a", cpu(1), memory(1<<30)))
	cache.AddPod(on("a", testPod("x", cpu(3), memory(5<<30))))
	d, err := Schedule(testPod("p"), cache.Snapshot(), DefaultProfile())
	if err != nil || d.Node != "a" {
		t.Errorf("got %+v, %v", d, err)
	}
	// Shares of more than the whole count as the whole: both are used up, so the use is even.
	if n := cache.Snapshot().Node("a"); n.balance != MaxPoints {
		t.Errorf("balance of an overcommitted node: got %d, want %d", n.balance, MaxPoints)
	}
	_, err = Schedule(testPod("q", milliCPU(1)), cache.Snapshot(), DefaultProfile())
	var unfit *FitError
	if !errors.As(err, &unfit) {
		t.Errorf("got %v, want a FitError", err)
	}
}

func TestOwnFiltersAndScores(t *testing.T) {
	var cache Cache
	for _, name := range []string{"a", "b", "c"} {
		cache.SetNode(testNode(name))
	}
	late := &Rejection{Filter: "Heartbeat", Reasons: []string{"node(s) were late"}}
	profile := Profile{
		Filters: []Filter{{"Heartbeat", func(*Cycle) Prepared {
			return Prepared{Check: func(n *NodeInfo) *Rejection {
				if n.Name == "c" {
					return late
				}
				return nil
			}}
		}}},
		Scores: []Score{{"ByName", 7, func(_ *Cycle, feasible []*NodeInfo) Rating {
			return Rating{Rate: func(n *NodeInfo) int64 { return int64(n.Name[0]-'a') * 10 / int64(len(feasible)) }}
		}}},
	}
	d, err := Schedule(testPod("p"), cache.Snapshot(), profile)
	if err != nil || d.Node != "b" || d.Total != 35 || d.RunnerUp != "a" || d.Margin != 35 {
		t.Errorf("got %+v, %v", d, err)
	}
	if want := []Count{{"Heartbeat", Unschedulable, "node(s) were late", 1}}; !slices.Equal(d.Rejected, want) {
		t.Errorf("got rejected %+v, want %+v", d.Rejected, want)
	}
}

// TestSnapshotsAreReadWhileTheCacheGoesOn has meaning under the race detector.
func TestSnapshotsAreReadWhileTheCacheGoesOn(t *testing.T) {
	m := newMaker(1)
	var cache Cache
	nodes, pods := map[string]*corev1.Node{}, map[string]*corev1.Pod{}
	var readers sync.WaitGroup
	for range 50 {
		for range 20 {
			m.change(&cache, nodes, pods)
		}
		snapshot, pod := cache.Snapshot(), m.pod()
		readers.Go(func() {
			_, err := Schedule(pod, snapshot, DefaultProfile())
			if e := Explain(pod, snapshot, DefaultProfile()); (err == nil) != (e.Decision != nil) {
				t.Errorf("got %v, explained as %v", err, e.Unfit)
			}
		})
	}
	readers.Wait()
}
