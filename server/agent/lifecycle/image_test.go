package lifecycle_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"edgepod/server/agent/lifecycle"
	"edgepod/wasmrt/sandbox"
)

var resolved = lifecycle.Resolved{
	Digest: "sha256:aa", ID: "r.example/web@sha256:aa", Note: "stands for another",
	Config: sandbox.ImageConfig{Entrypoint: []string{"/app.wasm"}, Env: []string{"A=b"}, WorkingDir: "/srv"},
}

func pulled() lifecycle.Observed {
	seen := lifecycle.Observed{Node: testNode}
	pull := lifecycle.Pull{Container: "main", Image: "r.example/web:v1"}
	pull.Begin(&seen, caseNow)
	pull.End(&seen, lifecycle.Result{Image: resolved}, caseNow)
	return seen
}

func TestWhatAPullFoundIsRememberedAndReported(t *testing.T) {
	data, err := json.Marshal(pulled())
	if err != nil {
		t.Fatal(err)
	}
	var seen lifecycle.Observed
	if err := json.Unmarshal(data, &seen); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(resolved, seen.Containers["main"].Resolved); diff != "" {
		t.Errorf("after a restart of the agent (-want +got):\n%s", diff)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	pod.Spec.Containers = []corev1.Container{{Name: "main", Image: "r.example/web:v1"}}
	seen.Node = testNode
	if cs := lifecycle.Plan(pod, seen, caseNow).Status.ContainerStatuses[0]; cs.ImageID != resolved.ID || cs.Image != "r.example/web:v1" {
		t.Errorf("status: image %q, imageID %q", cs.Image, cs.ImageID)
	}
}

func TestImageIDFollowsTheAttemptThatRuns(t *testing.T) {
	for _, tt := range []struct{ shown, want string }{{"sha256:aa", resolved.ID}, {"", resolved.ID}, {"sha256:bb", ""}} {
		seen := pulled()
		seen.Merge([]sandbox.Status{{Name: "main", State: sandbox.StateRunning, StartedAt: caseNow, Digest: tt.shown}}, caseNow)
		if got := seen.Containers["main"].ID; got != tt.want {
			t.Errorf("with an attempt of digest %q, the image's id is %q, want %q", tt.shown, got, tt.want)
		}
	}
}

func TestImageIDIsReadBackFromTheStatus(t *testing.T) {
	for id, digest := range map[string]string{
		"r.example:5000/team/web@sha256:aa": "sha256:aa", "sha256:bb": "sha256:bb", "": "",
	} {
		var seen lifecycle.Observed
		seen.Restore(corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
			Name: "main", ImageID: id, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
		}}})
		if c := seen.Containers["main"]; c.ID != id || c.Digest != digest {
			t.Errorf("imageID %q became id %q and digest %q", id, c.ID, c.Digest)
		}
	}
}
