package sched

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// picture is a snapshot in plain values, without what order alone decides.
func picture(s *Snapshot) map[string]any {
	nodes := map[string]any{}
	for n := range s.Nodes() {
		names := func(pods []*PodInfo) (keys []string) {
			for _, p := range pods {
				keys = append(keys, podName(p.Pod))
			}
			slices.Sort(keys)
			return keys
		}
		var ports []string
		for _, p := range n.Ports {
			ports = append(ports, fmt.Sprint(p))
		}
		slices.Sort(ports)
		used := n.Requested
		used.Scalars = slices.DeleteFunc(slices.Clone(used.Scalars), func(s Scalar) bool { return s.Value == 0 })
		nodes[n.Name] = fmt.Sprintln(names(n.Pods), names(n.Nominated), ports, used, n.Allocatable, n.MaxPods, n.NonZero.MilliCPU,
			n.NonZero.Memory, n.balance, n.cordoned, n.taints, slices.Sorted(maps.Keys(n.images)), n.lowest, n.tie, s.Node(n.Name) == n)
	}
	holders := map[string]int{}
	for name, state := range s.image {
		holders[name] = state.nodes
	}
	return map[string]any{"nodes": nodes, "images": holders, "len": s.Len(), "index": len(s.index)}
}

// TestCacheIsAsIfBuiltAnew goes through random changes in random order. The cache must always equal one that is filled
// from what is there at the moment, and no snapshot may change after it was taken.
func TestCacheIsAsIfBuiltAnew(t *testing.T) {
	for seed := range uint64(30) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			m := newMaker(seed)
			m.names = []int{4, 20, 2*pageSize + 10}[seed%3]
			var cache Cache
			nodes, pods := map[string]*corev1.Node{}, map[string]*corev1.Pod{}
			type taken struct {
				snapshot *Snapshot
				picture  map[string]any
			}
			var kept []taken
			for range 300 {
				m.change(&cache, nodes, pods)
				if !m.one(3) {
					continue
				}
				got := picture(cache.Snapshot())
				kept = append(kept, taken{cache.Snapshot(), got})
				var anew Cache
				for _, node := range nodes {
					anew.SetNode(node)
				}
				for _, pod := range pods {
					anew.AddPod(pod)
				}
				if diff := cmp.Diff(picture(anew.Snapshot()), got); diff != "" {
					t.Fatalf("cache (-anew +changed):\n%s", diff)
				}
			}
			for i, k := range kept {
				if diff := cmp.Diff(k.picture, picture(k.snapshot)); diff != "" {
					t.Fatalf("snapshot %d of %d changed (-then +now):\n%s", i, len(kept), diff)
				}
			}
		})
	}
}

// change does one thing to the cache and to the lists of what is there.
func (m *maker) change(cache *Cache, nodes map[string]*corev1.Node, pods map[string]*corev1.Pod) {
	name := fmt.Sprintf("node-%d", m.IntN(m.names))
	keys := slices.Sorted(maps.Keys(pods))
	switch action := m.IntN(9); {
	case action < 3:
		nodes[name] = m.node(name)
		cache.SetNode(nodes[name])
	case action == 3:
		delete(nodes, name)
		cache.RemoveNode(name)
	case action < 6 || len(keys) == 0:
		pod := m.pod()
		switch m.IntN(4) {
		case 0:
			pod.Status.NominatedNodeName = name
		case 1:
			cache.Assume(pod, name)
			pod = on(name, pod.DeepCopy())
		default:
			on(name, pod)
		}
		pods[podName(pod)] = pod
		cache.AddPod(pod)
		cache.AddPod(pod)
	case action == 6:
		pod := pods[keys[m.IntN(len(keys))]]
		delete(pods, podName(pod))
		if m.one(2) {
			pod = pod.DeepCopy()
			pod.Status.Phase = pick(m, corev1.PodSucceeded, corev1.PodFailed)
			cache.AddPod(pod)
			return
		}
		cache.RemovePod(pod)
	case action == 7:
		pod := on(name, pods[keys[m.IntN(len(keys))]].DeepCopy())
		pods[podName(pod)] = pod
		cache.AddPod(pod)
	default:
		stray := m.pod()
		cache.Assume(stray, name)
		cache.Snapshot()
		cache.AddPod(stray)
		cache.Forget(stray)
	}
}

func TestAssumedPodsCount(t *testing.T) {
	var cache Cache
	cache.SetNode(testNode("a", cpu(1)))
	pod := testPod("p", milliCPU(600))
	used := func() int64 { return cache.Snapshot().Node("a").Requested.MilliCPU }

	cache.Assume(pod, "a")
	if used() != 600 {
		t.Errorf("after Assume: %d in use, want 600", used())
	}
	cache.AddPod(pod)
	if used() != 600 {
		t.Errorf("after the pod is seen unbound once more: %d in use, want 600", used())
	}
	cache.Forget(pod)
	if used() != 0 {
		t.Errorf("after Forget: %d in use, want 0", used())
	}
	cache.Assume(pod, "a")
	bound := on("a", pod.DeepCopy())
	cache.AddPod(bound)
	cache.Forget(pod)
	cache.Assume(pod, "elsewhere")
	if used() != 600 {
		t.Errorf("after the pod is seen bound: %d in use, want 600", used())
	}
	cache.RemovePod(bound)
	if used() != 0 {
		t.Errorf("after RemovePod: %d in use, want 0", used())
	}
}

func TestSnapshotWithoutChangeIsTheSame(t *testing.T) {
	var cache Cache
	cache.SetNode(testNode("a"))
	first := cache.Snapshot()
	cache.RemoveNode("b")
	cache.RemovePod(testPod("p"))
	if cache.Snapshot() != first {
		t.Error("nothing changed, but the snapshot did")
	}
	cache.AddPod(on("a", testPod("p")))
	if cache.Snapshot() == first {
		t.Error("a pod came, but the snapshot is the same")
	}
}

func TestPodsOfALostNodeCountWhenItComesBack(t *testing.T) {
	var cache Cache
	cache.AddPod(on("a", testPod("early", milliCPU(100))))
	cache.SetNode(testNode("a", cpu(1)))
	cache.AddPod(on("a", testPod("later", milliCPU(200))))
	cache.RemoveNode("a")
	if cache.Snapshot().Node("a") != nil || cache.Snapshot().Len() != 0 {
		t.Error("the node is still there")
	}
	cache.RemovePod(testPod("early"))
	cache.SetNode(testNode("a", cpu(1)))
	if n := cache.Snapshot().Node("a"); n.Requested.MilliCPU != 200 || len(n.Pods) != 1 {
		t.Errorf("got %d in use by %d pods, want 200 by 1", n.Requested.MilliCPU, len(n.Pods))
	}
}
