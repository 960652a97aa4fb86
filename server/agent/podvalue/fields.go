package podvalue

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Field returns the value of a field of the pod, as the downward API names it.
func (c Context) Field(path string) (string, error) {
	pod := c.Pod
	if name, key, ok := subscript(path); ok {
		switch name {
		case "metadata.annotations":
			return pod.Annotations[key], nil
		case "metadata.labels":
			return pod.Labels[key], nil
		}
		return "", fmt.Errorf("fieldPath %q does not support subscript", path)
	}
	switch path {
	case "metadata.name":
		return pod.Name, nil
	case "metadata.namespace":
		return pod.Namespace, nil
	case "metadata.uid":
		return string(pod.UID), nil
	case "metadata.labels":
		return formatMap(pod.Labels), nil
	case "metadata.annotations":
		return formatMap(pod.Annotations), nil
	case "spec.nodeName":
		return pod.Spec.NodeName, nil
	case "spec.serviceAccountName":
		return pod.Spec.ServiceAccountName, nil
	case "status.hostIP", "status.hostIPs":
		return c.HostIP, nil
	case "status.podIP":
		return pod.Status.PodIP, nil
	case "status.podIPs":
		return podIPs(pod), nil
	}
	return "", fmt.Errorf("unsupported fieldPath: %v", path)
}

func podIPs(pod *corev1.Pod) string {
	all := make([]string, len(pod.Status.PodIPs))
	for i, ip := range pod.Status.PodIPs {
		all[i] = ip.IP
	}
	return strings.Join(all, ",")
}

// subscript splits "metadata.labels['app']".
func subscript(path string) (name, key string, ok bool) {
	name, rest, ok := strings.Cut(path, "['")
	if !ok {
		return "", "", false
	}
	key, ok = strings.CutSuffix(rest, "']")
	return name, key, ok
}

// formatMap shows one key="value" per line, sorted by key.
func formatMap(m map[string]string) string {
	lines := make([]string, 0, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		lines = append(lines, key+"="+strconv.Quote(m[key]))
	}
	return strings.Join(lines, "\n")
}

// Resource returns a limit or a request of a container of the pod; name is the container that asks, for references that
// name none. A limit that is not set is what the node can give.
func (c Context) Resource(ref *corev1.ResourceFieldSelector, name string) (string, error) {
	if ref.ContainerName != "" {
		name = ref.ContainerName
	}
	container := c.container(name)
	if container == nil {
		return "", fmt.Errorf("container %s not found", name)
	}
	kind, res, _ := strings.Cut(ref.Resource, ".")
	if !slices.Contains([]string{"cpu", "memory", "ephemeral-storage"}, res) {
		return "", fmt.Errorf("unsupported container resource : %v", ref.Resource)
	}
	var amount resource.Quantity
	switch kind {
	case "limits":
		var ok bool
		if amount, ok = container.Resources.Limits[corev1.ResourceName(res)]; !ok || amount.IsZero() {
			amount = c.Allocatable[corev1.ResourceName(res)]
		}
	case "requests":
		amount = container.Resources.Requests[corev1.ResourceName(res)]
	default:
		return "", fmt.Errorf("unsupported container resource : %v", ref.Resource)
	}
	return divided(amount, ref.Divisor, res == "cpu"), nil
}

func (c Context) container(name string) *corev1.Container {
	for _, all := range [][]corev1.Container{c.Pod.Spec.Containers, c.Pod.Spec.InitContainers} {
		if i := slices.IndexFunc(all, func(c corev1.Container) bool { return c.Name == name }); i >= 0 {
			return &all[i]
		}
	}
	return nil
}

// divided is amount in units of divisor, rounded up.
func divided(amount, divisor resource.Quantity, milli bool) string {
	if divisor.IsZero() {
		divisor = resource.MustParse("1")
	}
	a, d := amount.Value(), divisor.Value()
	if milli {
		a, d = amount.MilliValue(), divisor.MilliValue()
	}
	n := a / d
	if a%d > 0 {
		n++
	}
	return strconv.FormatInt(n, 10)
}
