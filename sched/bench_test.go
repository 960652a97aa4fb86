package sched

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// benchCluster has n nodes of three sizes in eight zones, some tainted, each with ten pods.
func benchCluster(n int) *Cache {
	cache := &Cache{}
	for i := range n {
		node := testNode(fmt.Sprintf("node-%05d", i), cpu(16+8*int64(i%3)), memory(64<<30))
		node.Labels = map[string]string{"zone": fmt.Sprint(i % 8), corev1.LabelHostname: node.Name}
		if i%10 == 0 {
			node.Spec.Taints = []corev1.Taint{{Key: "dedicated", Value: "db", Effect: corev1.TaintEffectNoSchedule}}
		}
		if i%7 == 0 {
			node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: "spot", Effect: corev1.TaintEffectPreferNoSchedule})
		}
		cache.SetNode(node)
		for j := range 10 {
			pod := testPod(fmt.Sprintf("pod-%d-%d", i, j), milliCPU(100*int64(1+i%5)), memory(1<<30))
			pod.Spec.NodeName = node.Name
			cache.AddPod(pod)
		}
	}
	return cache
}

func BenchmarkSchedule(b *testing.B) {
	affine := testPod("affine", milliCPU(250), memory(1<<29))
	affine.Spec.NodeSelector = map[string]string{"zone": "3"}
	affine.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
			Weight: 10,
			Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{
				Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{"node-00003"},
			}}},
		}},
	}}
	pods := map[string]*corev1.Pod{
		"basic":    testPod("basic", milliCPU(250), memory(1<<29)),
		"affinity": affine,
		"unfit":    testPod("unfit", cpu(1000), memory(1<<29)),
	}
	for _, n := range []int{1, 100, 5000} {
		cache := benchCluster(n)
		for name, pod := range pods {
			b.Run(fmt.Sprintf("%s/nodes=%d", name, n), func(b *testing.B) {
				var s Scheduler
				snapshot, profile := cache.Snapshot(), DefaultProfile()
				b.ReportAllocs()
				for b.Loop() {
					if d, err := s.Schedule(pod, snapshot, profile); d.Node == "" && err == nil {
						b.Fatal("neither a node nor a reason")
					}
				}
			})
		}
	}
}

// BenchmarkLoop is what a scheduler's loop does for each pod: decide, assume, take the next snapshot.
func BenchmarkLoop(b *testing.B) {
	for _, n := range []int{100, 5000} {
		b.Run(fmt.Sprintf("nodes=%d", n), func(b *testing.B) {
			cache := benchCluster(n)
			var s Scheduler
			profile := DefaultProfile()
			pods := make([]*corev1.Pod, 1000)
			for i := range pods {
				pods[i] = testPod(fmt.Sprintf("new-%d", i), milliCPU(1), memory(1<<20))
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				pod := pods[i%len(pods)]
				cache.RemovePod(pod)
				d, err := s.Schedule(pod, cache.Snapshot(), profile)
				if err != nil {
					b.Fatal(err)
				}
				cache.Assume(pod, d.Node)
			}
		})
	}
}
