package agent_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"edgepod/server"
	"edgepod/server/agent"
	"edgepod/server/agent/lifecycle"
	"edgepod/wasmrt/sandbox/sandboxtest"
)

// cluster is a real control plane with an agent on a fake runtime.
type cluster struct {
	t       testing.TB
	server  *server.Server
	stop    func()
	dir     string
	node    string
	api     *kubernetes.Clientset
	runtime *sandboxtest.Fake
	config  func(*agent.Config)
}

// newCluster starts the control plane. The agent is started by the test.
func newCluster(t testing.TB) *cluster {
	t.Helper()
	c := &cluster{t: t, dir: t.TempDir(), node: "n1", runtime: sandboxtest.NewFake()}
	c.startServer("127.0.0.1:0")
	return c
}

func (c *cluster) startServer(listen string) {
	c.t.Helper()
	s, err := server.New(server.Config{DataDir: c.dir + "/server", Listen: listen})
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	stopped := false
	c.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			c.t.Errorf("server: %v", err)
		}
	}
	c.t.Cleanup(c.stop)
	<-s.Ready()
	c.server = s
	config, err := clientcmd.BuildConfigFromFlags("", s.KubeconfigPath())
	if err != nil {
		c.t.Fatal(err)
	}
	config.QPS = -1
	if c.api, err = kubernetes.NewForConfig(config); err != nil {
		c.t.Fatal(err)
	}
}

// startAgent runs an agent; the returned function ends it as SIGTERM does, leaving containers alone.
func (c *cluster) startAgent() (*agent.Agent, func()) {
	c.t.Helper()
	return c.startAgentOver(c.server.AgentConfig(c.node))
}

func (c *cluster) startAgentOver(way *rest.Config) (*agent.Agent, func()) {
	c.t.Helper()
	quick := lifecycle.Backoff{Initial: 20 * time.Millisecond, Max: 80 * time.Millisecond, Reset: time.Minute}
	config := agent.Config{
		NodeName: c.node, DataDir: c.dir + "/agent", REST: way, Runtime: c.runtime,
		Restart: quick, ImagePull: quick, Retry: 50 * time.Millisecond,
		Log: slog.New(slog.NewTextHandler(testWriter{c.t}, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	if c.config != nil {
		c.config(&config)
	}
	a, err := agent.New(config)
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	stopped := false
	stop := func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			c.t.Errorf("agent: %v", err)
		}
	}
	c.t.Cleanup(stop)
	return a, stop
}

// startReady runs an agent and returns once its node is Ready.
func (c *cluster) startReady() (*agent.Agent, func()) {
	c.t.Helper()
	a, stop := c.startAgent()
	c.poll("the node to be Ready", func() bool { return nodeReady(c.getNode()) })
	return a, stop
}

func (c *cluster) getNode() *corev1.Node {
	node, err := c.api.CoreV1().Nodes().Get(c.t.Context(), c.node, metav1.GetOptions{})
	if err != nil {
		return &corev1.Node{}
	}
	return node
}

func nodeReady(node *corev1.Node) bool {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func (c *cluster) get(name string) *corev1.Pod {
	c.t.Helper()
	pod, err := c.api.CoreV1().Pods("default").Get(c.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	return pod
}

func (c *cluster) delete(name string, grace int64) {
	c.t.Helper()
	if err := c.api.CoreV1().Pods("default").Delete(c.t.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: &grace}); err != nil {
		c.t.Fatal(err)
	}
}

// waitEvent waits for an event of the pod with that reason and returns it.
func (c *cluster) waitEvent(pod, reason string) corev1.Event {
	c.t.Helper()
	var found corev1.Event
	c.poll("event "+reason+" of "+pod, func() bool {
		list, err := c.api.CoreV1().Events("default").List(c.t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=" + pod + ",reason=" + reason})
		if err != nil || len(list.Items) == 0 {
			return false
		}
		found = list.Items[0]
		return true
	})
	return found
}

type testWriter struct{ t testing.TB }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}

// create makes a pod from YAML.
func (c *cluster) create(text string) *corev1.Pod {
	c.t.Helper()
	pod := &corev1.Pod{}
	if err := yaml.UnmarshalStrict([]byte(text), pod); err != nil {
		c.t.Fatal(err)
	}
	pod, err := c.api.CoreV1().Pods("default").Create(c.t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	return pod
}

// wait watches the pod until holds is true of it.
func (c *cluster) wait(name, what string, holds func(*corev1.Pod) bool) *corev1.Pod {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 30*time.Second)
	defer cancel()
	watch, err := c.api.CoreV1().Pods("default").Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	if err != nil {
		c.t.Fatal(err)
	}
	defer watch.Stop()
	var last *corev1.Pod
	for event := range watch.ResultChan() {
		if p, ok := event.Object.(*corev1.Pod); ok {
			if last = p; holds(p) {
				return p
			}
		}
	}
	text, _ := yaml.Marshal(last)
	c.t.Fatalf("pod %s never was %s; last seen:\n%s", name, what, text)
	return nil
}

func (c *cluster) waitGone(name string) {
	c.t.Helper()
	c.poll("pod "+name+" to go", func() bool {
		list, err := c.api.CoreV1().Pods("default").List(c.t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + name})
		return err == nil && len(list.Items) == 0
	})
}

// poll asks until the answer is yes.
func (c *cluster) poll(what string, holds func() bool) {
	c.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(30 * time.Second)
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline:
			c.t.Fatalf("waited in vain for %s", what)
		}
	}
}

func ready(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func count(calls []string, prefix string) int {
	n := 0
	for _, call := range calls {
		if strings.HasPrefix(call, prefix) {
			n++
		}
	}
	return n
}
