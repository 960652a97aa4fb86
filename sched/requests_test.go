package sched

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestRequestsOfAPod(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	container := func(requests ...amountOf) corev1.Container {
		return corev1.Container{Name: "i", Resources: corev1.ResourceRequirements{Requests: list(requests)}}
	}
	sidecar := func(requests ...amountOf) corev1.Container {
		c := container(requests...)
		c.RestartPolicy = &always
		return c
	}
	inits := func(containers ...corev1.Container) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.InitContainers = containers }
	}
	resized := func(given, inUse int64) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{
				Name: "c", AllocatedResources: list([]amountOf{milliCPU(given)}),
				Resources: &corev1.ResourceRequirements{Requests: list([]amountOf{milliCPU(inUse)})},
			}}
		}
	}
	for name, c := range map[string]struct {
		change func(*corev1.Pod) // of a pod with one container that requests 500m
		want   int64
	}{
		"container":                          {func(*corev1.Pod) {}, 500},
		"small init container":               {inits(container(milliCPU(300))), 500},
		"large init container":               {inits(container(milliCPU(700))), 700},
		"init containers run one by one":     {inits(container(milliCPU(700)), container(milliCPU(600))), 700},
		"sidecar":                            {inits(sidecar(milliCPU(300))), 800},
		"init container beside a sidecar":    {inits(sidecar(milliCPU(300)), container(milliCPU(700))), 1000},
		"init container before a sidecar":    {inits(container(milliCPU(900)), sidecar(milliCPU(300))), 900},
		"sidecar larger than all containers": {inits(sidecar(milliCPU(900))), 1400},
		"overhead":                           {func(p *corev1.Pod) { p.Spec.Overhead = list([]amountOf{milliCPU(50)}) }, 550},
		"for the pod as a whole": {func(p *corev1.Pod) {
			p.Spec.Resources = &corev1.ResourceRequirements{Requests: list([]amountOf{milliCPU(900)})}
		}, 900},
		"limits for the pod as a whole": {func(p *corev1.Pod) {
			p.Spec.Resources = &corev1.ResourceRequirements{Limits: list([]amountOf{milliCPU(900)})}
		}, 500},
		"being shrunk, not given up yet":   {resized(800, 600), 800},
		"being shrunk, still in use":       {resized(500, 700), 700},
		"being grown":                      {resized(300, 200), 500},
		"being shrunk, reported elsewhere": {func(p *corev1.Pod) { resized(800, 800)(p); p.Status.ContainerStatuses[0].Name = "x" }, 500},
		"wanting more than can ever be given": {func(p *corev1.Pod) {
			resized(300, 200)(p)
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodResizePending, Reason: corev1.PodReasonInfeasible}}
		}, 300},
	} {
		t.Run(name, func(t *testing.T) {
			pod := testPod("p", milliCPU(500), memory(1<<20))
			c.change(pod)
			if got := NewPodInfo(pod).Requests.MilliCPU; got != c.want {
				t.Errorf("got %dm, want %dm", got, c.want)
			}
		})
	}
}

func TestFractionsAreRoundedOnceAndUp(t *testing.T) {
	pod := testPod("p")
	pod.Spec.Containers = append(pod.Spec.Containers, pod.Spec.Containers[0], pod.Spec.Containers[0])
	for i := range pod.Spec.Containers {
		var half resource.Quantity
		half.SetScaled(500, resource.Micro)
		pod.Spec.Containers[i].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: half}
	}
	if got := NewPodInfo(pod).Requests.MilliCPU; got != 2 {
		t.Errorf("three times half a thousandth: got %dm, want 2m", got)
	}
}

func TestContainersThatNameNothingCountALittleForPoints(t *testing.T) {
	nonZero := func(milliCPU, memory int64) NonZeroRequests { return NonZeroRequests{milliCPU, memory << 20} }
	podLevel := func(pod *corev1.Pod, requests ...amountOf) *corev1.Pod {
		pod.Spec.Resources = &corev1.ResourceRequirements{Requests: list(requests)}
		return pod
	}
	for name, c := range map[string]struct {
		pod            *corev1.Pod
		nonZero, rated NonZeroRequests
	}{
		"names nothing":   {testPod("p"), nonZero(100, 200), nonZero(100, 200)},
		"names cpu":       {testPod("p", milliCPU(10)), nonZero(10, 200), nonZero(10, 200)},
		"names zero":      {testPod("p", milliCPU(0), memory(0)), nonZero(0, 0), nonZero(0, 0)},
		"pod names cpu":   {podLevel(testPod("p"), milliCPU(700)), nonZero(700, 200), nonZero(100, 200)},
		"pod names a lot": {podLevel(testPod("p"), milliCPU(700), memory(1<<30)), nonZero(700, 1024), nonZero(100, 200)},
	} {
		t.Run(name, func(t *testing.T) {
			p := NewPodInfo(c.pod)
			if diff := cmp.Diff([]NonZeroRequests{c.nonZero, c.rated}, []NonZeroRequests{p.NonZero, p.Rated}); diff != "" {
				t.Errorf("placed, looking (-want +got):\n%s", diff)
			}
		})
	}
}
