// Package podvalue resolves what a pod's specification refers to: fields of the pod, resources of a container, keys of
// config maps and secrets, and $(NAME) in texts; and from them a container's environment and arguments.
package podvalue

import (
	corev1 "k8s.io/api/core/v1"
)

// Sources gives the config maps and secrets of the pod's namespace. The error for one that does not exist is a status
// error of reason NotFound. What it returns is frozen.
type Sources interface {
	ConfigMap(name string) (*corev1.ConfigMap, error)
	Secret(name string) (*corev1.Secret, error)
}

// Context is what values are resolved against.
type Context struct {
	Pod     *corev1.Pod
	Sources Sources
	// HostIP is the node's address, Allocatable what a container may use that has no limit of its own.
	HostIP      string
	Allocatable corev1.ResourceList
}
