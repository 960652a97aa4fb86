package controller

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func nodeWith(conditions ...corev1.NodeCondition) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: corev1.NodeStatus{Conditions: conditions}}
}

func condition(kind corev1.NodeConditionType, status corev1.ConditionStatus) corev1.NodeCondition {
	return corev1.NodeCondition{Type: kind, Status: status}
}

func TestTaintsFollowConditions(t *testing.T) {
	cases := map[string]struct {
		node *corev1.Node
		want []string
	}{
		"ready":         {nodeWith(condition(corev1.NodeReady, corev1.ConditionTrue)), nil},
		"not ready":     {nodeWith(condition(corev1.NodeReady, corev1.ConditionFalse)), []string{"node.kubernetes.io/not-ready:NoExecute", "node.kubernetes.io/not-ready:NoSchedule"}},
		"unknown":       {nodeWith(condition(corev1.NodeReady, corev1.ConditionUnknown)), []string{"node.kubernetes.io/unreachable:NoExecute", "node.kubernetes.io/unreachable:NoSchedule"}},
		"never told":    {nodeWith(), []string{"node.kubernetes.io/unreachable:NoExecute", "node.kubernetes.io/unreachable:NoSchedule"}},
		"disk pressure": {nodeWith(condition(corev1.NodeReady, corev1.ConditionTrue), condition(corev1.NodeDiskPressure, corev1.ConditionTrue)), []string{"node.kubernetes.io/disk-pressure:NoSchedule"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			now := time.Unix(1000, 0)
			planTaints(c.node, now)
			var got []string
			for _, taint := range c.node.Spec.Taints {
				got = append(got, fmt.Sprintf("%s:%s", taint.Key, taint.Effect))
			}
			slices.Sort(got)
			if !slices.Equal(got, c.want) {
				t.Errorf("taints %v, want %v", got, c.want)
			}
			if planTaints(c.node, now) {
				t.Error("a second plan changed the taints again")
			}
		})
	}
}

func TestCordonTaintsTheNodeAndKeepsTheUsersTaints(t *testing.T) {
	node := nodeWith(condition(corev1.NodeReady, corev1.ConditionTrue))
	node.Spec.Unschedulable = true
	node.Spec.Taints = []corev1.Taint{{Key: "mine", Effect: corev1.TaintEffectNoSchedule}}
	if !planTaints(node, time.Unix(1000, 0)) || len(node.Spec.Taints) != 2 {
		t.Fatalf("taints after cordon: %v", node.Spec.Taints)
	}
	node.Spec.Unschedulable = false
	if !planTaints(node, time.Unix(1000, 0)) || len(node.Spec.Taints) != 1 || node.Spec.Taints[0].Key != "mine" {
		t.Fatalf("taints after uncordon: %v", node.Spec.Taints)
	}
}

func TestLostNodeIsUnknownOnce(t *testing.T) {
	now := time.Unix(1000, 0)
	node := nodeWith(condition(corev1.NodeReady, corev1.ConditionTrue), condition("edgepod.dev/Hardening", corev1.ConditionFalse))
	if !planLost(node, now) {
		t.Fatal("nothing changed")
	}
	if got := node.Status.Conditions[0]; got.Status != corev1.ConditionUnknown || got.Reason != "NodeStatusUnknown" || !got.LastTransitionTime.Time.Equal(now) {
		t.Errorf("condition Ready is %+v", got)
	}
	if got := node.Status.Conditions[1].Status; got != corev1.ConditionFalse {
		t.Errorf("a condition that is not of the heart-beat turned %s", got)
	}
	if planLost(node, now.Add(time.Minute)) {
		t.Error("the second plan changed it again")
	}
}

func TestCollectionTakesOrphansAfterQuarantineAndTheOldestEnded(t *testing.T) {
	now := time.Unix(10_000, 0)
	pod := func(name, node string, phase corev1.PodPhase, age int64) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.Unix(now.Unix()-age, 0)},
			Spec:       corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{Phase: phase},
		}
	}
	pods := []*corev1.Pod{
		pod("orphan", "gone", corev1.PodRunning, 5),
		pod("fresh-orphan", "just-gone", corev1.PodRunning, 5),
		pod("oldest", "here", corev1.PodSucceeded, 300),
		pod("older", "here", corev1.PodFailed, 200),
		pod("old", "here", corev1.PodSucceeded, 100),
		pod("running", "here", corev1.PodRunning, 900),
		pod("unbound", "", corev1.PodPending, 900),
	}
	missing := map[string]time.Time{"gone": now.Add(-orphanQuarantine), "just-gone": now}
	var got []string
	for _, p := range planCollection(pods, missing, now, 1) {
		got = append(got, p.Name)
	}
	if want := []string{"orphan", "oldest", "older"}; !slices.Equal(got, want) {
		t.Errorf("collected %v, want %v", got, want)
	}
	since := stillMissing(missing, pods, map[string]bool{"here": true}, now.Add(time.Second))
	if !since["gone"].Equal(missing["gone"]) || len(since) != 2 {
		t.Errorf("missing nodes: %v", since)
	}
}
