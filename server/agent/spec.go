package agent

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"edgepod/server/agent/lifecycle"
	"edgepod/server/agent/podvalue"
	"edgepod/wasmrt/sandbox"
)

func containerID(name string, attempt int) string { return fmt.Sprintf("%s-%d", name, attempt) }

// containerSpec is what the runtime is to run.
func (j job) containerSpec(a lifecycle.Start) (sandbox.ContainerSpec, error) {
	c := findContainer(j.pod, a.Container)
	if c == nil {
		return sandbox.ContainerSpec{}, fmt.Errorf("container %s not found in pod %s", a.Container, j.pod.Name)
	}
	env, err := j.values().Env(c, hostname(j.pod))
	if err != nil {
		return sandbox.ContainerSpec{}, err
	}
	j.lock.Lock()
	mounts, err := j.volumeFolder().Mounts(j.pod, c, env)
	j.lock.Unlock()
	if err != nil {
		return sandbox.ContainerSpec{}, err
	}
	etc, err := j.folder.etcMounts(j.pod, mounts)
	if err != nil {
		return sandbox.ContainerSpec{}, err
	}
	image, security := j.resolved[a.Container], c.SecurityContext
	return sandbox.ContainerSpec{
		ID: containerID(a.Container, a.Attempt), Name: a.Container, Attempt: a.Attempt,
		Image: c.Image, Digest: image.Digest,
		Args: podvalue.Args(c, env, image.Config), Env: env.Over(image.Config), WorkingDir: podvalue.WorkingDir(c, image.Config),
		Mounts: append(mounts, etc...), Ports: ports(c), Stdin: c.Stdin, Limits: limits(c.Resources),
		ReadOnlyRoot:           security != nil && security.ReadOnlyRootFilesystem != nil && *security.ReadOnlyRootFilesystem,
		Log:                    sandbox.Log{Path: j.folder.log(a.Container, a.Attempt), MaxBytes: j.LogMaxBytes, MaxFiles: j.LogMaxFiles},
		TerminationMessagePath: c.TerminationMessagePath,
		FallbackToLogs:         c.TerminationMessagePolicy == corev1.TerminationMessageFallbackToLogsOnError,
	}, nil
}

// ports are what the container is declared to listen on, each once.
func ports(c *corev1.Container) []sandbox.Port {
	var out []sandbox.Port
	for _, p := range c.Ports {
		protocol, number := string(cmp.Or(p.Protocol, corev1.ProtocolTCP)), uint16(p.ContainerPort)
		again := slices.ContainsFunc(out, func(o sandbox.Port) bool { return o.Protocol == protocol && o.Number == number })
		if !again {
			out = append(out, sandbox.Port{Name: p.Name, Protocol: protocol, Number: number})
		}
	}
	return out
}

func findContainer(pod *corev1.Pod, name string) *corev1.Container {
	for _, all := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		if i := slices.IndexFunc(all, func(c corev1.Container) bool { return c.Name == name }); i >= 0 {
			return &all[i]
		}
	}
	return nil
}

func hostname(pod *corev1.Pod) string {
	name := pod.Spec.Hostname
	if name == "" {
		name = pod.Name
	}
	return name[:min(len(name), 63)]
}

func sandboxSpec(pod *corev1.Pod) sandbox.Spec {
	return sandbox.Spec{
		ID: string(pod.UID), Namespace: pod.Namespace, Name: pod.Name, Hostname: hostname(pod), Limits: podLimits(pod),
	}
}

func limits(r corev1.ResourceRequirements) sandbox.Limits {
	return sandbox.Limits{
		Memory: r.Limits.Memory().Value(), CPUMilli: r.Limits.Cpu().MilliValue(), CPUShareMilli: r.Requests.Cpu().MilliValue(),
	}
}

// podLimits are those of all containers together: their sum, or none where one of them has none, or what the pod's own
// resources say. Init containers run before the others, so that the largest of them counts; sidecars run beside all.
func podLimits(pod *corev1.Pod) sandbox.Limits {
	var sum, sidecars, largest sandbox.Limits
	unlimited := sandbox.Limits{}
	for i := range pod.Spec.Containers {
		addLimits(&sum, &unlimited, limits(pod.Spec.Containers[i].Resources))
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		one := limits(c.Resources)
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			addLimits(&sidecars, &unlimited, one)
			continue
		}
		noteUnlimited(&unlimited, one)
		largest = sandbox.Limits{
			Memory: max(largest.Memory, one.Memory), CPUMilli: max(largest.CPUMilli, one.CPUMilli),
			CPUShareMilli: max(largest.CPUShareMilli, one.CPUShareMilli),
		}
	}
	out := sandbox.Limits{
		Memory: max(sum.Memory, largest.Memory) + sidecars.Memory, CPUMilli: max(sum.CPUMilli, largest.CPUMilli) + sidecars.CPUMilli,
		CPUShareMilli: max(sum.CPUShareMilli, largest.CPUShareMilli) + sidecars.CPUShareMilli,
	}
	if unlimited.Memory != 0 {
		out.Memory = 0
	}
	if unlimited.CPUMilli != 0 {
		out.CPUMilli = 0
	}
	if r := pod.Spec.Resources; r != nil {
		own := limits(*r)
		out.Memory, out.CPUMilli = firstSet(own.Memory, out.Memory), firstSet(own.CPUMilli, out.CPUMilli)
		out.CPUShareMilli = firstSet(own.CPUShareMilli, out.CPUShareMilli)
	}
	return out
}

func addLimits(sum, unlimited *sandbox.Limits, one sandbox.Limits) {
	noteUnlimited(unlimited, one)
	sum.Memory += one.Memory
	sum.CPUMilli += one.CPUMilli
	sum.CPUShareMilli += one.CPUShareMilli
}

// noteUnlimited marks with 1 what one container leaves open.
func noteUnlimited(unlimited *sandbox.Limits, one sandbox.Limits) {
	if one.Memory == 0 {
		unlimited.Memory = 1
	}
	if one.CPUMilli == 0 {
		unlimited.CPUMilli = 1
	}
}

func firstSet(a, b int64) int64 {
	if a != 0 {
		return a
	}
	return b
}
