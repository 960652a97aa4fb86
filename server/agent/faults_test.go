package agent_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"edgepod/server/agent"
	"edgepod/wasmrt/sandbox"
	"edgepod/wasmrt/sandbox/sandboxtest"
)

// cut is a way to the API that a test can cut.
type cut struct {
	http.RoundTripper
	off   atomic.Bool
	tries atomic.Int64
}

func (c *cut) RoundTrip(r *http.Request) (*http.Response, error) {
	c.tries.Add(1)
	if c.off.Load() {
		return nil, errors.New("the network is down")
	}
	return c.RoundTripper.RoundTrip(r)
}

func (c *cluster) cuttable() (*rest.Config, *cut) {
	way := c.server.AgentConfig(c.node)
	cutter := &cut{RoundTripper: way.Transport}
	way.Transport = cutter
	return way, cutter
}

func TestNodeWorksOnWhileTheApiIsAway(t *testing.T) {
	c := newCluster(t)
	way, cutter := c.cuttable()
	_, stop := c.startAgentOver(way)
	pod := c.create(web("Always"))
	c.wait("web", "ready", ready)
	cutter.off.Store(true)
	c.exit(pod, "main-0", 1)
	started := func(attempt int) func() bool {
		return func() bool { return count(c.runtime.Calls(), fmt.Sprintf("start %s/main-%d", pod.UID, attempt)) == 1 }
	}
	c.poll("a restart without the API", started(1))
	stop()
	c.exit(pod, "main-1", 1)

	// A new agent that has never reached the API goes on as well.
	way, cutter = c.cuttable()
	cutter.off.Store(true)
	c.startAgentOver(way)
	c.poll("a restart by the next agent", started(2))
	if n := count(c.runtime.Calls(), "remove ") + count(c.runtime.Calls(), "stop "); n > 0 {
		t.Errorf("%d containers or sandboxes were ended while the API was away", n)
	}
	cutter.off.Store(false)
	c.wait("web", "reported with both restarts", restarted(2))
}

func TestCorruptCheckpointIsPutAsideAndTheContainerAdopted(t *testing.T) {
	for name, damage := range map[string]func(string) error{
		"empty":   func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"cut off": func(path string) error { return os.Truncate(path, 20) },
		"foreign": func(path string) error { return os.WriteFile(path, []byte(`{"other":1}`), 0o600) },
		"missing": os.Remove,
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			_, stop := c.startReady()
			pod := c.create(web("Always"))
			c.wait("web", "ready", ready)
			c.exit(pod, "main-0", 1)
			c.wait("web", "restarted", restarted(1))
			stop()
			states, err := filepath.Glob(filepath.Join(c.dir, "agent/pods/*/state.json"))
			if err != nil || len(states) != 1 {
				t.Fatalf("checkpoints: %v, %v", states, err)
			}
			if err := damage(states[0]); err != nil {
				t.Fatal(err)
			}
			c.startAgent()
			c.poll("a new checkpoint", func() bool {
				data, err := os.ReadFile(states[0])
				return err == nil && strings.Contains(string(data), `"attempts":2`)
			})
			if p := c.get("web"); !restarted(1)(p) || !ready(p) {
				t.Errorf("pod after the loss of its checkpoint: %+v", p.Status)
			}
			if n := count(c.runtime.Calls(), "start "); n != 2 {
				t.Errorf("%d starts, want 2", n)
			}
		})
	}
}

func TestVolumesFollowTheirSourcesAndGoWithThePod(t *testing.T) {
	c := newCluster(t)
	c.startReady()
	cfg := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "cfg"}, Data: map[string]string{"a": "1"}}
	cfg, err := c.api.CoreV1().ConfigMaps("default").Create(t.Context(), cfg, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod := c.create(`
metadata: {name: web, labels: {tier: one}}
spec:
  terminationGracePeriodSeconds: 1
  volumes:
  - {name: data, emptyDir: {}}
  - {name: cfg, configMap: {name: cfg}}
  - {name: info, downwardAPI: {items: [{path: tier, fieldRef: {fieldPath: "metadata.labels['tier']"}}]}}
  containers:
  - name: main
    image: edgepod.dev/web
    volumeMounts: [{name: data, mountPath: /data}, {name: cfg, mountPath: /etc/cfg}, {name: info, mountPath: /info}]
`)
	c.wait("web", "ready", ready)
	spec, err := c.runtime.Spec(string(pod.UID), "main-0")
	if err != nil || len(spec.Mounts) != 3+3 {
		t.Fatalf("mounts: %+v, %v", spec.Mounts, err)
	}
	if err := os.WriteFile(filepath.Join(spec.Mounts[0].Source, "mine"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	holds := func(mount int, name, want string) func() bool {
		return func() bool {
			data, err := os.ReadFile(filepath.Join(spec.Mounts[mount].Source, name))
			return err == nil && string(data) == want
		}
	}
	c.poll("the first content", holds(1, "a", "1"))
	cfg.Data["a"] = "2"
	if _, err := c.api.CoreV1().ConfigMaps("default").Update(t.Context(), cfg, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.poll("the new content", holds(1, "a", "2"))
	live := c.get("web")
	live.Labels["tier"] = "two"
	if _, err := c.api.CoreV1().Pods("default").Update(t.Context(), live, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.poll("the new label", holds(2, "tier", "two"))
	c.exit(pod, "main-0", 1)
	c.wait("web", "restarted", restarted(1))
	if !holds(0, "mine", "x")() {
		t.Error("the emptyDir did not outlive its container")
	}
	c.delete("web", 1)
	c.waitGone("web")
	c.poll("the pod's folder to go", func() bool {
		left, err := filepath.Glob(filepath.Join(c.dir, "agent/pods/*"))
		return err == nil && len(left) == 0
	})
}

func TestMissingSourceOfAVolumeIsToldAndAwaited(t *testing.T) {
	c := newCluster(t)
	c.config = func(config *agent.Config) { config.Retry = time.Hour }
	c.startReady()
	c.create(`
metadata: {name: web}
spec:
  volumes: [{name: s, secret: {secretName: sec}}]
  containers: [{name: main, image: edgepod.dev/web, volumeMounts: [{name: s, mountPath: /s}]}]
`)
	if e := c.waitEvent("web", "FailedMount"); e.Message != `MountVolume.SetUp failed for volume "s" : secret "sec" not found` {
		t.Errorf("event: %q", e.Message)
	}
	sec := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "sec"}, StringData: map[string]string{"k": "v"}}
	if _, err := c.api.CoreV1().Secrets("default").Create(t.Context(), sec, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.wait("web", "ready", ready)
}

func TestStatusSurvivesConcurrentWriters(t *testing.T) {
	c := newCluster(t)
	c.startReady()
	pod := c.create(web("Always"))
	c.wait("web", "ready", ready)
	for i := range int32(8) {
		c.exit(pod, fmt.Sprintf("main-%d", i), 1)
		for {
			live := c.get("web")
			live.Labels = map[string]string{"turn": fmt.Sprint(i)}
			if _, err := c.api.CoreV1().Pods("default").Update(t.Context(), live, metav1.UpdateOptions{}); err == nil {
				break
			}
		}
		c.wait("web", "restarted", restarted(i+1))
	}
}

func TestManyPodsComeUpAndGo(t *testing.T) {
	c := newCluster(t)
	c.startReady()
	const pods = 60
	for i := range pods {
		c.create(strings.Replace(web("Always"), "name: web", fmt.Sprintf("name: web-%d", i), 1))
	}
	all := func(holds func(*corev1.Pod) bool) func() bool {
		return func() bool {
			list, err := c.api.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
			if err != nil {
				return false
			}
			for i := range list.Items {
				if !holds(&list.Items[i]) {
					return false
				}
			}
			return true
		}
	}
	c.poll("all pods to be ready", all(ready))
	if n := count(c.runtime.Calls(), "start "); n != pods {
		t.Errorf("%d starts for %d pods", n, pods)
	}
	one := int64(1)
	if err := c.api.CoreV1().Pods("default").DeleteCollection(t.Context(), metav1.DeleteOptions{GracePeriodSeconds: &one}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	c.poll("all pods to go", all(func(*corev1.Pod) bool { return false }))
	c.poll("all folders to go", func() bool {
		left, err := filepath.Glob(filepath.Join(c.dir, "agent/pods/*"))
		return err == nil && len(left) == 0
	})
}

func TestPodsOfAWipedNodeAreRestartedAndFinishedOnesLeftAlone(t *testing.T) {
	c := newCluster(t)
	_, stop := c.startReady()
	pod := c.create(web("Always"))
	once := c.create(strings.Replace(web("Never"), "name: web", "name: once", 1))
	c.wait("web", "ready", ready)
	c.wait("once", "ready", ready)
	c.exit(pod, "main-0", 1)
	c.wait("web", "restarted", restarted(1))
	c.exit(once, "main-0", 0)
	c.wait("once", "succeeded", phase(corev1.PodSucceeded))
	stop()
	if err := os.RemoveAll(filepath.Join(c.dir, "agent")); err != nil {
		t.Fatal(err)
	}
	c.runtime = sandboxtest.NewFake()
	c.startAgent()
	p := c.wait("web", "restarted on the new node", restarted(2))
	last := p.Status.ContainerStatuses[0].LastTerminationState.Terminated
	if last == nil || last.Reason != "ContainerStatusUnknown" || last.ExitCode != 137 {
		t.Errorf("last state: %+v", last)
	}
	if p := c.get("once"); p.Status.Phase != corev1.PodSucceeded || count(c.runtime.Calls(), "create "+string(once.UID)) > 0 {
		t.Errorf("the pod that had succeeded was touched: %s, %q", p.Status.Phase, c.runtime.Calls())
	}
	c.delete("once", 1)
	c.waitGone("once")
}

func TestOrphansAreRemovedOnlyAfterTheApiHasToldOfItsPods(t *testing.T) {
	c := newCluster(t)
	orphan, err := c.runtime.Create(t.Context(), sandbox.Spec{ID: "uid-of-nobody", Namespace: "default", Name: "orphan"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := orphan.Start(t.Context(), sandbox.ContainerSpec{ID: "c-0", Name: "c"}); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(c.dir, "agent/pods/default_gone_uid-2/main"), 0o755); err != nil {
		t.Fatal(err)
	}
	way, cutter := c.cuttable()
	cutter.off.Store(true)
	c.startAgentOver(way)
	c.poll("a try to reach the API", func() bool { return cutter.tries.Load() > 3 })
	if n := count(c.runtime.Calls(), "stop ") + count(c.runtime.Calls(), "remove "); n > 0 {
		t.Errorf("an orphan was touched before the API had told of its pods: %q", c.runtime.Calls())
	}
	cutter.off.Store(false)
	c.poll("the orphan to go", func() bool { return count(c.runtime.Calls(), "remove uid-of-nobody") == 1 })
	c.poll("the folders to go", func() bool {
		left, err := filepath.Glob(filepath.Join(c.dir, "agent/pods/*"))
		return err == nil && len(left) == 0
	})
}
