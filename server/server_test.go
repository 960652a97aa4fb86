package server

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// start runs a server on a folder until the test ends, or until the returned function is called.
func start(t *testing.T, dir string) (*Server, func()) {
	t.Helper()
	s, err := New(Config{DataDir: dir, Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	stopped := false
	stop := func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	}
	t.Cleanup(stop)
	<-s.Ready()
	return s, stop
}

func clients(t *testing.T, config *rest.Config) *kubernetes.Clientset {
	t.Helper()
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func admin(t *testing.T, s *Server) *kubernetes.Clientset {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", s.KubeconfigPath())
	if err != nil {
		t.Fatal(err)
	}
	return clients(t, config)
}

func node(name, cpu string) *corev1.Node {
	amounts := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("1Gi"), corev1.ResourcePods: resource.MustParse("110"),
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Status: corev1.NodeStatus{
			Capacity: amounts, Allocatable: amounts,
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
}

func pod(name, cpu string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "c", Image: "edgepod.dev/toolbox",
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}},
		}}},
	}
}

// waitPod watches the pod until the condition holds.
func waitPod(t *testing.T, c *kubernetes.Clientset, name string, holds func(*corev1.Pod) bool) *corev1.Pod {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	watch, err := c.CoreV1().Pods("default").Watch(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String()})
	if err != nil {
		t.Fatal(err)
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
	t.Fatalf("pod %s never came to what was waited for; last seen: %+v", name, last)
	return nil
}

func TestPodGetsANodeAndOneThatFitsNowhereSaysWhy(t *testing.T) {
	s, _ := start(t, t.TempDir())
	c := admin(t, s)
	agent := clients(t, s.AgentConfig("n1"))
	if _, err := agent.CoreV1().Nodes().Create(t.Context(), node("n1", "1"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, p := range []*corev1.Pod{pod("small", "500m"), pod("big", "700m")} {
		if _, err := c.CoreV1().Pods("default").Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	waitPod(t, c, "small", func(p *corev1.Pod) bool { return p.Spec.NodeName == "n1" })
	big := waitPod(t, c, "big", func(p *corev1.Pod) bool { return len(p.Status.Conditions) > 0 })
	condition := big.Status.Conditions[0]
	if condition.Type != corev1.PodScheduled || condition.Reason != corev1.PodReasonUnschedulable ||
		!strings.HasPrefix(condition.Message, "0/1 nodes are available: 1 Insufficient cpu.") {
		t.Errorf("condition of the big pod: %+v", condition)
	}
	none := int64(0)
	if err := c.CoreV1().Pods("default").Delete(t.Context(), "small", metav1.DeleteOptions{GracePeriodSeconds: &none}); err != nil {
		t.Fatal(err)
	}
	waitPod(t, c, "big", func(p *corev1.Pod) bool { return p.Spec.NodeName == "n1" })
	waitEvents(t, c, "small", "Scheduled")
	waitEvents(t, c, "big", "FailedScheduling", "Scheduled")
}

func waitEvents(t *testing.T, c *kubernetes.Clientset, pod string, reasons ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	watch, err := c.CoreV1().Events("default").Watch(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + pod})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	missing := map[string]bool{}
	for _, reason := range reasons {
		missing[reason] = true
	}
	for event := range watch.ResultChan() {
		if e, ok := event.Object.(*corev1.Event); ok {
			delete(missing, e.Reason)
		}
		if len(missing) == 0 {
			return
		}
	}
	t.Errorf("pod %s has no event %v", pod, missing)
}

func TestNamespaceGetsItsAccountAndIsEmptiedBeforeItGoes(t *testing.T) {
	s, _ := start(t, t.TempDir())
	c := admin(t, s)
	ctx := t.Context()
	if _, err := c.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	poll(t, "the default service account", func() bool {
		_, err := c.CoreV1().ServiceAccounts("shop").Get(ctx, "default", metav1.GetOptions{})
		return err == nil
	})
	if _, err := c.CoreV1().ConfigMaps("shop").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "m"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := c.CoreV1().Namespaces().Delete(ctx, "shop", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	poll(t, "the namespace to go", func() bool {
		_, err := c.CoreV1().Namespaces().Get(ctx, "shop", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	left, err := c.CoreV1().ConfigMaps("shop").List(ctx, metav1.ListOptions{})
	if err != nil || len(left.Items) > 0 {
		t.Errorf("left in the namespace: %v, %v", left.Items, err)
	}
}

// poll asks until the answer is yes.
func poll(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(time.Minute)
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

func TestStateAndCredentialsAreKeptOverARestart(t *testing.T) {
	dir := t.TempDir()
	s, stop := start(t, dir)
	c := admin(t, s)
	if _, err := c.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kept"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	before, err := clientcmd.LoadFromFile(s.KubeconfigPath())
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(s.KubeconfigPath())
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("kubeconfig: %v, %v", info.Mode(), err)
	}
	stop()
	s, _ = start(t, dir)
	after, err := clientcmd.LoadFromFile(s.KubeconfigPath())
	if err != nil {
		t.Fatal(err)
	}
	if before.AuthInfos["edgepod-admin"].Token != after.AuthInfos["edgepod-admin"].Token {
		t.Error("the administrator's token changed")
	}
	if _, err := admin(t, s).CoreV1().ConfigMaps("default").Get(t.Context(), "kept", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}

func TestClientCertificateIsTheAdministrators(t *testing.T) {
	s, _ := start(t, t.TempDir())
	dir := s.config.DataDir + "/" + pkiDir
	c := clients(t, &rest.Config{Host: s.URL(), TLSClientConfig: rest.TLSClientConfig{
		CAFile: dir + "/ca.crt", CertFile: dir + "/admin.crt", KeyFile: dir + "/admin.key",
	}})
	if _, err := c.CoreV1().Secrets("").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
}

func TestNodeKubeconfigMayDoANodesWorkAlone(t *testing.T) {
	s, _ := start(t, t.TempDir())
	data, err := NodeKubeconfig(s.config.DataDir, "n2", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(data)
	if err != nil {
		t.Fatal(err)
	}
	c := clients(t, config)
	if _, err := c.CoreV1().Nodes().Create(t.Context(), node("n2", "1"), metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := c.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("a node made a namespace: %v", err)
	}
}

func TestWhatIsInTheWayIsSaid(t *testing.T) {
	s, _ := start(t, t.TempDir())
	cases := map[string]struct {
		config Config
		want   []string
	}{
		"folder in use":  {Config{DataDir: s.config.DataDir, Listen: "127.0.0.1:0"}, []string{s.config.DataDir, "in use"}},
		"port in use":    {Config{DataDir: t.TempDir(), Listen: s.listener.Addr().String()}, []string{"already in use", "--listen"}},
		"not a folder":   {Config{DataDir: os.Args[0], Listen: "127.0.0.1:0"}, []string{"--data-dir"}},
		"not an address": {Config{DataDir: t.TempDir(), Listen: "nonsense"}, []string{"HOST:PORT"}},
		"corrupt":        {Config{DataDir: corrupt(t), Listen: "127.0.0.1:0"}, []string{"edgepod.db"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			other, err := New(c.config)
			if err == nil {
				other.Close()
				t.Fatal("opened")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not say %q", err, want)
				}
			}
			t.Log(err)
		})
	}
}

func corrupt(t *testing.T) string {
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/edgepod.db", []byte(strings.Repeat("nonsense", 4096)), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestPipeEndsItsDialers(t *testing.T) {
	p := newPipe()
	p.Close()
	if _, err := p.dial(t.Context(), "", ""); !errors.Is(err, net.ErrClosed) {
		t.Errorf("dial after close: %v", err)
	}
}
