package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// sourceTimeout is how long a pod waits for the first answer about a config map or a secret.
const sourceTimeout = 5 * time.Second

// The resources that pods take values from.
const (
	configMaps = "configmaps"
	secrets    = "secrets"
)

// sourceKey names a config map or a secret.
type sourceKey struct{ resource, namespace, name string }

// sources watches, one by one, the config maps and secrets that the node's pods refer to, and nothing else.
type sources struct {
	client *client
	log    *slog.Logger

	mu      sync.Mutex
	objects map[sourceKey]*source
	// start runs a function until its context ends, and done is closed when the agent ends; set while the agent runs.
	start func(func(context.Context)) (cancel func())
	done  <-chan struct{}
}

// source is one watched object. users are called when it changes.
type source struct {
	kind   string
	users  map[types.UID]func()
	cancel func()

	mu     sync.Mutex
	object runtime.Object
	synced chan struct{}
}

func newSources(client *client, log *slog.Logger) *sources {
	return &sources{client: client, log: log, objects: map[sourceKey]*source{}}
}

// use makes keys the objects that the pod refers to; changed is called, from any goroutine, whenever one of them changes.
func (s *sources) use(pod types.UID, keys []sourceKey, changed func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range keys {
		o := s.objects[key]
		if o == nil {
			o = &source{kind: key.resource, users: map[types.UID]func(){}, synced: make(chan struct{})}
			o.cancel = s.start(func(ctx context.Context) { s.watch(ctx, key, o) })
			s.objects[key] = o
		}
		o.mu.Lock()
		o.users[pod] = changed
		o.mu.Unlock()
	}
	for key, o := range s.objects {
		if slices.Contains(keys, key) {
			continue
		}
		o.mu.Lock()
		delete(o.users, pod)
		unused := len(o.users) == 0
		o.mu.Unlock()
		if unused {
			o.cancel()
			delete(s.objects, key)
		}
	}
}

func (s *sources) watch(ctx context.Context, key sourceKey, o *source) {
	var kind runtime.Object = &corev1.ConfigMap{}
	if key.resource == secrets {
		kind = &corev1.Secret{}
	}
	s.client.reflect(ctx, s.log, key.resource, key.namespace, fields.OneTermEqualSelector("metadata.name", key.name), kind, o)
}

// get returns the object as it was last seen, waiting for the first answer of the API.
func (s *sources) get(key sourceKey) (runtime.Object, error) {
	s.mu.Lock()
	o := s.objects[key]
	s.mu.Unlock()
	if o == nil {
		return nil, fmt.Errorf("%s %s/%s is not among those that the pod refers to", key.resource, key.namespace, key.name)
	}
	timer := time.NewTimer(sourceTimeout)
	defer timer.Stop()
	select {
	case <-o.synced:
	case <-s.done:
		return nil, errors.New("the agent is ending")
	case <-timer.C:
		return nil, fmt.Errorf("the API has not answered yet for %s %s/%s", key.resource, key.namespace, key.name)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.object == nil {
		return nil, apierrors.NewNotFound(corev1.Resource(key.resource[:len(key.resource)-1]), key.name)
	}
	return o.object, nil
}

// Add implements cache.ReflectorStore.
func (o *source) Add(object any) error { return o.set(object.(runtime.Object)) }

// Update implements cache.ReflectorStore.
func (o *source) Update(object any) error { return o.set(object.(runtime.Object)) }

// Delete implements cache.ReflectorStore.
func (o *source) Delete(any) error { return o.set(nil) }

// Replace implements cache.ReflectorStore.
func (o *source) Replace(list []any, _ string) error {
	if len(list) > 1 {
		return errors.New("the API answered with more than the one object that was asked for")
	}
	for _, object := range list {
		return o.set(object.(runtime.Object))
	}
	return o.set(nil)
}

// Resync implements cache.ReflectorStore.
func (o *source) Resync() error { return nil }

func (o *source) set(object runtime.Object) error {
	o.mu.Lock()
	o.object = object
	first := false
	select {
	case <-o.synced:
	default:
		first = true
		close(o.synced)
	}
	users := make([]func(), 0, len(o.users))
	for _, changed := range o.users {
		users = append(users, changed)
	}
	o.mu.Unlock()
	if !first {
		for _, changed := range users {
			changed()
		}
	}
	return nil
}

// podSources gives a pod the objects of its namespace.
type podSources struct {
	*sources
	namespace string
}

// ConfigMap implements podvalue.Sources.
func (s podSources) ConfigMap(name string) (*corev1.ConfigMap, error) {
	object, err := s.get(sourceKey{configMaps, s.namespace, name})
	if err != nil {
		return nil, err
	}
	return object.(*corev1.ConfigMap), nil
}

// Secret implements podvalue.Sources.
func (s podSources) Secret(name string) (*corev1.Secret, error) {
	object, err := s.get(sourceKey{secrets, s.namespace, name})
	if err != nil {
		return nil, err
	}
	return object.(*corev1.Secret), nil
}

// references are the config maps and secrets that the pod's volumes and environments name, and its pull secrets.
func references(pod *corev1.Pod) []sourceKey {
	var out []sourceKey
	add := func(resource, name string) {
		if key := (sourceKey{resource, pod.Namespace, name}); name != "" && !slices.Contains(out, key) {
			out = append(out, key)
		}
	}
	for _, name := range pullSecrets(pod) {
		add(secrets, name)
	}
	for i := range pod.Spec.Volumes {
		volumeReferences(&pod.Spec.Volumes[i], add)
	}
	for _, all := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range all {
			envReferences(&all[i], add)
		}
	}
	return out
}

func volumeReferences(v *corev1.Volume, add func(resource, name string)) {
	if v.ConfigMap != nil {
		add(configMaps, v.ConfigMap.Name)
	}
	if v.Secret != nil {
		add(secrets, v.Secret.SecretName)
	}
	if v.Projected == nil {
		return
	}
	for _, s := range v.Projected.Sources {
		if s.ConfigMap != nil {
			add(configMaps, s.ConfigMap.Name)
		}
		if s.Secret != nil {
			add(secrets, s.Secret.Name)
		}
	}
}

func envReferences(c *corev1.Container, add func(resource, name string)) {
	for _, from := range c.EnvFrom {
		if from.ConfigMapRef != nil {
			add(configMaps, from.ConfigMapRef.Name)
		}
		if from.SecretRef != nil {
			add(secrets, from.SecretRef.Name)
		}
	}
	for _, v := range c.Env {
		if v.ValueFrom == nil {
			continue
		}
		if ref := v.ValueFrom.ConfigMapKeyRef; ref != nil {
			add(configMaps, ref.Name)
		}
		if ref := v.ValueFrom.SecretKeyRef; ref != nil {
			add(secrets, ref.Name)
		}
	}
}
