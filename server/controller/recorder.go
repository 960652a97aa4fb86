package controller

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"edgepod/server/registry"
)

// recorder writes Events about pods. It may be used by several goroutines.
type recorder struct {
	verbs  registry.Verbs
	source string
	serial atomic.Int64
}

// The limits of what the API takes.
const (
	eventMessageMax = 1024
	eventNameMax    = 253
)

func newRecorder(verbs registry.Verbs, source string) *recorder {
	return &recorder{verbs: verbs, source: source}
}

// notice is what an Event says.
type notice struct {
	kind, reason, message string
	at                    time.Time
}

// create writes an Event that tells of something that happened count times, and returns its name.
func (r *recorder) create(ctx context.Context, pod *corev1.Pod, n notice, count int32) (string, error) {
	message := n.message
	if len(message) > eventMessageMax {
		message = strings.ToValidUTF8(message[:eventMessageMax], "")
	}
	at := metav1.NewTime(n.at)
	event := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: r.eventName(pod.Name, n.at)},
		InvolvedObject: corev1.ObjectReference{
			Kind: "Pod", APIVersion: "v1", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
		},
		Reason: n.reason, Message: message, Type: n.kind, Count: count,
		FirstTimestamp: at, LastTimestamp: at,
		Source: corev1.EventSource{Component: r.source}, ReportingController: r.source,
	}
	_, err := r.verbs.Create(ctx, r.verbs.Resource("", "events"), registry.CreateRequest{Namespace: pod.Namespace, Object: event})
	return event.Name, err
}

// again tells in an Event that is there that the same happened count times more.
func (r *recorder) again(ctx context.Context, namespace, name string, count int32, at time.Time) error {
	_, err := r.verbs.Update(ctx, r.verbs.Resource("", "events"), registry.UpdateRequest{
		Namespace: namespace, Name: name,
		Modify: func(live runtime.Object) (runtime.Object, error) {
			event := live.(*corev1.Event)
			event.Count += count
			event.LastTimestamp = metav1.NewTime(at)
			return event, nil
		},
	})
	return err
}

// eventName returns the name of a new Event about the object of that name, as Kubernetes forms them. Two Events of the same
// moment get different ones.
func (r *recorder) eventName(about string, at time.Time) string {
	suffix := fmt.Sprintf(".%x", at.UnixNano()+r.serial.Add(1))
	about = about[:min(len(about), eventNameMax-len(suffix))]
	return strings.TrimRight(about, ".-") + suffix
}
