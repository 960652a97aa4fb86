package sched

import (
	"errors"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func tainted(node *corev1.Node, effect corev1.TaintEffect) *corev1.Node {
	node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: "dedicated", Value: "db", Effect: effect})
	return node
}

func cordoned(node *corev1.Node) *corev1.Node {
	node.Spec.Unschedulable = true
	return node
}

func withPriority(priority int32, pod *corev1.Pod) *corev1.Pod {
	pod.Spec.Priority = &priority
	return pod
}

func pinned(names ...string) *corev1.Affinity {
	var fields []corev1.NodeSelectorRequirement
	for _, name := range names {
		fields = append(fields, corev1.NodeSelectorRequirement{
			Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{name},
		})
	}
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: fields}},
		},
	}}
}

func TestMessagesAreWordedAsKubeSchedulerWordsThem(t *testing.T) {
	never := corev1.PreemptNever
	hostPort := func(pod *corev1.Pod) *corev1.Pod {
		pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80}}
		return pod
	}
	for name, c := range map[string]struct {
		nodes   []*corev1.Node
		pods    []*corev1.Pod
		pod     *corev1.Pod
		change  func(*corev1.Pod)
		want    string
		filters []string
	}{
		"no nodes": {
			pod:  testPod("p"),
			want: "no nodes available to schedule pods",
		},
		"counts are sorted as texts": {
			nodes: []*corev1.Node{
				testNode("a", cpu(1)), testNode("b", cpu(1)), testNode("c", cpu(1)), testNode("d", cpu(1)), testNode("e", cpu(1)),
				testNode("f", cpu(1)), testNode("g", cpu(1)), testNode("h", cpu(1)), testNode("i", cpu(1)), testNode("j", cpu(1)),
				tainted(testNode("k", cpu(9)), corev1.TaintEffectNoSchedule), tainted(testNode("l", cpu(9)), corev1.TaintEffectNoExecute),
				cordoned(testNode("m", cpu(9))),
			},
			pod: testPod("p", cpu(2)),
			want: "0/13 nodes are available: 1 node(s) were unschedulable, 10 Insufficient cpu, 2 node(s) had untolerated taint(s). " +
				"preemption: 0/13 nodes are available: 13 Preemption is not helpful for scheduling.",
			filters: []string{"NodeResourcesFit", "NodeUnschedulable", "TaintToleration"},
		},
		"one node may lack several": {
			nodes: []*corev1.Node{testNode("a", cpu(1), memory(1<<20), maxPods(0))},
			pod: testPod("p", cpu(2), memory(1<<30), scalar(corev1.ResourceEphemeralStorage, 1), scalar("example.com/npu", 1),
				scalar("hugepages-2Mi", 1), scalar("unknown", 1)),
			want: "0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient ephemeral-storage, 1 Insufficient example.com/npu, " +
				"1 Insufficient hugepages-2Mi, 1 Insufficient memory, 1 Too many pods. " +
				"preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.",
			filters: []string{"NodeResourcesFit"},
		},
		"nobody to preempt": {
			nodes: []*corev1.Node{testNode("a", cpu(1)), testNode("b", cpu(1)), cordoned(testNode("c", cpu(1)))},
			pods:  []*corev1.Pod{on("a", testPod("x", cpu(1))), on("b", withPriority(5, testPod("y", cpu(1))))},
			pod:   testPod("p", milliCPU(500)),
			want: "0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient cpu. preemption: 0/3 nodes are available: " +
				"1 Preemption is not helpful for scheduling, 2 No preemption victims found for incoming pod.",
			filters: []string{"NodeResourcesFit", "NodeUnschedulable"},
		},
		"preempting is not enough": {
			nodes: []*corev1.Node{testNode("a", cpu(2))},
			pods:  []*corev1.Pod{on("a", withPriority(9, testPod("x", cpu(1)))), on("a", testPod("y", cpu(1)))},
			pod:   withPriority(9, testPod("p", cpu(2))),
			want: "0/1 nodes are available: 1 Insufficient cpu. " +
				"preemption: 0/1 nodes are available: 1 Insufficient cpu.",
			filters: []string{"NodeResourcesFit"},
		},
		"preempting would help": {
			nodes:   []*corev1.Node{testNode("a", cpu(2))},
			pods:    []*corev1.Pod{on("a", testPod("x", cpu(2)))},
			pod:     withPriority(9, testPod("p", cpu(2))),
			want:    "0/1 nodes are available: 1 Insufficient cpu.",
			filters: []string{"NodeResourcesFit"},
		},
		"preempting is not wanted": {
			nodes:   []*corev1.Node{testNode("a", cpu(2))},
			pods:    []*corev1.Pod{on("a", testPod("x", cpu(2)))},
			pod:     withPriority(9, testPod("p", cpu(2))),
			change:  func(p *corev1.Pod) { p.Spec.PreemptionPolicy = &never },
			want:    "0/1 nodes are available: 1 Insufficient cpu. preemption: not eligible due to preemptionPolicy=Never.",
			filters: []string{"NodeResourcesFit"},
		},
		"host port": {
			nodes: []*corev1.Node{testNode("a", cpu(2))},
			pods:  []*corev1.Pod{on("a", hostPort(testPod("x")))},
			pod:   hostPort(testPod("p")),
			want: "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports. " +
				"preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.",
			filters: []string{"NodePorts"},
		},
		"node selector": {
			nodes:  []*corev1.Node{testNode("a", cpu(2))},
			pod:    testPod("p"),
			change: func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "ssd"} },
			want: "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector. " +
				"preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.",
			filters: []string{"NodeAffinity"},
		},
		"named node is full": {
			nodes:  []*corev1.Node{testNode("a", cpu(2)), testNode("b", cpu(8)), testNode("c", cpu(8))},
			pods:   []*corev1.Pod{on("a", testPod("x", cpu(2)))},
			pod:    testPod("p", cpu(1)),
			change: func(p *corev1.Pod) { p.Spec.Affinity = pinned("a") },
			want: "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [NodeAffinity]. " +
				"preemption: 0/3 nodes are available: 1 No preemption victims found for incoming pod, " +
				"2 Preemption is not helpful for scheduling.",
			filters: []string{"NodeAffinity", "NodeResourcesFit"},
		},
		"named node is unknown": {
			nodes:  []*corev1.Node{testNode("a", cpu(2))},
			pod:    testPod("p"),
			change: func(p *corev1.Pod) { p.Spec.NodeName = "gone" },
			want: "0/1 nodes are available: 1 node(s) didn't satisfy plugin(s) [NodeName]. " +
				"preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.",
			filters: []string{"NodeName"},
		},
		"two filters name different nodes": {
			nodes:  []*corev1.Node{testNode("a", cpu(2)), testNode("b", cpu(2))},
			pod:    testPod("p"),
			change: func(p *corev1.Pod) { p.Spec.NodeName, p.Spec.Affinity = "b", pinned("a") },
			want: "0/2 nodes are available: node(s) didn't satisfy plugin(s) [NodeAffinity NodeName] simultaneously. " +
				"preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.",
			filters: []string{"NodeAffinity", "NodeName"},
		},
		"a term names two nodes at once": {
			nodes:  []*corev1.Node{testNode("a", cpu(2)), testNode("b", cpu(2))},
			pod:    testPod("p"),
			change: func(p *corev1.Pod) { p.Spec.Affinity = pinned("a", "b") },
			want: "0/2 nodes are available: pod affinity terms conflict. " +
				"preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.",
			filters: []string{"NodeAffinity"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var cache Cache
			for _, node := range c.nodes {
				cache.SetNode(node)
			}
			for _, pod := range c.pods {
				cache.AddPod(pod)
			}
			if c.change != nil {
				c.change(c.pod)
			}
			_, err := Schedule(c.pod, cache.Snapshot(), DefaultProfile())
			var unfit *FitError
			if !errors.As(err, &unfit) {
				t.Fatalf("got %v, want a FitError", err)
			}
			if err.Error() != c.want {
				t.Errorf("got  %q\nwant %q", err, c.want)
			}
			if !slices.Equal(unfit.Filters, c.filters) {
				t.Errorf("got filters %v, want %v", unfit.Filters, c.filters)
			}
		})
	}
}

func TestScheduleWithoutPodIsAnError(t *testing.T) {
	if _, err := Schedule(nil, nil, DefaultProfile()); err == nil {
		t.Error("got no error")
	}
}

func TestManyExtendedResourcesAreAllReported(t *testing.T) {
	pod := testPod("p")
	for i := range 80 {
		pod.Spec.Containers[0].Resources.Requests[corev1.ResourceName("example.com/r"+string(rune('A'+i/26))+string(rune('a'+i%26)))] = cpu(1).q
	}
	var cache Cache
	cache.SetNode(testNode("a"))
	cache.SetNode(testNode("b"))
	_, err := Schedule(pod, cache.Snapshot(), DefaultProfile())
	var unfit *FitError
	if !errors.As(err, &unfit) || len(unfit.Rejected) != 80 {
		t.Fatalf("got %v, want 80 reasons", err)
	}
	for _, c := range unfit.Rejected {
		if c.Nodes != 2 {
			t.Errorf("%s: %d nodes, want 2", c.Reason, c.Nodes)
		}
	}
}
