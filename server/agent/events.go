package agent

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
)

// eventSource is the component that events name, which people and tools look for.
const eventSource = "kubelet"

// eventSink writes events, which client-go's recorder has counted, gathered and limited.
type eventSink struct {
	ctx    func() context.Context
	client *client
}

var _ record.EventSink = eventSink{}

// Create implements record.EventSink.
func (s eventSink) Create(e *corev1.Event) (*corev1.Event, error) {
	ctx, cancel := context.WithTimeout(s.ctx(), requestTimeout)
	defer cancel()
	out := &corev1.Event{}
	return out, s.client.core.Post().Namespace(e.Namespace).Resource("events").Body(e).Do(ctx).Into(out)
}

// Update implements record.EventSink.
func (s eventSink) Update(e *corev1.Event) (*corev1.Event, error) {
	ctx, cancel := context.WithTimeout(s.ctx(), requestTimeout)
	defer cancel()
	out := &corev1.Event{}
	return out, s.client.core.Put().Namespace(e.Namespace).Resource("events").Name(e.Name).Body(e).Do(ctx).Into(out)
}

// Patch implements record.EventSink.
func (s eventSink) Patch(e *corev1.Event, data []byte) (*corev1.Event, error) {
	ctx, cancel := context.WithTimeout(s.ctx(), requestTimeout)
	defer cancel()
	out := &corev1.Event{}
	return out, s.client.core.Patch(types.StrategicMergePatchType).Namespace(e.Namespace).Resource("events").Name(e.Name).
		Body(data).Do(ctx).Into(out)
}

// podRef is the pod as an event's object, with the field of the container that it is about, if any.
func podRef(pod *corev1.Pod, container string) *corev1.ObjectReference {
	ref := &corev1.ObjectReference{
		Kind: "Pod", APIVersion: "v1", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
	}
	if container == "" {
		return ref
	}
	ref.FieldPath = "spec.containers{" + container + "}"
	for _, c := range pod.Spec.InitContainers {
		if c.Name == container {
			ref.FieldPath = "spec.initContainers{" + container + "}"
		}
	}
	return ref
}
