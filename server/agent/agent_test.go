package agent_test

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"edgepod/server/agent"
	"edgepod/wasmrt/sandbox"
)

// web is a pod that runs; its grace is short so that nothing in a test waits for long.
func web(policy string) string {
	return `
metadata: {name: web}
spec:
  restartPolicy: ` + policy + `
  terminationGracePeriodSeconds: 5
  containers: [{name: main, image: edgepod.dev/web}]
`
}

func (c *cluster) exit(pod *corev1.Pod, id string, code int32) {
	c.t.Helper()
	if err := c.runtime.Exit(string(pod.UID), id, sandbox.Exit{Code: code}); err != nil {
		c.t.Fatal(err)
	}
}

func restarted(n int32) func(*corev1.Pod) bool {
	return func(p *corev1.Pod) bool {
		cs := p.Status.ContainerStatuses
		return len(cs) > 0 && cs[0].RestartCount == n && cs[0].State.Running != nil
	}
}

func phase(want corev1.PodPhase) func(*corev1.Pod) bool {
	return func(p *corev1.Pod) bool { return p.Status.Phase == want }
}

func TestPodRunsIsReportedAndGoesWhenDeleted(t *testing.T) {
	c := newCluster(t)
	c.startReady()
	pod := c.create(web("Always"))
	running := c.wait("web", "ready", ready)
	status := running.Status.ContainerStatuses[0]
	if status.State.Running == nil || status.RestartCount != 0 || status.ContainerID != "edgepod://"+string(pod.UID)+"/main-0" {
		t.Errorf("container status: %+v", status)
	}
	if running.Status.Phase != corev1.PodRunning || running.Status.HostIP == "" || running.Status.StartTime.IsZero() ||
		running.Status.QOSClass != corev1.PodQOSBestEffort || running.Status.ObservedGeneration != running.Generation {
		t.Errorf("status: %+v", running.Status)
	}
	for reason, message := range map[string]string{
		"Pulled": `Successfully pulled image "edgepod.dev/web" in `, "Created": "Container created", "Started": "Container started",
	} {
		e := c.waitEvent("web", reason)
		if !strings.HasPrefix(e.Message, message) || e.Source.Component != "kubelet" || e.Source.Host != "n1" ||
			e.InvolvedObject.FieldPath != "spec.containers{main}" {
			t.Errorf("event %s: %q from %+v about %s", reason, e.Message, e.Source, e.InvolvedObject.FieldPath)
		}
	}
	c.delete("web", 5)
	c.waitGone("web")
	if e := c.waitEvent("web", "Killing"); e.Message != "Stopping container main" {
		t.Errorf("event: %q", e.Message)
	}
	c.poll("the sandbox to be removed", func() bool { return count(c.runtime.Calls(), "remove ") == 1 })
}

func TestCrashLoopIsRestartedCountedAndTold(t *testing.T) {
	c := newCluster(t)
	c.startReady()
	pod := c.create(web("Always"))
	c.wait("web", "ready", ready)
	c.exit(pod, "main-0", 3)
	p := c.wait("web", "restarted", restarted(1))
	last := p.Status.ContainerStatuses[0].LastTerminationState.Terminated
	if last == nil || last.ExitCode != 3 || last.Reason != "Error" || last.ContainerID != "edgepod://"+string(pod.UID)+"/main-0" {
		t.Errorf("last state: %+v", last)
	}
	c.exit(pod, "main-1", 4)
	c.wait("web", "restarted again", restarted(2))
	if e := c.waitEvent("web", "BackOff"); !strings.HasPrefix(e.Message, "Back-off restarting failed container main in pod web_default(") {
		t.Errorf("event: %q", e.Message)
	}
	c.poll("the files of old attempts to go", func() bool { return count(c.runtime.Calls(), "forget "+string(pod.UID)+"/main-0") == 1 })
}

func TestPolicyNeverEndsInThePhaseOfItsExitCode(t *testing.T) {
	c := newCluster(t)
	c.startReady()
	for code, want := range []corev1.PodPhase{corev1.PodSucceeded, corev1.PodFailed} {
		pod := c.create(web("Never"))
		c.wait("web", "ready", ready)
		c.exit(pod, "main-0", int32(code))
		p := c.wait("web", "ended", phase(want))
		if got := p.Status.ContainerStatuses[0].State.Terminated; got == nil || got.ExitCode != int32(code) {
			t.Errorf("state of a container that exited %d: %+v", code, got)
		}
		c.poll("the sandbox to be removed", func() bool { return count(c.runtime.Calls(), "remove "+string(pod.UID)) == 1 })
		if n := count(c.runtime.Calls(), "start "+string(pod.UID)); n != 1 {
			t.Errorf("%d starts, want 1", n)
		}
		c.delete("web", 0)
		c.waitGone("web")
	}
}

func TestImageErrorsAreShownAndTriedAgain(t *testing.T) {
	c := newCluster(t)
	c.startReady()
	c.runtime.FailPull("edgepod.dev/web", &sandbox.ImageError{Reason: sandbox.ReasonErrImagePull, Ref: "edgepod.dev/web", Message: "no such module"})
	c.create(web("Always"))
	c.wait("web", "failing to pull", func(p *corev1.Pod) bool {
		cs := p.Status.ContainerStatuses
		return len(cs) > 0 && cs[0].State.Waiting != nil && strings.Contains(cs[0].State.Waiting.Message, "no such module")
	})
	if e := c.waitEvent("web", "Failed"); e.Type != corev1.EventTypeWarning {
		t.Errorf("event: %+v", e)
	}
	c.runtime.FailPull("edgepod.dev/web", nil)
	c.wait("web", "ready", ready)
}

func TestMissingConfigMapHoldsTheStartUntilItComes(t *testing.T) {
	c := newCluster(t)
	c.config = func(config *agent.Config) { config.Retry = time.Hour }
	c.startReady()
	pod := c.create(`
metadata: {name: web}
spec:
  containers:
  - name: main
    image: edgepod.dev/web
    env: [{name: COLOUR, valueFrom: {configMapKeyRef: {name: cfg, key: colour}}}]
`)
	p := c.wait("web", "waiting for its config map", func(p *corev1.Pod) bool {
		cs := p.Status.ContainerStatuses
		return len(cs) > 0 && cs[0].State.Waiting != nil && cs[0].State.Waiting.Reason == "CreateContainerConfigError"
	})
	if got := p.Status.ContainerStatuses[0].State.Waiting.Message; got != `configmap "cfg" not found` {
		t.Errorf("message: %s", got)
	}
	cfg := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "cfg"}, Data: map[string]string{"colour": "blue"}}
	if _, err := c.api.CoreV1().ConfigMaps("default").Create(t.Context(), cfg, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.wait("web", "ready", ready)
	spec, err := c.runtime.Spec(string(pod.UID), "main-0")
	if err != nil || strings.Join(spec.Env, " ") != "HOSTNAME=web COLOUR=blue" {
		t.Errorf("environment %q, %v", spec.Env, err)
	}
}

func TestAgentRestartAdoptsWhatRunsAndLearnsWhatEnded(t *testing.T) {
	c := newCluster(t)
	_, stop := c.startReady()
	stays := c.create(strings.Replace(web("Always"), "name: web", "name: stays", 1))
	ends := c.create(strings.Replace(web("Never"), "name: web", "name: ends", 1))
	crashed := c.create(strings.Replace(web("Always"), "name: web", "name: crashed", 1))
	for _, name := range []string{"stays", "ends", "crashed"} {
		c.wait(name, "ready", ready)
	}
	c.exit(crashed, "main-0", 1)
	c.wait("crashed", "restarted", restarted(1))
	before := count(c.runtime.Calls(), "start ")
	stop()
	c.exit(ends, "main-0", 7)
	c.exit(crashed, "main-1", 9)
	c.startAgent()
	p := c.wait("ends", "failed", phase(corev1.PodFailed))
	if got := p.Status.ContainerStatuses[0].State.Terminated; got.ExitCode != 7 || got.StartedAt.IsZero() {
		t.Errorf("exit of a container that ended without an agent: %+v", got)
	}
	p = c.wait("crashed", "restarted", restarted(2))
	if got := p.Status.ContainerStatuses[0].LastTerminationState.Terminated; got.ExitCode != 9 {
		t.Errorf("last state: %+v", got)
	}
	if p := c.get("stays"); !restarted(0)(p) || !ready(p) {
		t.Errorf("pod that ran on: %+v", p.Status)
	}
	if n := count(c.runtime.Calls(), "start ") - before; n != 1 {
		t.Errorf("%d starts after the restart, want 1", n)
	}
	if n := count(c.runtime.Calls(), "start "+string(stays.UID)); n != 1 {
		t.Errorf("the pod that ran on was started %d times", n)
	}
}

func TestPodDeletedWhileTheAgentWasAwayIsTakenDown(t *testing.T) {
	c := newCluster(t)
	_, stop := c.startReady()
	pod := c.create(web("Always"))
	c.wait("web", "ready", ready)
	stop()
	c.delete("web", 0)
	c.waitGone("web")
	again := c.create(web("Always"))
	c.startAgent()
	c.poll("the old sandbox to be removed", func() bool { return count(c.runtime.Calls(), "remove "+string(pod.UID)) == 1 })
	c.wait("web", "ready under its name", func(p *corev1.Pod) bool { return p.UID == again.UID && ready(p) })
}

func TestStopPodsKeepsThemForTheNextAgent(t *testing.T) {
	c := newCluster(t)
	a, stop := c.startReady()
	c.create(strings.Replace(web("Never"), "name: web", "name: once", 1))
	c.create(web("Always"))
	c.wait("once", "ready", ready)
	c.wait("web", "ready", ready)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := a.StopPods(ctx); err != nil {
		t.Fatal(err)
	}
	if n := count(c.runtime.Calls(), "stop "); n != 2 {
		t.Errorf("%d containers stopped, want 2", n)
	}
	stop()
	for _, name := range []string{"once", "web"} {
		if p := c.get(name); p.Status.Phase != corev1.PodRunning {
			t.Errorf("%s is %s in the API after the stop, want Running", name, p.Status.Phase)
		}
	}
	c.startAgent()
	c.wait("once", "running again", restarted(1))
	c.wait("web", "running again", restarted(1))
}

func TestStubbornContainerIsKilledWhenItsGraceIsShortened(t *testing.T) {
	c := newCluster(t)
	c.startReady()
	c.runtime.IgnoreStop("main", true)
	c.create(web("Always"))
	c.wait("web", "ready", ready)
	c.delete("web", 3600)
	c.poll("the stop", func() bool { return count(c.runtime.Calls(), "stop ") == 1 })
	c.delete("web", 1)
	c.waitGone("web")
}

func TestNodeIsRegisteredInFullAndKeepsOthersLabels(t *testing.T) {
	c := newCluster(t)
	c.runtime.SetLayers([]sandbox.Layer{
		{Name: "seccomp", Held: true},
		{Name: "cgroup-memory", Reason: "no permission", Fix: "run as root"},
	})
	_, stop := c.startReady()
	node := c.getNode()
	info := node.Status.NodeInfo
	if info.KubeletVersion != "v1.37.2+edgepod" || info.OSImage == "" || info.KernelVersion == "" || info.BootID == "" {
		t.Errorf("nodeInfo: %+v", info)
	}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage, corev1.ResourcePods} {
		if q := node.Status.Allocatable[name]; q.IsZero() {
			t.Errorf("allocatable has no %s: %v", name, node.Status.Allocatable)
		}
	}
	for _, name := range []string{corev1.LabelOSStable, corev1.LabelArchStable, corev1.LabelHostname} {
		if node.Labels[name] == "" {
			t.Errorf("label %s is missing", name)
		}
	}
	conditions := map[corev1.NodeConditionType]corev1.NodeCondition{}
	for _, cond := range node.Status.Conditions {
		conditions[cond.Type] = cond
	}
	hard := conditions["edgepod.dev/Hardening"]
	if hard.Status != corev1.ConditionFalse || hard.Message != "cgroup-memory does not hold: no permission (run as root)" {
		t.Errorf("hardening: %+v", hard)
	}
	if len(conditions) != 5 || len(node.Annotations["edgepod.dev/serving-cert-sha256"]) != 64 {
		t.Errorf("conditions %v, annotations %v", conditions, node.Annotations)
	}
	c.poll("the lease", func() bool {
		lease, err := c.api.CoordinationV1().Leases("kube-node-lease").Get(t.Context(), "n1", metav1.GetOptions{})
		return err == nil && *lease.Spec.LeaseDurationSeconds == 40 && *lease.Spec.HolderIdentity == "n1" && lease.Spec.RenewTime != nil
	})
	stop()
	node = c.getNode()
	node.Labels["disk"] = "ssd"
	node.Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}}
	if _, err := c.api.CoreV1().Nodes().Update(t.Context(), node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.config = func(config *agent.Config) { config.Node.Labels = map[string]string{"zone": "a"} }
	c.startAgent()
	c.poll("the new label", func() bool { return c.getNode().Labels["zone"] == "a" })
	if node = c.getNode(); node.Labels["disk"] != "ssd" || len(node.Spec.Taints) != 1 {
		t.Errorf("labels %v, taints %v", node.Labels, node.Spec.Taints)
	}
}

func TestNodeThatIsDeletedOrDeclaredLostComesBack(t *testing.T) {
	c := newCluster(t)
	c.config = func(config *agent.Config) { config.Node.Look = 20 * time.Millisecond }
	c.startReady()
	uid := c.getNode().UID
	if err := c.api.CoreV1().Nodes().Delete(t.Context(), c.node, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.poll("the node to be registered anew", func() bool {
		node, err := c.api.CoreV1().Nodes().Get(t.Context(), c.node, metav1.GetOptions{})
		return err == nil && node.UID != uid && nodeReady(node)
	})
	lost := c.getNode()
	for i := range lost.Status.Conditions {
		lost.Status.Conditions[i].Status = corev1.ConditionUnknown
	}
	if _, err := c.api.CoreV1().Nodes().UpdateStatus(t.Context(), lost, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.poll("the node to say that it is there", func() bool { return nodeReady(c.getNode()) })
}

func TestInterruptedPodsStartAgainWhateverTheirPolicy(t *testing.T) {
	c := newCluster(t)
	_, stop := c.startReady()
	c.create(web("Never"))
	c.wait("web", "ready", ready)
	stop()
	if err := agent.Interrupt(c.dir + "/agent"); err != nil {
		t.Fatal(err)
	}
	sandboxes, err := c.runtime.List(t.Context())
	if err != nil || len(sandboxes) != 1 {
		t.Fatalf("sandboxes: %v, %v", sandboxes, err)
	}
	if err := sandboxes[0].Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.startAgent()
	c.wait("web", "running again", restarted(1))
}

func TestNewImageReplacesTheContainer(t *testing.T) {
	c := newCluster(t)
	c.startReady()
	pod := c.create(web("Never"))
	c.wait("web", "ready", ready)
	live := c.get("web")
	live.Spec.Containers[0].Image = "edgepod.dev/other"
	if _, err := c.api.CoreV1().Pods("default").Update(t.Context(), live, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	p := c.wait("web", "running with its new image", restarted(1))
	if got := p.Status.ContainerStatuses[0].Image; got != "edgepod.dev/other" || p.Status.ObservedGeneration != 2 {
		t.Errorf("image %s, observedGeneration %d", got, p.Status.ObservedGeneration)
	}
	if spec, err := c.runtime.Spec(string(pod.UID), "main-1"); err != nil || spec.Image != "edgepod.dev/other" {
		t.Errorf("second attempt: %+v, %v", spec, err)
	}
	if e := c.waitEvent("web", "Killing"); e.Message != "Container main definition changed, will be restarted" {
		t.Errorf("event: %q", e.Message)
	}
}
