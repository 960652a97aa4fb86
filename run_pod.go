package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// pod returns the pod that the options describe.
func (o *runOptions) pod(module, image string, args []string) (*corev1.Pod, error) {
	name := moduleName(module)
	container := corev1.Container{Name: name, Image: image, Args: args, ImagePullPolicy: corev1.PullIfNotPresent}
	if image != module {
		// The copy is named by its digest; programs that look at their own name are to see the one that the user knows.
		container.Command = []string{filepath.Base(module)}
	}
	var err error
	if container.Env, err = environment(o.env, os.LookupEnv); err != nil {
		return nil, err
	}
	if container.Resources.Limits, err = limits(o.memory, o.cpu); err != nil {
		return nil, err
	}
	spec := corev1.PodSpec{RestartPolicy: o.restartPolicy()}
	if spec.Volumes, container.VolumeMounts, err = folders(o.dirs); err != nil {
		return nil, err
	}
	spec.Containers = []corev1.Container{container}
	pod := &corev1.Pod{Spec: spec}
	pod.Labels = map[string]string{"run": name}
	pod.Name = o.name
	if pod.Name == "" {
		pod.GenerateName = name + "-"
	}
	return pod, nil
}

func (o *runOptions) restartPolicy() corev1.RestartPolicy {
	switch {
	case o.restart != "":
		return corev1.RestartPolicy(o.restart)
	case o.detach:
		return corev1.RestartPolicyAlways
	}
	return corev1.RestartPolicyNever
}

// moduleName makes a name that the API accepts from the module's file name.
func moduleName(module string) string {
	name := strings.TrimSuffix(filepath.Base(module), filepath.Ext(module))
	name = regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(strings.ToLower(name), "-")
	name = strings.Trim(name[:min(len(name), 40)], "-")
	if name == "" {
		return "module"
	}
	return name
}

// environment reads NAME=VALUE pairs; a NAME alone takes the value of the caller's own variable.
func environment(pairs []string, lookup func(string) (string, bool)) ([]corev1.EnvVar, error) {
	var env []corev1.EnvVar
	for _, pair := range pairs {
		name, value, ok := strings.Cut(pair, "=")
		if !ok {
			if value, ok = lookup(name); !ok {
				return nil, fmt.Errorf("--env %s: there is no variable of that name here; give a value with %s=VALUE", name, name)
			}
		}
		if name == "" {
			return nil, fmt.Errorf("--env %q has no name", pair)
		}
		env = append(env, corev1.EnvVar{Name: name, Value: value})
	}
	return env, nil
}

func limits(memory, cpu string) (corev1.ResourceList, error) {
	list := corev1.ResourceList{}
	for name, text := range map[corev1.ResourceName]string{corev1.ResourceMemory: memory, corev1.ResourceCPU: cpu} {
		if text == "" {
			continue
		}
		quantity, err := resource.ParseQuantity(text)
		if err != nil {
			return nil, fmt.Errorf("--%s %q: %w", name, text, err)
		}
		list[name] = quantity
	}
	if len(list) == 0 {
		return nil, nil
	}
	return list, nil
}

// folders reads HOST:GUEST and HOST:GUEST:ro (or :rw) into hostPath volumes and their mounts.
func folders(dirs []string) (volumes []corev1.Volume, mounts []corev1.VolumeMount, err error) {
	for i, dir := range dirs {
		parts := strings.Split(dir, ":")
		mode := "rw"
		if len(parts) == 3 {
			mode, parts = parts[2], parts[:2]
		}
		if len(parts) != 2 || parts[0] == "" || !strings.HasPrefix(parts[1], "/") || mode != "ro" && mode != "rw" {
			return nil, nil, fmt.Errorf("--dir %q is not HOST:GUEST or HOST:GUEST:ro with an absolute GUEST", dir)
		}
		host, err := filepath.Abs(parts[0])
		if err != nil {
			return nil, nil, err
		}
		info, err := os.Stat(host)
		if err != nil {
			return nil, nil, fmt.Errorf("--dir %s: %w", dir, err)
		}
		if !info.IsDir() {
			return nil, nil, fmt.Errorf("--dir %s: %s is not a folder", dir, host)
		}
		kind := corev1.HostPathDirectory
		name := fmt.Sprintf("dir-%d", i)
		volumes = append(volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: host, Type: &kind}}})
		mounts = append(mounts, corev1.VolumeMount{Name: name, MountPath: parts[1], ReadOnly: mode == "ro"})
	}
	return volumes, mounts, nil
}
