package agent_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const web = `
metadata: {name: web}
spec:
  terminationGracePeriodSeconds: 5
  containers: [{name: main, image: edgepod.dev/web}]
`

func TestPodRunsIsReportedAndGoesWhenDeleted(t *testing.T) {
	c := newCluster(t)
	c.startAgent()
	pod := c.create(web)
	running := c.wait("web", "ready", ready)
	status := running.Status.ContainerStatuses[0]
	if status.State.Running == nil || status.RestartCount != 0 || status.ContainerID != "edgepod://"+string(pod.UID)+"/main-0" {
		t.Errorf("container status: %+v", status)
	}
	if running.Status.Phase != corev1.PodRunning || running.Status.HostIP == "" || running.Status.StartTime.IsZero() {
		t.Errorf("status: %+v", running.Status)
	}
	if err := c.api.CoreV1().Pods("default").Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.waitGone("web")
	c.poll("the sandbox to be removed", func() bool { return count(c.runtime.Calls(), "remove ") == 1 })
}
