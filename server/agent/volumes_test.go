//go:build unix

package agent_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"edgepod/server/agent"
	"edgepod/wasmrt/sandbox"
)

// TestVolumesAreThePodsUsersOrRoots mounts a secret that only its owner may read beside a folder of the host: the pod's
// own user has both where it may use the folder, and root where it may not.
func TestVolumesAreThePodsUsersOrRoots(t *testing.T) {
	base := t.TempDir()
	for name, mode := range map[string]os.FileMode{"shared": 0o777, "closed": 0o700} {
		dir := filepath.Join(base, name)
		if err := errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, mode)); err != nil {
			t.Fatal(err)
		}
	}
	owner := sandbox.Owner{UID: 65534, GID: 65534}
	if os.Geteuid() != 0 {
		owner = sandbox.Owner{UID: os.Geteuid(), GID: os.Getegid()} // only root may give files away
	}
	c := newCluster(t)
	c.config = func(config *agent.Config) { config.HostPaths = []string{base} }
	c.runtime.SetOwner(owner)
	c.startReady()
	sec := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "sec"}, StringData: map[string]string{"k": "v"}}
	if _, err := c.api.CoreV1().Secrets("default").Create(t.Context(), sec, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"shared", "closed"} {
		pod := c.create(fmt.Sprintf(`
metadata: {name: %s}
spec:
  volumes: [{name: s, secret: {secretName: sec, defaultMode: 0o400}}, {name: h, hostPath: {path: %s}}]
  containers: [{name: main, image: edgepod.dev/web, volumeMounts: [{name: s, mountPath: /s}, {name: h, mountPath: /h}]}]
`, name, filepath.Join(base, name)))
		c.wait(name, "ready", ready)
		asRoot := name == "closed" && os.Geteuid() == 0
		if got := c.sandboxSpec(pod.UID); got.AsRoot != asRoot {
			t.Errorf("%s: sandbox as root: %v, want %v", name, got.AsRoot, asRoot)
		}
		spec, err := c.runtime.Spec(string(pod.UID), "main-0")
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(filepath.Join(spec.Mounts[0].Source, "k"))
		if err != nil {
			t.Fatal(err)
		}
		uid, want := info.Sys().(*syscall.Stat_t).Uid, uint32(owner.UID)
		if asRoot {
			want = 0
		}
		if uid != want {
			t.Errorf("%s: the secret belongs to %d, want %d", name, uid, want)
		}
	}
	if os.Geteuid() != 0 {
		return
	}
	if e := c.waitEvent("closed", "VolumeAccessibleToRootOnly"); !strings.Contains(e.Message, `"h" (`+base+`/closed)`) || e.Type != corev1.EventTypeWarning {
		t.Errorf("event: %+v", e)
	}
}

func TestPodThatExceedsAVolumesLimitIsEvicted(t *testing.T) {
	c := newCluster(t)
	c.config = func(config *agent.Config) { config.Measure = 20 * time.Millisecond }
	c.startReady()
	pod := c.create(`
metadata: {name: web}
spec:
  restartPolicy: Always
  volumes: [{name: free, emptyDir: {}}, {name: small, emptyDir: {sizeLimit: 1Mi}}]
  containers: [{name: main, image: edgepod.dev/web, volumeMounts: [{name: free, mountPath: /f}, {name: small, mountPath: /s}]}]
`)
	c.wait("web", "ready", ready)
	spec, err := c.runtime.Spec(string(pod.UID), "main-0")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(spec.Mounts[0].Source, "big"), make([]byte, 2<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(spec.Mounts[1].Source, "big"), make([]byte, 2<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	failed := c.wait("web", "failed", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodFailed })
	const message = `Usage of EmptyDir volume "small" exceeds the limit "1Mi". `
	if failed.Status.Reason != "Evicted" || failed.Status.Message != message {
		t.Errorf("reason %q, message %q", failed.Status.Reason, failed.Status.Message)
	}
	disrupted := slices.ContainsFunc(failed.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && c.Reason == "TerminationByKubelet" && c.Message == message
	})
	if !disrupted {
		t.Errorf("conditions: %+v", failed.Status.Conditions)
	}
	if e := c.waitEvent("web", "Evicted"); e.Message != message || e.Type != corev1.EventTypeWarning {
		t.Errorf("event: %+v", e)
	}
	if n := count(c.runtime.Calls(), "start "); n != 1 {
		t.Errorf("%d starts, want 1", n)
	}
}

func (c *cluster) sandboxSpec(uid types.UID) sandbox.Spec {
	c.t.Helper()
	all, err := c.runtime.List(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	for _, s := range all {
		if s.Spec().ID == string(uid) {
			return s.Spec()
		}
	}
	c.t.Fatalf("there is no sandbox of pod %s", uid)
	return sandbox.Spec{}
}

func TestPodGoesAtOnceWhoseConfigMapWentBefore(t *testing.T) {
	c := newCluster(t)
	c.config = func(config *agent.Config) { config.Retry = time.Hour }
	c.startReady()
	cfg := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "cfg"}, Data: map[string]string{"a": "1"}}
	if _, err := c.api.CoreV1().ConfigMaps("default").Create(t.Context(), cfg, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.create(`
metadata: {name: web}
spec:
  terminationGracePeriodSeconds: 1
  volumes: [{name: v, configMap: {name: cfg}}]
  containers: [{name: main, image: app, volumeMounts: [{name: v, mountPath: /v}]}]
`)
	c.wait("web", "ready", ready)
	if err := c.api.CoreV1().ConfigMaps("default").Delete(t.Context(), "cfg", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.waitEvent("web", "FailedMount")
	c.delete("web", 1)
	c.waitGone("web")
}
