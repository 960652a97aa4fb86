package sched

import (
	"fmt"
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// maker makes nodes and pods by chance, from few values, so that they often meet.
type maker struct {
	*rand.Rand
	pods  int
	names int // how many names nodes have
}

func newMaker(seed uint64) *maker {
	return &maker{Rand: rand.New(rand.NewPCG(seed, 1)), names: 8}
}

// one tells yes once in n times.
func (m *maker) one(n int) bool { return m.IntN(n) == 0 }

func pick[T any](m *maker, values ...T) T { return values[m.IntN(len(values))] }

func (m *maker) node(name string) *corev1.Node {
	node := testNode(name, milliCPU(500*int64(1+m.IntN(8))), memory(int64(1+m.IntN(8))<<29), maxPods(int64(3+m.IntN(6))))
	node.Labels = map[string]string{"zone": pick(m, "a", "b", "c"), "size": pick(m, "1", "5", "10", "many")}
	if m.one(3) {
		node.Labels["disk"] = "ssd"
	}
	if m.one(3) {
		node.Status.Allocatable["example.com/npu"] = scalar("", int64(m.IntN(4))).q
	}
	for range m.IntN(3) {
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{
			Key: pick(m, "dedicated", "spot"), Value: pick(m, "", "db"),
			Effect: pick(m, corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute),
		})
	}
	node.Spec.Unschedulable = m.one(8)
	for i := range 3 {
		if m.one(2) {
			node.Status.Images = append(node.Status.Images, corev1.ContainerImage{
				Names: []string{fmt.Sprintf("app%d:latest", i), fmt.Sprintf("app%d:v%d", i, i)}, SizeBytes: int64(1+m.IntN(9)) << 27,
			})
		}
	}
	return node
}

func (m *maker) pod() *corev1.Pod {
	m.pods++
	priority := int32(m.IntN(3))
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: pick(m, "default", "web"), Name: fmt.Sprintf("pod-%d", m.pods), UID: types.UID(fmt.Sprintf("uid-%d", m.pods)),
	}}
	pod.Spec.Priority = &priority
	for range 1 + m.IntN(2) {
		pod.Spec.Containers = append(pod.Spec.Containers, m.container())
	}
	for range m.IntN(3) {
		c := m.container()
		if m.one(2) {
			always := corev1.ContainerRestartPolicyAlways
			c.RestartPolicy = &always
		}
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
	}
	for range m.IntN(3) {
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{
			Key: pick(m, "dedicated", "spot", "node.kubernetes.io/unschedulable", ""), Value: pick(m, "", "db"),
			Operator: pick(m, corev1.TolerationOpExists, corev1.TolerationOpEqual, ""),
			Effect:   pick(m, "", corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule),
		})
	}
	if m.one(4) {
		pod.Spec.NodeSelector = map[string]string{"zone": pick(m, "a", "b")}
	}
	m.addAffinity(pod)
	return pod
}

func (m *maker) container() corev1.Container {
	c := corev1.Container{Name: "c", Image: pick(m, "app0", "app1:v1", "app2", "other")}
	c.Resources.Requests = corev1.ResourceList{}
	if !m.one(4) {
		c.Resources.Requests[corev1.ResourceCPU] = milliCPU(100 * int64(m.IntN(8))).q
	}
	if !m.one(4) {
		c.Resources.Requests[corev1.ResourceMemory] = memory(int64(m.IntN(8)) << 27).q
	}
	if m.one(8) {
		c.Resources.Requests["example.com/npu"] = scalar("", int64(m.IntN(3))).q
	}
	if m.one(6) {
		c.Ports = []corev1.ContainerPort{{
			ContainerPort: 80, HostPort: int32(8000 + m.IntN(3)),
			HostIP: pick(m, "", "0.0.0.0", "10.0.0.1"), Protocol: pick(m, corev1.ProtocolTCP, corev1.ProtocolUDP, ""),
		}}
	}
	return c
}

func (m *maker) addAffinity(pod *corev1.Pod) {
	a := &corev1.NodeAffinity{}
	if m.one(4) {
		a.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{}
		for range m.IntN(3) {
			required := a.RequiredDuringSchedulingIgnoredDuringExecution
			required.NodeSelectorTerms = append(required.NodeSelectorTerms, m.term())
		}
	}
	for range m.IntN(3) {
		a.PreferredDuringSchedulingIgnoredDuringExecution = append(a.PreferredDuringSchedulingIgnoredDuringExecution,
			corev1.PreferredSchedulingTerm{Weight: int32(1 + m.IntN(100)), Preference: m.term()})
	}
	pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: a}
}

func (m *maker) term() corev1.NodeSelectorTerm {
	var t corev1.NodeSelectorTerm
	for range m.IntN(3) {
		t.MatchExpressions = append(t.MatchExpressions, pick(m,
			corev1.NodeSelectorRequirement{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{"a", "c"}},
			corev1.NodeSelectorRequirement{Key: "disk", Operator: corev1.NodeSelectorOpNotIn, Values: []string{"ssd"}},
			corev1.NodeSelectorRequirement{Key: "disk", Operator: corev1.NodeSelectorOpExists},
			corev1.NodeSelectorRequirement{Key: "disk", Operator: corev1.NodeSelectorOpDoesNotExist},
			corev1.NodeSelectorRequirement{Key: "size", Operator: corev1.NodeSelectorOpGt, Values: []string{"3"}},
			corev1.NodeSelectorRequirement{Key: "size", Operator: corev1.NodeSelectorOpLt, Values: []string{"7"}},
			corev1.NodeSelectorRequirement{Key: "size", Operator: "About", Values: []string{"7"}},
		))
	}
	if m.one(4) {
		t.MatchFields = []corev1.NodeSelectorRequirement{{
			Key: "metadata.name", Values: []string{fmt.Sprintf("node-%d", m.IntN(m.names))},
			Operator: pick(m, corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn),
		}}
	}
	return t
}
