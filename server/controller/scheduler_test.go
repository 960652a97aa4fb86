package controller

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"edgepod/sched"
	"edgepod/server/registry"
)

// settle waits until nothing happens any more, back-offs included, but not until the scheduler looks at old pods by itself.
func settle() {
	synctest.Wait()
	pass(scheduleBackoffMost + scheduleWindow)
}

// checkBindings checks that no node holds more than it can, and returns how many pods are bound.
func checkBindings(t *testing.T, c *cluster) (bound int) {
	t.Helper()
	cpu, pods := map[string]int64{}, map[string]int64{}
	for _, pod := range list[corev1.Pod](c, "pods", "") {
		if pod.Spec.NodeName == "" {
			continue
		}
		bound++
		if ended(pod) {
			continue
		}
		cpu[pod.Spec.NodeName] += pod.Spec.Containers[0].Resources.Requests.Cpu().MilliValue()
		pods[pod.Spec.NodeName]++
	}
	for _, node := range list[corev1.Node](c, "nodes", "") {
		if room := node.Status.Allocatable.Cpu().MilliValue(); cpu[node.Name] > room {
			t.Errorf("node %s has %dm cpu, its pods ask for %dm", node.Name, room, cpu[node.Name])
		}
		if room := node.Status.Allocatable.Pods().Value(); pods[node.Name] > room {
			t.Errorf("node %s has room for %d pods and got %d", node.Name, room, pods[node.Name])
		}
	}
	return bound
}

// checkWaiting checks that the scheduler, which must be at rest, counts what is there, and that no pod waits which fits.
func checkWaiting(t *testing.T, c *cluster, s *Scheduler) {
	t.Helper()
	var fresh sched.Cache
	for _, node := range list[corev1.Node](c, "nodes", "") {
		fresh.SetNode(node)
	}
	pods := list[corev1.Pod](c, "pods", "")
	for _, pod := range pods {
		fresh.AddPod(pod)
	}
	want, got := fresh.Snapshot(), s.cache.Snapshot()
	if got.Len() != want.Len() {
		t.Errorf("scheduler knows %d nodes, there are %d", got.Len(), want.Len())
	}
	for node := range want.Nodes() {
		have := got.Node(node.Name)
		if have == nil {
			t.Errorf("scheduler does not know node %s", node.Name)
			continue
		}
		if have.Requested.MilliCPU != node.Requested.MilliCPU || len(have.Pods) != len(node.Pods) {
			t.Errorf("scheduler counts %d pods and %dm cpu on %s, there are %d and %dm", len(have.Pods), have.Requested.MilliCPU,
				node.Name, len(node.Pods), node.Requested.MilliCPU)
		}
	}
	for _, pod := range pods {
		if !waits(pod) {
			continue
		}
		if d, err := sched.Schedule(pod, want, sched.DefaultProfile()); err == nil {
			t.Errorf("pod %s waits and would fit on %s", pod.Name, d.Node)
		}
		if s.pending.pods[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}] == nil {
			t.Errorf("scheduler forgot pod %s", pod.Name)
		}
	}
}

func TestSchedulerBindsAllThatFitAndNothingMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		for i := range 20 {
			c.create("nodes", readyNode(fmt.Sprintf("n%02d", i), "4"))
		}
		s := NewScheduler(c.config())
		stop := c.start(s)
		for i := range 1000 {
			c.create("pods", newPod(fmt.Sprintf("p%04d", i), fmt.Sprintf("%dm", 20+i*7%100)))
		}
		settle()
		if bound := checkBindings(t, c); bound != 1000 {
			t.Errorf("%d pods are bound, want all 1000", bound)
		}
		if n := len(list[corev1.Event](c, "events", "")); n != 1000 {
			t.Errorf("%d Events, want one for each pod", n)
		}
		stop()
		checkWaiting(t, c, s)
		if len(s.reports.pods) != 0 || len(s.pending.pods) != 0 {
			t.Errorf("%d reports and %d pods are left over", len(s.reports.pods), len(s.pending.pods))
		}
	})
}

func TestSchedulerGivesRoomThatComesFreeToThoseWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.create("nodes", readyNode("n1", "2"))
		c.create("nodes", readyNode("n2", "2"))
		c.start(NewScheduler(c.config()))
		for i := range 10 {
			c.create("pods", newPod(fmt.Sprintf("p%d", i), "1"))
			synctest.Wait()
		}
		settle()
		if bound := checkBindings(t, c); bound != 4 {
			t.Fatalf("%d pods are bound, want 4", bound)
		}
		c.end("p0")
		settle()
		if bound := checkBindings(t, c); bound != 5 {
			t.Errorf("%d pods are bound after one has ended, want 5", bound)
		}
		c.delete("pods", "default", "p1")
		settle()
		if bound := checkBindings(t, c); bound != 5 {
			t.Errorf("%d pods are bound after one of five was deleted, want 5 again", bound)
		}
		c.create("nodes", readyNode("n3", "1"))
		settle()
		if bound := checkBindings(t, c); bound != 6 {
			t.Errorf("%d pods are bound after a node came, want 6", bound)
		}
		update(c, "nodes", "status", "", "n3", func(n *corev1.Node) { n.Status.Allocatable = readyNode("", "2").Status.Allocatable })
		settle()
		if bound := checkBindings(t, c); bound != 7 {
			t.Errorf("%d pods are bound after a node grew, want 7", bound)
		}
	})
}

func TestSchedulerLeavesPodsAloneThatAreNotItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.create("nodes", readyNode("n1", "2"))
		c.start(NewScheduler(c.config()))
		other, gated := newPod("other", "100m"), newPod("gated", "100m")
		other.Spec.SchedulerName = "mine"
		gated.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/wait"}}
		c.create("pods", other)
		c.create("pods", gated)
		settle()
		for _, name := range []string{"other", "gated"} {
			if node := c.nodeOf(name); node != "" {
				t.Errorf("pod %s was bound to %s", name, node)
			}
		}
		if got := c.pod("gated").Status.Conditions; len(got) != 1 || got[0].Reason != corev1.PodReasonSchedulingGated {
			t.Errorf("conditions of the gated pod: %+v", got)
		}
		update(c, "pods", "", "default", "gated", func(p *corev1.Pod) { p.Spec.SchedulingGates = nil })
		synctest.Wait()
		if node := c.nodeOf("gated"); node != "n1" {
			t.Errorf("pod is on %q once its gate is gone, want n1 at once", node)
		}
	})
}

func TestSchedulerSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.start(NewScheduler(c.config()))
		c.create("pods", newPod("p", "1"))
		settle()
		const none = "no nodes available to schedule pods"
		wantUnschedulable(t, c, "p", none)
		c.create("nodes", readyNode("small", "500m"))
		cordoned := readyNode("cordoned", "4")
		cordoned.Spec.Unschedulable = true
		c.create("nodes", cordoned)
		settle()
		const two = "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable. " +
			"preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
		wantUnschedulable(t, c, "p", two)
		c.node("cordoned", func(n *corev1.Node) { n.Spec.Unschedulable = false })
		settle()
		if node := c.nodeOf("p"); node != "cordoned" {
			t.Fatalf("pod is on %q after uncordon", node)
		}
		scheduled := c.eventsOf("p", "Scheduled")
		if len(scheduled) != 1 || scheduled[0].Message != "Successfully assigned default/p to cordoned" || scheduled[0].Type != corev1.EventTypeNormal {
			t.Errorf("Events: %+v", scheduled)
		}
		if got := c.pod("p").Status.Conditions; len(got) != 1 || got[0].Status != corev1.ConditionTrue || got[0].Message != "" {
			t.Errorf("conditions of the bound pod: %+v", got)
		}
	})
}

// wantUnschedulable checks the pod's condition, and that an Event says the same.
func wantUnschedulable(t *testing.T, c *cluster, pod, message string) {
	t.Helper()
	conditions := c.pod(pod).Status.Conditions
	if len(conditions) != 1 || conditions[0].Status != corev1.ConditionFalse || conditions[0].Reason != corev1.PodReasonUnschedulable ||
		conditions[0].Message != message {
		t.Errorf("conditions %+v, want PodScheduled=False because %q", conditions, message)
	}
	var said []string
	for _, event := range c.eventsOf(pod, "FailedScheduling") {
		if said = append(said, event.Message); event.Message == message && event.Type == corev1.EventTypeWarning && event.InvolvedObject.UID == c.pod(pod).UID {
			return
		}
	}
	t.Errorf("Events say %q, want %q", said, message)
}

// A pod that is tried again and again to no avail costs no write while nothing new is to be said.
func TestSchedulerWritesNothingTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.create("nodes", readyNode("n1", "1"))
		c.start(NewScheduler(c.config()))
		const many = 300
		for i := range many {
			c.create("pods", newPod(fmt.Sprintf("p%03d", i), "2"))
		}
		settle()
		if n := len(list[corev1.Event](c, "events", "")); n != many {
			t.Fatalf("%d Events about %d pods", n, many)
		}
		before := c.revision()
		for i := range 5 {
			c.create("pods", newPod(fmt.Sprintf("short%d", i), "10m"))
			synctest.Wait()
			c.end(fmt.Sprintf("short%d", i))
			settle()
		}
		var first, last int
		fmt.Sscan(before, &first)
		fmt.Sscan(c.revision(), &last)
		if writes := last - first; writes != 5*4 {
			t.Errorf("%d writes, want 4 for each short pod: creation, binding, Event, end", writes)
		}
		pass(2 * unschedulableMost)
		events := c.eventsOf("p000", "FailedScheduling")
		if len(events) != 1 || events[0].Count < 3 {
			t.Errorf("Events after ten minutes: %+v, want one that counts all attempts", events)
		}
	})
}

func TestEventsAboutOnePodBecomeRare(t *testing.T) {
	written, now := 0, time.Unix(1000, 0)
	known := &reported{}
	for i := range 3600 {
		n := &notice{reason: "FailedScheduling", message: fmt.Sprint(i), at: now.Add(time.Duration(i) * time.Second)}
		if known.due(n) {
			written++
			known.told, known.written = *n, written
		}
	}
	if written < eventsFree || written > 30 {
		t.Errorf("%d Events in an hour in which the reason changed every second", written)
	}
	if !known.due(&notice{reason: "Scheduled", at: now}) {
		t.Error("the Event of the binding would not be written")
	}
}

// breaker fails some bindings, and lets others happen to the pod just before them.
type breaker struct {
	registry.Verbs
	before func(pod string) error
}

func (b *breaker) Bind(ctx context.Context, namespace, pod string, uid types.UID, node string) error {
	if err := b.before(pod); err != nil {
		return err
	}
	return b.Verbs.Bind(ctx, namespace, pod, uid, node)
}

// What happens to a pod between decision and binding must cost neither the pod nor those who wait for its room.
func TestBindingsThatFailLeaveNothingBehind(t *testing.T) {
	meanwhile := map[string]func(c *cluster) error{
		"deleted": func(c *cluster) error { c.delete("pods", "default", "first"); return nil },
		"recreated": func(c *cluster) error {
			c.delete("pods", "default", "first")
			c.create("pods", newPod("first", "2"))
			return nil
		},
		"rival": func(c *cluster) error { return c.Bind(context.Background(), "default", "first", "", "elsewhere") },
		"disk":  func(*cluster) error { return apierrors.NewInternalError(errors.New("disk is full")) },
		"node gone": func(c *cluster) error {
			c.delete("nodes", "", "n1")
			c.create("nodes", readyNode("n1", "1"))
			return nil
		},
	}
	for name, happens := range meanwhile {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t)
				c.create("nodes", readyNode("n1", "1"))
				once := true
				gate := make(chan struct{})
				verbs := &breaker{Verbs: c.Verbs, before: func(pod string) error {
					if pod != "first" || !once {
						return nil
					}
					once = false
					<-gate
					return happens(c)
				}}
				s := NewScheduler(Config{Verbs: verbs})
				stop := c.start(s)
				c.create("pods", newPod("first", "1"))
				synctest.Wait()
				c.create("pods", newPod("second", "1"))
				synctest.Wait()
				close(gate)
				settle()
				if name != "node gone" && name != "disk" && c.nodeOf("second") != "n1" {
					t.Errorf("the second pod is on %q, want n1: %+v", c.nodeOf("second"), c.pod("second").Status.Conditions)
				}
				if bound := checkBindings(t, c); bound == 0 {
					t.Error("no pod is bound")
				}
				stop()
				checkWaiting(t, c, s)
			})
		})
	}
}

// A pod may be bound and deleted while nobody watches: what is told then is the deletion of a pod without a node.
func TestRoomOfAPodThatWasNeverSeenBoundComesFree(t *testing.T) {
	c := newCluster(t)
	s := NewScheduler(c.config())
	c.create("nodes", readyNode("n1", "1"))
	pod := c.create("pods", newPod("first", "1")).(*corev1.Pod)
	s.takeNode(nil, get[corev1.Node](c, "nodes", "", "n1"))
	s.takePod(nil, pod, time.Now())
	s.cache.Assume(s.pending.pop(time.Now()).pod, "n1")
	if helps := s.takePod(pod, nil, time.Now()); helps != podGone {
		t.Errorf("its deletion wakes %b, want those who wait for room", helps)
	}
	if node := s.cache.Snapshot().Node("n1"); len(node.Pods) != 0 {
		t.Errorf("%d pods are counted on the node", len(node.Pods))
	}
}

// Whatever users, agents and rivals do, and however often watches expire: at rest, the scheduler counts what is there and no
// pod waits that would fit.
func TestSchedulerLosesNoPodInTheTurmoil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seed := uint64(time.Now().UnixNano()) ^ rand.Uint64()
		defer func() {
			if t.Failed() {
				t.Logf("seed %d", seed)
			}
		}()
		random := rand.New(rand.NewPCG(seed, 0))
		c := newCluster(t, shortHistory)
		verbs := &breaker{Verbs: c.Verbs}
		fail := rand.New(rand.NewPCG(seed, 1))
		lock := make(chan struct{}, 1)
		verbs.before = func(string) error {
			lock <- struct{}{}
			defer func() { <-lock }()
			if fail.IntN(20) == 0 {
				return apierrors.NewInternalError(errors.New("disk is full"))
			}
			return nil
		}
		s := NewScheduler(Config{Verbs: verbs})
		stop := c.start(s)
		for range 25 {
			for range 20 + random.IntN(40) {
				disturb(t, c, random)
				if random.IntN(4) == 0 {
					synctest.Wait()
				}
			}
			switch random.IntN(3) {
			case 0:
				stop()
				s = NewScheduler(Config{Verbs: verbs})
				stop = c.start(s)
			case 1:
				settle()
			}
		}
		settle()
		settle()
		stop()
		checkWaiting(t, c, s)
		checkOnce(t, c)
	})
}

// disturb does one thing that users, agents or rivals of the scheduler do.
func disturb(t *testing.T, c *cluster, random *rand.Rand) {
	pod, node := fmt.Sprintf("p%d", random.IntN(30)), fmt.Sprintf("n%d", random.IntN(4))
	switch is := get[corev1.Pod](c, "pods", "default", pod); {
	case random.IntN(4) == 0:
		disturbNode(c, random, node)
	case is == nil:
		fresh := newPod(pod, fmt.Sprintf("%dm", 100*(1+random.IntN(12))))
		if random.IntN(5) == 0 {
			fresh.Spec.NodeSelector = map[string]string{"zone": "a"}
		}
		c.create("pods", fresh)
	case random.IntN(3) == 0:
		c.delete("pods", "default", pod)
	case is.Spec.NodeName != "" && random.IntN(2) == 0:
		c.end(pod)
	case random.IntN(8) == 0:
		if err := c.Bind(t.Context(), "default", pod, is.UID, node); err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	case is.Spec.NodeName == "" && random.IntN(3) == 0:
		update(c, "pods", "", "default", pod, func(p *corev1.Pod) {
			p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: "k", Operator: corev1.TolerationOpExists})
		})
	}
}

func disturbNode(c *cluster, random *rand.Rand, name string) {
	if get[corev1.Node](c, "nodes", "", name) == nil {
		c.create("nodes", readyNode(name, "2"))
		return
	}
	switch random.IntN(6) {
	case 0:
		c.delete("nodes", "", name)
	case 1:
		c.node(name, func(n *corev1.Node) { n.Spec.Unschedulable = !n.Spec.Unschedulable })
	case 2:
		c.node(name, func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}} })
	case 3:
		c.node(name, func(n *corev1.Node) { n.Spec.Taints = nil })
	case 4:
		c.node(name, func(n *corev1.Node) { n.Labels["zone"] = "a" })
	case 5:
		cpu := fmt.Sprint(1 + random.IntN(4))
		update(c, "nodes", "status", "", name, func(n *corev1.Node) { n.Status.Allocatable = readyNode("", cpu).Status.Allocatable })
	}
}

// checkOnce checks that no pod was reported as scheduled twice.
func checkOnce(t *testing.T, c *cluster) {
	t.Helper()
	seen := map[types.UID]bool{}
	for _, event := range list[corev1.Event](c, "events", "") {
		if event.Reason != "Scheduled" {
			continue
		}
		if seen[event.InvolvedObject.UID] {
			t.Errorf("pod %s was scheduled twice", event.InvolvedObject.Name)
		}
		seen[event.InvolvedObject.UID] = true
	}
}

func TestSchedulerGoesOnWhereAnotherStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		for i := range 4 {
			c.create("nodes", readyNode(fmt.Sprintf("n%d", i), "4"))
		}
		for i := range 400 {
			c.create("pods", newPod(fmt.Sprintf("p%03d", i), "40m"))
		}
		for range 5 {
			bindings := make(chan struct{}, 50)
			verbs := &breaker{Verbs: c.Verbs}
			ctx, cancel := context.WithCancel(t.Context())
			verbs.before = func(string) error {
				select {
				case bindings <- struct{}{}:
				default:
					cancel()
				}
				return nil
			}
			if err := NewScheduler(Config{Verbs: verbs}).Run(ctx); err != nil {
				t.Fatal(err)
			}
		}
		if bound := checkBindings(t, c); bound == 0 || bound == 400 {
			t.Fatalf("%d pods are bound by schedulers that were stopped", bound)
		}
		s := NewScheduler(c.config())
		stop := c.start(s)
		settle()
		stop()
		if bound := checkBindings(t, c); bound != 400 {
			t.Errorf("%d pods are bound, want all 400", bound)
		}
		checkWaiting(t, c, s)
	})
}

// Rejections by the thousand must not keep bindings waiting: they are written beside them.
func TestRejectionsDoNotHoldBindingsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.create("nodes", readyNode("n1", "1"))
		held := make(chan struct{})
		verbs := &slowEvents{Verbs: c.Verbs, held: held}
		for i := range 200 {
			c.create("pods", newPod(fmt.Sprintf("big%03d", i), "2"))
		}
		c.start(NewScheduler(Config{Verbs: verbs}))
		c.create("pods", newPod("small", "100m"))
		synctest.Wait()
		if node := c.nodeOf("small"); node != "n1" {
			t.Errorf("pod is on %q while Events are slow, want n1", node)
		}
		close(held)
		settle()
		failed := slices.DeleteFunc(list[corev1.Event](c, "events", ""), func(e *corev1.Event) bool { return !strings.HasPrefix(e.InvolvedObject.Name, "big") })
		if len(failed) != 200 {
			t.Errorf("%d Events about 200 pods that do not fit", len(failed))
		}
	})
}

// slowEvents lets no Event be written before held is closed.
type slowEvents struct {
	registry.Verbs
	held chan struct{}
}

func (s *slowEvents) Create(ctx context.Context, res *registry.Resource, req registry.CreateRequest) (registry.Result, error) {
	if res.Name == "events" {
		<-s.held
	}
	return s.Verbs.Create(ctx, res, req)
}
