package controller

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ready returns the status of the node's condition Ready.
func (c *cluster) ready(node string) corev1.ConditionStatus {
	c.tb.Helper()
	for _, condition := range get[corev1.Node](c, "nodes", "", node).Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status
		}
	}
	return ""
}

// taints returns the node's taints, sorted, as kubectl writes them.
func (c *cluster) taints(node string) []string {
	c.tb.Helper()
	var taints []string
	for _, taint := range get[corev1.Node](c, "nodes", "", node).Spec.Taints {
		taints = append(taints, taint.Key+":"+string(taint.Effect))
	}
	slices.Sort(taints)
	return taints
}

// reportReady writes the node's status, as its agent does.
func (c *cluster) reportReady(node string) {
	c.tb.Helper()
	update(c, "nodes", "status", "", node, func(n *corev1.Node) { n.Status.Conditions = readyNode(node, "1").Status.Conditions })
}

// beat renews the nodes' leases for a while.
func (c *cluster) beat(d time.Duration, nodes ...string) {
	c.tb.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); {
		for _, node := range nodes {
			c.renew(node)
		}
		pass(10 * time.Second)
	}
}

var unreachable = []string{"node.kubernetes.io/unreachable:NoExecute", "node.kubernetes.io/unreachable:NoSchedule"}

func TestNodeIsLostWhenItsHeartbeatStopsAndBackWhenItReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.create("nodes", readyNode("n1", "1"))
		c.create("nodes", readyNode("n2", "1"))
		c.start(NewNodeLifecycle(c.config()))
		c.beat(5*time.Minute, "n1", "n2")
		if got := c.ready("n1"); got != corev1.ConditionTrue || len(c.taints("n1")) != 0 {
			t.Fatalf("a node that is heard of is %s with taints %v", got, c.taints("n1"))
		}
		c.beat(30*time.Second, "n2")
		if got := c.ready("n1"); got != corev1.ConditionTrue {
			t.Errorf("node is %s before the grace period is over", got)
		}
		c.beat(20*time.Second, "n2")
		if got := c.ready("n1"); got != corev1.ConditionUnknown || !slices.Equal(c.taints("n1"), unreachable) {
			t.Errorf("lost node is %s with taints %v", got, c.taints("n1"))
		}
		if got := c.ready("n2"); got != corev1.ConditionTrue {
			t.Errorf("the other node is %s", got)
		}
		c.renew("n1")
		c.reportReady("n1")
		synctest.Wait()
		if got := c.ready("n1"); got != corev1.ConditionTrue || len(c.taints("n1")) != 0 {
			t.Errorf("node that is back is %s with taints %v, want none at once", got, c.taints("n1"))
		}
	})
}

func TestNodeStatusIsASignOfLifeToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.create("nodes", readyNode("n1", "1"))
		c.start(NewNodeLifecycle(c.config()))
		for range 20 {
			c.reportReady("n1")
			pass(30 * time.Second)
		}
		if got := c.ready("n1"); got != corev1.ConditionTrue {
			t.Errorf("node without Lease that reports its status is %s", got)
		}
	})
}

func TestServerThatWasAwayGivesNodesTheirGracePeriodAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.create("nodes", readyNode("n1", "1"))
		c.renew("n1")
		pass(time.Hour)
		c.start(NewNodeLifecycle(c.config()))
		pass(nodeMonitorGrace - time.Second)
		if got := c.ready("n1"); got != corev1.ConditionTrue {
			t.Errorf("node is %s before its agent had the time to renew its Lease", got)
		}
		pass(10 * time.Second)
		if got := c.ready("n1"); got != corev1.ConditionUnknown {
			t.Errorf("node is %s, want Unknown", got)
		}
	})
}

func TestCordonedNodeIsTainted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.create("nodes", readyNode("n1", "1"))
		c.start(NewNodeLifecycle(c.config()))
		synctest.Wait()
		c.node("n1", func(n *corev1.Node) { n.Spec.Unschedulable = true })
		synctest.Wait()
		if got := c.taints("n1"); !slices.Equal(got, []string{"node.kubernetes.io/unschedulable:NoSchedule"}) {
			t.Errorf("taints of a cordoned node: %v", got)
		}
		c.node("n1", func(n *corev1.Node) { n.Spec.Unschedulable = false })
		synctest.Wait()
		if got := c.taints("n1"); len(got) != 0 {
			t.Errorf("taints after uncordon: %v", got)
		}
	})
}

// boundPod is a pod on a node, with tolerations beside those that the API adds.
func (c *cluster) boundPod(name, node string, tolerations ...corev1.Toleration) {
	c.tb.Helper()
	pod := newPod(name, "10m")
	pod.Spec.NodeName, pod.Spec.Tolerations = node, tolerations
	c.create("pods", pod)
}

// evicted tells whether the pod is on its way out, or gone.
func (c *cluster) evicted(pod string) bool {
	c.tb.Helper()
	p := get[corev1.Pod](c, "pods", "default", pod)
	return p == nil || p.DeletionTimestamp != nil
}

func tolerate(key string, seconds ...int64) corev1.Toleration {
	t := corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}
	if len(seconds) > 0 {
		t.TolerationSeconds = &seconds[0]
	}
	return t
}

func TestPodsOfALostNodeAreEvictedAfterTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		for _, node := range []string{"n1", "n2", "n3"} {
			c.create("nodes", readyNode(node, "1"))
		}
		c.boundPod("usual", "n1")
		c.boundPod("hasty", "n1", tolerate(corev1.TaintNodeUnreachable, 60))
		c.boundPod("staying", "n1", tolerate(""))
		c.boundPod("done", "n1", tolerate(corev1.TaintNodeUnreachable, 60))
		c.end("done")
		c.boundPod("elsewhere", "n2")
		c.start(NewNodeLifecycle(c.config()), NewEviction(c.config()))
		c.beat(nodeMonitorGrace+2*nodeMonitorPeriod, "n2", "n3") // n1 is lost from now on, or a little before
		want := func(gone ...string) {
			t.Helper()
			for _, pod := range []string{"usual", "hasty", "staying", "done", "elsewhere"} {
				if got := c.evicted(pod); got != slices.Contains(gone, pod) {
					t.Errorf("pod %s evicted: %t", pod, got)
				}
			}
		}
		c.beat(40*time.Second, "n2", "n3")
		want()
		c.beat(20*time.Second, "n2", "n3")
		want("hasty")
		c.beat(220*time.Second, "n2", "n3")
		want("hasty")
		c.beat(30*time.Second, "n2", "n3")
		want("hasty", "usual")
		if events := c.eventsOf("usual", "TaintManagerEviction"); len(events) != 1 || events[0].Message != "Marking for deletion Pod default/usual" {
			t.Errorf("Events: %+v", events)
		}
		c.beat(time.Hour, "n2", "n3")
		want("hasty", "usual")
	})
}

func TestNodeThatComesBackInTimeKeepsItsPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.create("nodes", readyNode("n1", "1"))
		c.create("nodes", readyNode("n2", "1"))
		c.boundPod("p", "n1")
		c.start(NewNodeLifecycle(c.config()), NewEviction(c.config()))
		for range 3 {
			c.beat(5*time.Minute, "n2")
			c.reportReady("n1")
			c.beat(time.Minute, "n1", "n2")
		}
		if c.evicted("p") {
			t.Error("pod was evicted although its node was never lost for as long as it tolerates")
		}
	})
}

// When most nodes are lost at once, it is the server that is cut off: nothing is evicted, and the time counts anew after it.
func TestNothingIsEvictedWhenMostNodesAreLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		var back []string
		for i := range 5 {
			node := fmt.Sprintf("n%d", i)
			c.create("nodes", readyNode(node, "1"))
			c.boundPod("on-"+node, node)
			if i > 0 {
				back = append(back, node)
			}
		}
		c.start(NewNodeLifecycle(c.config()), NewEviction(c.config()))
		pass(time.Hour)
		for _, node := range back {
			c.reportReady(node)
		}
		c.beat(lostNodeTolerance-20*time.Second, back...)
		for i := range 5 {
			if c.evicted(fmt.Sprintf("on-n%d", i)) {
				t.Errorf("pod on n%d was evicted", i)
			}
		}
		c.beat(time.Minute, back...)
		if !c.evicted("on-n0") {
			t.Error("pod of the node that stays lost was not evicted in the end")
		}
		if c.evicted("on-n1") {
			t.Error("pod of a node that is back was evicted")
		}
	})
}

// lostNodeTolerance is what the API gives pods that say nothing.
const lostNodeTolerance = 300 * time.Second

func TestTaintsOfUsersEvictToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.create("nodes", readyNode("n1", "1"))
		c.boundPod("plain", "n1")
		c.boundPod("minute", "n1", tolerate("dedicated", 60))
		c.boundPod("welcome", "n1", tolerate("dedicated"))
		c.start(NewEviction(c.config()))
		pass(time.Hour)
		c.node("n1", func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "dedicated", Value: "x", Effect: corev1.TaintEffectNoExecute}}
		})
		synctest.Wait()
		if !c.evicted("plain") || c.evicted("minute") || c.evicted("welcome") {
			t.Errorf("evicted at once: plain %t, minute %t, welcome %t", c.evicted("plain"), c.evicted("minute"), c.evicted("welcome"))
		}
		pass(59 * time.Second)
		c.node("n1", func(n *corev1.Node) { n.Labels["other"] = "change" })
		synctest.Wait()
		if c.evicted("minute") {
			t.Error("evicted after 59 of 60 seconds")
		}
		pass(time.Second)
		if !c.evicted("minute") || c.evicted("welcome") {
			t.Errorf("evicted after 60 s: minute %t, welcome %t", c.evicted("minute"), c.evicted("welcome"))
		}
		c.boundPod("late", "n1", tolerate("dedicated", 60))
		pass(59 * time.Second)
		if c.evicted("late") {
			t.Error("the time of a pod that came later does not count from when it was bound")
		}
		pass(time.Second)
		if !c.evicted("late") {
			t.Error("a pod that came later stays")
		}
	})
}

func TestEvictionPlanOfTolerations(t *testing.T) {
	now := time.Unix(10_000, 0)
	at := metav1.NewTime(now.Add(-time.Minute))
	taint := func(key string) corev1.Taint {
		return corev1.Taint{Key: key, Effect: corev1.TaintEffectNoExecute, TimeAdded: &at}
	}
	cases := map[string]struct {
		tolerations []corev1.Toleration
		taints      []corev1.Taint
		evict       bool
		next        time.Duration
	}{
		"no toleration":          {nil, []corev1.Taint{taint("a")}, true, 0},
		"for ever":               {[]corev1.Toleration{tolerate("a")}, []corev1.Taint{taint("a")}, false, 0},
		"time left":              {[]corev1.Toleration{tolerate("a", 90)}, []corev1.Taint{taint("a")}, false, 30 * time.Second},
		"time is up":             {[]corev1.Toleration{tolerate("a", 60)}, []corev1.Taint{taint("a")}, true, 0},
		"negative":               {[]corev1.Toleration{tolerate("a", -5)}, []corev1.Taint{taint("a")}, true, 0},
		"huge":                   {[]corev1.Toleration{tolerate("a", 1<<62)}, []corev1.Taint{taint("a")}, false, tolerationMost*time.Second - time.Minute},
		"the shorter":            {[]corev1.Toleration{tolerate("a", 90), tolerate("b", 70)}, []corev1.Taint{taint("a"), taint("b")}, false, 10 * time.Second},
		"one of two":             {[]corev1.Toleration{tolerate("a")}, []corev1.Taint{taint("a"), taint("b")}, true, 0},
		"the first that matches": {[]corev1.Toleration{tolerate("a", 90), tolerate("")}, []corev1.Taint{taint("a")}, false, 30 * time.Second},
		"other effect":           {[]corev1.Toleration{{Key: "a", Operator: "Exists", Effect: "NoSchedule"}}, []corev1.Taint{taint("a")}, true, 0},
		"other value":            {[]corev1.Toleration{{Key: "a", Value: "x"}}, []corev1.Taint{taint("a")}, true, 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			v := NewEviction(Config{}).view
			pod := waiting("p", 0)
			pod.Spec.NodeName, pod.Spec.Tolerations = "n", c.tolerations
			v.pods["n"] = map[types.UID]*corev1.Pod{"p": pod}
			v.takeNode(nil, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: corev1.NodeSpec{Taints: c.taints}}, now)
			evict, next := planEviction(&v, now)
			if (len(evict) == 1) != c.evict {
				t.Errorf("evicts %d pods", len(evict))
			}
			if c.next == 0 && !next.IsZero() || c.next != 0 && next.Sub(now) != c.next {
				t.Errorf("looks again in %v, want %v", next.Sub(now), c.next)
			}
		})
	}
}
