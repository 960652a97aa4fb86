package agent_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"edgepod/server/agent"
	"edgepod/wasmrt/sandbox"
)

func (c *cluster) createSecret(name, server, user, password string) {
	c.t.Helper()
	auth := base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Type: corev1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{corev1.DockerConfigJsonKey: fmt.Appendf(nil, `{"auths": {%q: {"auth": %q}}}`, server, auth)},
	}
	if _, err := c.api.CoreV1().Secrets("default").Create(c.t.Context(), secret, metav1.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

// private is a pod whose image needs a secret.
const private = `
metadata: {name: web}
spec:
  terminationGracePeriodSeconds: 1
  imagePullSecrets: [{name: late}, {name: other}]
  containers: [{name: main, image: "r.example/web:v1"}]
`

func TestPullsCarryThePodsSecretsAndNothingTellsThem(t *testing.T) {
	c := newCluster(t)
	var logged lines
	c.config = func(config *agent.Config) {
		config.Log = slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	c.startReady()
	c.createSecret("other", "r.example", "second", "hunter2")
	c.createSecret("late", "r.example/web", "first", "hunter3")
	c.create(private)
	c.wait("web", "ready", ready)
	pulls := c.runtime.Pulls()
	want := []sandbox.Credential{
		{Server: "r.example/web", Username: "first", Password: "hunter3"}, {Server: "r.example", Username: "second", Password: "hunter2"},
	}
	if last := pulls[len(pulls)-1]; !cmp.Equal(last.Credentials, want) || last.Namespace != "default" || last.Policy != sandbox.PullIfNotPresent {
		t.Errorf("pull of %s for %s by %s with %d credentials", last.Ref, last.Namespace, last.Policy, len(last.Credentials))
	}
	for _, secret := range []string{"hunter", base64.StdEncoding.EncodeToString([]byte("first:hunter3"))} {
		if strings.Contains(logged.String(), secret) {
			t.Error("the log tells a password")
		}
	}
}

func TestMissingPullSecretIsToldAndTheImageTriedWithoutAndAtOnceWhenItComes(t *testing.T) {
	c := newCluster(t)
	c.config = func(config *agent.Config) { config.ImagePull.Initial, config.ImagePull.Max = time.Hour, time.Hour }
	c.runtime.FailPull("r.example/web:v1", &sandbox.ImageError{Reason: sandbox.ReasonErrImagePull, Message: "401 Unauthorized"})
	c.startReady()
	broken := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "other"}, Data: map[string][]byte{"password": []byte("hunter2")}}
	if _, err := c.api.CoreV1().Secrets("default").Create(t.Context(), broken, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.create(private)
	c.wait("web", "failing to pull", func(p *corev1.Pod) bool { return strings.Contains(waiting(p).Message, "401") })
	messages := c.eventMessages("web", "FailedToRetrieveImagePullSecret", 2)
	for _, want := range []string{
		"Unable to retrieve some image pull secrets (late); attempting to pull the image may not succeed.",
		`Image pull secret other can't be used: it is of type "Opaque", not kubernetes.io/dockerconfigjson`,
	} {
		if !strings.Contains(messages, want) {
			t.Errorf("events:\n%swant %q", messages, want)
		}
	}
	c.runtime.FailPull("r.example/web:v1", nil)
	c.createSecret("late", "r.example", "u", "p")
	c.wait("web", "ready", ready)
}

func TestImagesSayHowTheyAreRunAlsoAfterARestartOfTheAgent(t *testing.T) {
	c := newCluster(t)
	_, stop := c.startReady()
	c.runtime.SetImage("r.example/web:v1", sandbox.Image{
		Digest: "sha256:aa", ID: "r.example/web@sha256:aa", Size: 5000,
		Config: sandbox.ImageConfig{
			Entrypoint: []string{"/app.wasm", "serve"}, Cmd: []string{"--port=80"}, Env: []string{"MODE=image", "LEVEL=1"}, WorkingDir: "/srv",
		},
	})
	pod := c.create(`
metadata: {name: web}
spec:
  terminationGracePeriodSeconds: 1
  initContainers:
  - {name: side, image: "r.example/side:v1", restartPolicy: Always, ports: [{containerPort: 53, protocol: UDP, name: dns}]}
  containers:
  - name: main
    image: r.example/web:v1
    stdin: true
    ports: [{containerPort: 80, name: http}, {containerPort: 81}, {containerPort: 80, name: again}]
    env: [{name: MODE, value: pod}]
`)
	p := c.wait("web", "ready", ready)
	if cs := p.Status.ContainerStatuses[0]; cs.Image != "r.example/web:v1" || cs.ImageID != "r.example/web@sha256:aa" {
		t.Errorf("image %s, imageID %s", cs.Image, cs.ImageID)
	}
	check := func(id string) {
		t.Helper()
		spec, err := c.runtime.Spec(string(pod.UID), id)
		if err != nil {
			t.Fatal(err)
		}
		got := []any{spec.Args, spec.Env, spec.WorkingDir, spec.Digest, spec.Stdin, spec.Ports}
		want := []any{
			[]string{"/app.wasm", "serve", "--port=80"},
			[]string{"LEVEL=1", "HOSTNAME=web", "MODE=pod"},
			"/srv", "sha256:aa", true,
			[]sandbox.Port{{Name: "http", Protocol: "TCP", Number: 80}, {Protocol: "TCP", Number: 81}},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", id, diff)
		}
	}
	check("main-0")
	side, err := c.runtime.Spec(string(pod.UID), "side-0")
	if want := []sandbox.Port{{Name: "dns", Protocol: "UDP", Number: 53}}; err != nil || !cmp.Equal(side.Ports, want) || side.Stdin {
		t.Errorf("sidecar: ports %v, stdin %v, %v", side.Ports, side.Stdin, err)
	}
	stop()
	c.exit(pod, "main-0", 1)
	c.startAgent()
	c.wait("web", "restarted", restarted(1))
	check("main-1")
	if cs := c.get("web").Status.ContainerStatuses[0]; cs.ImageID != "r.example/web@sha256:aa" {
		t.Errorf("imageID after the restart: %s", cs.ImageID)
	}
}

func TestWhatAnImageStandsForIsToldOnce(t *testing.T) {
	c := newCluster(t)
	c.startReady()
	const note = "nginx stands for the built-in module edgepod.dev/web"
	c.runtime.SetImage("nginx", sandbox.Image{Note: note})
	pod := c.create(`{metadata: {name: web}, spec: {terminationGracePeriodSeconds: 1, containers: [{name: main, image: nginx}]}}`)
	c.wait("web", "ready", ready)
	c.exit(pod, "main-0", 1)
	c.wait("web", "restarted", restarted(1))
	c.exit(pod, "main-1", 1)
	c.wait("web", "restarted again", restarted(2))
	e := c.waitEvent("web", "ImageAlias")
	if e.Type != corev1.EventTypeNormal || e.Message != note || e.Count != 1 {
		t.Errorf("event of type %s, %d times: %q", e.Type, e.Count, e.Message)
	}
}

func TestNodeListsAndCollectsImages(t *testing.T) {
	c := newCluster(t)
	c.config = func(config *agent.Config) {
		config.Node.Look = 20 * time.Millisecond
		config.ImageGC = agent.ImageGC{MaxSize: 1, MinAge: time.Nanosecond, Period: 20 * time.Millisecond}
	}
	failure := errors.New("the disk is read-only")
	c.runtime.FailCollect(failure)
	c.startReady()
	c.runtime.SetImage("r.example/old", sandbox.Image{Digest: "sha256:aa", ID: "r.example/old@sha256:aa", Size: 7000})
	if _, err := c.runtime.Pull(t.Context(), sandbox.PullRequest{Ref: "r.example/old"}); err != nil {
		t.Fatal(err)
	}
	c.create(web("Always"))
	c.wait("web", "ready", ready)
	listed := func(want ...string) func() bool {
		return func() bool {
			var names []string
			for _, image := range c.getNode().Status.Images {
				names = append(names, image.Names...)
			}
			return cmp.Equal(names, want)
		}
	}
	c.poll("the node to list its images", listed("r.example/old@sha256:aa", "r.example/old", "edgepod.dev/web"))
	if e := c.waitEvent("n1", "ImageGCFailed"); e.Message != failure.Error() {
		t.Errorf("event: %q", e.Message)
	}
	c.runtime.FailCollect(nil)
	c.poll("the image to go that nothing uses", listed("edgepod.dev/web"))
}

func waiting(p *corev1.Pod) corev1.ContainerStateWaiting {
	for _, cs := range p.Status.ContainerStatuses {
		if cs.State.Waiting != nil {
			return *cs.State.Waiting
		}
	}
	return corev1.ContainerStateWaiting{}
}

// eventMessages waits for so many different messages of the pod's events of a reason and returns them, one per line.
func (c *cluster) eventMessages(pod, reason string, n int) string {
	c.t.Helper()
	var out string
	c.poll(fmt.Sprintf("%d events %s of %s", n, reason, pod), func() bool {
		list, err := c.api.CoreV1().Events("default").List(c.t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=" + pod + ",reason=" + reason})
		out = ""
		if err == nil {
			for _, e := range list.Items {
				out += e.Message + "\n"
			}
		}
		return strings.Count(out, "\n") >= n
	})
	return out
}

// lines is a log that a test reads.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func TestLongCompilationsAreTold(t *testing.T) {
	c := newCluster(t)
	c.startReady()
	c.runtime.SetImage("edgepod.dev/web", sandbox.Image{Size: 9, Took: 2 * time.Second, CompileTook: 1500 * time.Millisecond})
	c.create(web("Always"))
	c.wait("web", "ready", ready)
	want := `Successfully pulled image "edgepod.dev/web" in 2s (2s including waiting). Image size: 9 bytes. Compiling it took 1.5s.`
	if e := c.waitEvent("web", "Pulled"); e.Message != want {
		t.Errorf("event: %q, want %q", e.Message, want)
	}
}

func TestRestartsKeepTheImageUnlessTheyAreToLook(t *testing.T) {
	for policy, want := range map[string]string{"IfNotPresent": "sha256:aa", "Always": "sha256:bb"} {
		t.Run(policy, func(t *testing.T) {
			c := newCluster(t)
			_, stop := c.startReady()
			const ref = "r.example/web:v1"
			c.runtime.SetImage(ref, sandbox.Image{Digest: "sha256:aa", ID: "r.example/web@sha256:aa"})
			if _, err := c.runtime.Pull(t.Context(), sandbox.PullRequest{Ref: ref}); err != nil {
				t.Fatal(err)
			}
			pod := c.create(`
metadata: {name: web}
spec: {terminationGracePeriodSeconds: 1, containers: [{name: main, image: "` + ref + `", imagePullPolicy: ` + policy + `}]}
`)
			c.wait("web", "ready", ready)
			// The tag moves on, and another pod has the node pull it.
			c.runtime.SetImage(ref, sandbox.Image{Digest: "sha256:bb", ID: "r.example/web@sha256:bb"})
			if _, err := c.runtime.Pull(t.Context(), sandbox.PullRequest{Ref: ref, Policy: sandbox.PullAlways}); err != nil {
				t.Fatal(err)
			}
			c.exit(pod, "main-0", 1)
			c.wait("web", "restarted", restarted(1))
			stop()
			c.exit(pod, "main-1", 1)
			c.startAgent()
			p := c.wait("web", "restarted by the next agent", restarted(2))
			for _, id := range []string{"main-1", "main-2"} {
				if spec, err := c.runtime.Spec(string(pod.UID), id); err == nil && spec.Digest != want {
					t.Errorf("%s runs %s, want %s", id, spec.Digest, want)
				}
			}
			if got := p.Status.ContainerStatuses[0].ImageID; got != "r.example/web@"+want {
				t.Errorf("imageID %s, want that of %s", got, want)
			}
		})
	}
}

func TestImageThatHasGoneIsPulledAgain(t *testing.T) {
	c := newCluster(t)
	c.startReady()
	c.runtime.SetImage("r.example/web:v1", sandbox.Image{Digest: "sha256:aa", ID: "r.example/web@sha256:aa"})
	pod := c.create(`
metadata: {name: web}
spec: {terminationGracePeriodSeconds: 1, containers: [{name: main, image: "r.example/web:v1", envFrom: [{configMapRef: {name: late}}]}]}
`)
	c.wait("web", "waiting for its config map", func(p *corev1.Pod) bool { return waiting(p).Reason == "CreateContainerConfigError" })
	if got, err := c.runtime.CollectImages(t.Context(), sandbox.CollectRequest{Free: 1 << 40}); err != nil || got.Images != 1 {
		t.Fatalf("collected %+v, %v", got, err)
	}
	late := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "late"}}
	if _, err := c.api.CoreV1().ConfigMaps("default").Create(t.Context(), late, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.wait("web", "ready", ready)
	if spec, err := c.runtime.Spec(string(pod.UID), "main-0"); err != nil || spec.Digest != "sha256:aa" {
		t.Errorf("runs %s, %v", spec.Digest, err)
	}
}

func TestPrivateImagesRestartWithoutRegistryAndApi(t *testing.T) {
	c := newCluster(t)
	_, stop := c.startReady()
	c.runtime.SetImage("r.example/web:v1", sandbox.Image{Digest: "sha256:aa", ID: "r.example/web@sha256:aa"})
	c.createSecret("late", "r.example", "u", "p")
	c.createSecret("other", "other.example", "u", "p")
	pod := c.create(private)
	c.wait("web", "ready", ready)
	c.runtime.FailPull("r.example/web:v1", &sandbox.ImageError{Reason: sandbox.ReasonErrImagePull, Message: "no route to host"})
	stop()
	way, cutter := c.cuttable()
	cutter.off.Store(true)
	c.exit(pod, "main-0", 1)
	c.startAgentOver(way)
	c.poll("a restart", func() bool { return count(c.runtime.Calls(), fmt.Sprintf("start %s/main-1", pod.UID)) == 1 })
	if spec, err := c.runtime.Spec(string(pod.UID), "main-1"); err != nil || spec.Digest != "sha256:aa" {
		t.Errorf("restarted as %q, %v", spec.Digest, err)
	}
}
