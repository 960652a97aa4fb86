package controller

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"edgepod/server/registry"
)

// recorder writes Events. The same event again raises the count of the one that is there. It may be used by several
// goroutines.
type recorder struct {
	verbs  registry.Verbs
	log    *slog.Logger
	source string

	mu     sync.Mutex
	recent map[eventKey]string // to the name of the Event
	order  []eventKey
}

type eventKey struct {
	uid             types.UID
	reason, message string
}

// The limits of a recorder: how many events it knows again, and how long a message may be.
const (
	recentEvents    = 1024
	eventMessageMax = 1024
)

func newRecorder(verbs registry.Verbs, log *slog.Logger, source string) *recorder {
	return &recorder{verbs: verbs, log: log, source: source, recent: map[eventKey]string{}}
}

// record writes an Event about the pod. An Event that cannot be written is logged: nothing waits for it.
func (r *recorder) record(ctx context.Context, pod *corev1.Pod, kind, reason, message string, now time.Time) {
	if len(message) > eventMessageMax {
		message = strings.ToValidUTF8(message[:eventMessageMax], "")
	}
	key := eventKey{uid: pod.UID, reason: reason, message: message}
	name := r.known(key)
	var err error
	if name != "" {
		err = r.again(ctx, pod.Namespace, name, now)
	}
	if name == "" || apierrors.IsNotFound(err) {
		err = r.create(ctx, pod, key, kind, now)
	}
	if err != nil && ctx.Err() == nil && !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		r.log.Warn("write event", "pod", pod.Namespace+"/"+pod.Name, "reason", reason, "err", err)
	}
}

func (r *recorder) create(ctx context.Context, pod *corev1.Pod, key eventKey, kind string, now time.Time) error {
	at := metav1.NewTime(now)
	event := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: fmt.Sprintf("%s.%x", pod.Name, now.UnixNano())},
		InvolvedObject: corev1.ObjectReference{
			Kind: "Pod", APIVersion: "v1", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
		},
		Reason: key.reason, Message: key.message, Type: kind, Count: 1,
		FirstTimestamp: at, LastTimestamp: at,
		Source: corev1.EventSource{Component: r.source}, ReportingController: r.source,
	}
	if _, err := r.verbs.Create(ctx, r.verbs.Resource("", "events"), registry.CreateRequest{Namespace: pod.Namespace, Object: event}); err != nil {
		return err
	}
	r.remember(key, event.Name)
	return nil
}

func (r *recorder) again(ctx context.Context, namespace, name string, now time.Time) error {
	_, err := r.verbs.Update(ctx, r.verbs.Resource("", "events"), registry.UpdateRequest{
		Namespace: namespace, Name: name,
		Modify: func(live runtime.Object) (runtime.Object, error) {
			event := live.(*corev1.Event)
			event.Count++
			event.LastTimestamp = metav1.NewTime(now)
			return event, nil
		},
	})
	return err
}

func (r *recorder) known(key eventKey) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.recent[key]
}

func (r *recorder) remember(key eventKey, name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.recent[key]; !known {
		r.order = append(r.order, key)
	}
	r.recent[key] = name
	if len(r.order) > recentEvents {
		delete(r.recent, r.order[0])
		r.order = r.order[1:]
	}
}
