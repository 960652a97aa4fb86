package sched

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// oracle answers straight from the objects, node by node and rule by rule, with no regard to time. It shares nothing
// with the package but the rules.
type oracle struct {
	nodes []*corev1.Node
	pods  []*corev1.Pod // bound
}

// rejection is the first filter's that rejects the node: its name and reasons; "" if it fits.
func (o oracle) rejection(pod *corev1.Pod, node *corev1.Node) string {
	switch {
	case node.Spec.Unschedulable && !oracleTolerates(pod, corev1.Taint{Key: "node.kubernetes.io/unschedulable", Effect: corev1.TaintEffectNoSchedule}):
		return "NodeUnschedulable: node(s) were unschedulable"
	case slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool {
		return t.Effect != corev1.TaintEffectPreferNoSchedule && !oracleTolerates(pod, t)
	}):
		return "TaintToleration: node(s) had untolerated taint(s)"
	case !oracleMatches(pod, node):
		return "NodeAffinity: node(s) didn't match Pod's node affinity/selector"
	case o.portTaken(pod, node):
		return "NodePorts: node(s) didn't have free ports for the requested pod ports"
	}
	if lacks := o.lacks(pod, node); len(lacks) > 0 {
		return "NodeResourcesFit: " + strings.Join(lacks, ", ")
	}
	return ""
}

func oracleTolerates(pod *corev1.Pod, taint corev1.Taint) bool {
	return slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool {
		return (t.Effect == "" || t.Effect == taint.Effect) && (t.Key == "" || t.Key == taint.Key) &&
			(t.Operator == corev1.TolerationOpExists || t.Value == taint.Value)
	})
}

func oracleMatches(pod *corev1.Pod, node *corev1.Node) bool {
	for key, value := range pod.Spec.NodeSelector {
		if node.Labels[key] != value {
			return false
		}
	}
	required := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	return required == nil || slices.ContainsFunc(required.NodeSelectorTerms, func(t corev1.NodeSelectorTerm) bool {
		return oracleTerm(t, node)
	})
}

func oracleTerm(term corev1.NodeSelectorTerm, node *corev1.Node) bool {
	for _, e := range term.MatchExpressions {
		value, has := node.Labels[e.Key]
		number, bad := strconv.Atoi(value)
		limit := 0
		if len(e.Values) > 0 {
			limit, _ = strconv.Atoi(e.Values[0])
		}
		ok := map[corev1.NodeSelectorOperator]bool{
			corev1.NodeSelectorOpIn:           has && slices.Contains(e.Values, value),
			corev1.NodeSelectorOpNotIn:        !has || !slices.Contains(e.Values, value),
			corev1.NodeSelectorOpExists:       has,
			corev1.NodeSelectorOpDoesNotExist: !has,
			corev1.NodeSelectorOpGt:           has && bad == nil && number > limit,
			corev1.NodeSelectorOpLt:           has && bad == nil && number < limit,
		}
		if !ok[e.Operator] {
			return false
		}
	}
	for _, f := range term.MatchFields {
		if (f.Operator == corev1.NodeSelectorOpIn) != (f.Values[0] == node.Name) {
			return false
		}
	}
	return len(term.MatchExpressions)+len(term.MatchFields) > 0
}

func (o oracle) on(node *corev1.Node) []*corev1.Pod {
	return slices.DeleteFunc(slices.Clone(o.pods), func(p *corev1.Pod) bool { return p.Spec.NodeName != node.Name })
}

func oraclePorts(pod *corev1.Pod) (ports []corev1.ContainerPort) {
	for _, c := range pod.Spec.Containers {
		ports = append(ports, c.Ports...)
	}
	for _, c := range pod.Spec.InitContainers {
		if c.RestartPolicy != nil {
			ports = append(ports, c.Ports...)
		}
	}
	return ports
}

func (o oracle) portTaken(pod *corev1.Pod, node *corev1.Node) bool {
	wild := func(ip string) bool { return ip == "" || ip == "0.0.0.0" }
	udp := func(p corev1.ContainerPort) bool { return p.Protocol == corev1.ProtocolUDP }
	for _, other := range o.on(node) {
		for _, a := range oraclePorts(other) {
			for _, b := range oraclePorts(pod) {
				if a.HostPort == b.HostPort && udp(a) == udp(b) && (wild(a.HostIP) || wild(b.HostIP) || a.HostIP == b.HostIP) {
					return true
				}
			}
		}
	}
	return false
}

// oracleRequest is max(containers + sidecars, every init step) of one resource; missing is what an unnamed request is.
func oracleRequest(pod *corev1.Pod, name corev1.ResourceName, missing int64) int64 {
	of := func(c corev1.Container) int64 {
		q, ok := c.Resources.Requests[name]
		switch {
		case !ok:
			return missing
		case name == corev1.ResourceCPU:
			return q.MilliValue()
		}
		return q.Value()
	}
	var sum, sidecars, most int64
	for _, c := range pod.Spec.Containers {
		sum += of(c)
	}
	for _, c := range pod.Spec.InitContainers {
		if c.RestartPolicy != nil {
			sidecars += of(c)
			most = max(most, sidecars)
			continue
		}
		most = max(most, sidecars+of(c))
	}
	return max(sum+sidecars, most)
}

func (o oracle) used(node *corev1.Node, name corev1.ResourceName, missing int64) (sum int64) {
	for _, p := range o.on(node) {
		sum += oracleRequest(p, name, missing)
	}
	return sum
}

func oracleAllocatable(node *corev1.Node, name corev1.ResourceName) int64 {
	q := node.Status.Allocatable[name]
	if name == corev1.ResourceCPU {
		return q.MilliValue()
	}
	return q.Value()
}

func (o oracle) lacks(pod *corev1.Pod, node *corev1.Node) (reasons []string) {
	if len(o.on(node))+1 > int(oracleAllocatable(node, corev1.ResourcePods)) {
		reasons = append(reasons, "Too many pods")
	}
	for _, name := range []corev1.ResourceName{"cpu", "memory", "example.com/npu"} {
		request := oracleRequest(pod, name, 0)
		if request > 0 && o.used(node, name, 0)+request > oracleAllocatable(node, name) {
			reasons = append(reasons, fmt.Sprintf("Insufficient %s", name))
		}
	}
	return reasons
}

// totals are the points of the nodes that fit.
func (o oracle) totals(pod *corev1.Pod) map[string]int64 {
	totals, avoided, preferred := map[string]int64{}, map[string]int64{}, map[string]int64{}
	var mostAvoided, mostPreferred int64
	for _, node := range o.nodes {
		if o.rejection(pod, node) != "" {
			continue
		}
		name := node.Name
		for _, t := range node.Spec.Taints {
			if t.Effect == corev1.TaintEffectPreferNoSchedule && !oracleTolerates(pod, t) {
				avoided[name]++
			}
		}
		for _, p := range pod.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
			if oracleTerm(p.Preference, node) {
				preferred[name] += int64(p.Weight)
			}
		}
		mostAvoided, mostPreferred = max(mostAvoided, avoided[name]), max(mostPreferred, preferred[name])
		totals[name] = o.least(pod, node) + o.even(pod, node) + o.images(pod, node)
	}
	for name := range totals {
		totals[name] += 3 * 100
		if mostAvoided > 0 {
			totals[name] -= 3 * (100 * avoided[name] / mostAvoided)
		}
		if mostPreferred > 0 {
			totals[name] += 2 * (100 * preferred[name] / mostPreferred)
		}
	}
	return totals
}

func (o oracle) least(pod *corev1.Pod, node *corev1.Node) (sum int64) {
	for name, missing := range map[corev1.ResourceName]int64{"cpu": 100, "memory": 200 << 20} {
		all := oracleAllocatable(node, name)
		sum += max(0, all-o.used(node, name, missing)-oracleRequest(pod, name, missing)) * 100 / all
	}
	return sum / 2
}

func (o oracle) even(pod *corev1.Pod, node *corev1.Node) int64 {
	if oracleRequest(pod, "cpu", 0) == 0 && oracleRequest(pod, "memory", 0) == 0 {
		return 0
	}
	evenness := func(with int64) int64 {
		share := func(name corev1.ResourceName) float64 {
			return min(1, float64(o.used(node, name, 0)+with*oracleRequest(pod, name, 0))/float64(oracleAllocatable(node, name)))
		}
		return int64(100 * (1 - math.Abs(share("cpu")-share("memory"))/2))
	}
	return 50 + (50+evenness(1)-evenness(0))/2
}

func (o oracle) images(pod *corev1.Pod, node *corev1.Node) int64 {
	has := func(node *corev1.Node, name string) int64 {
		for _, image := range node.Status.Images {
			if slices.Contains(image.Names, name) {
				return image.SizeBytes
			}
		}
		return 0
	}
	var sum, count int64
	for _, c := range slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers) {
		count++
		name := c.Image
		if !strings.Contains(name, ":") {
			name += ":latest"
		}
		var size, nodes int64
		for _, other := range o.nodes {
			if s := has(other, name); s > 0 {
				nodes++
				if size == 0 {
					size = s
				}
			}
		}
		if has(node, name) > 0 {
			sum += int64(float64(size) * (float64(nodes) / float64(len(o.nodes))))
		}
	}
	const mib = 1 << 20
	sum = min(max(sum, 23*mib), 1000*mib*count)
	return 100 * (sum - 23*mib) / (1000*mib*count - 23*mib)
}
