package agent

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// requestTimeout bounds each request that is no watch.
const requestTimeout = 15 * time.Second

// client speaks to the API about the few kinds that an agent knows. It links no clientset, which would cost more memory
// than the rest of the agent.
type client struct {
	scheme *runtime.Scheme
	params runtime.ParameterCodec
	core   *rest.RESTClient
	leases *rest.RESTClient
}

func newClient(config *rest.Config) (*client, error) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	if err := coordinationv1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	c := &client{scheme: scheme, params: runtime.NewParameterCodec(scheme)}
	var err error
	if c.core, err = c.group(config, "/api", corev1.SchemeGroupVersion); err != nil {
		return nil, err
	}
	c.leases, err = c.group(config, "/apis", coordinationv1.SchemeGroupVersion)
	return c, err
}

func (c *client) group(config *rest.Config, path string, version schema.GroupVersion) (*rest.RESTClient, error) {
	config = rest.CopyConfig(config)
	config.APIPath, config.GroupVersion = path, &version
	config.NegotiatedSerializer = serializer.NewCodecFactory(c.scheme).WithoutConversion()
	config.QPS = -1
	if config.UserAgent == "" {
		config.UserAgent = "edgepod-agent"
	}
	out, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("way to the API: %w", err)
	}
	return out, nil
}

// updateStatus replaces the status of an object of the core group, into which the answer is decoded.
func (c *client) updateStatus(ctx context.Context, resource, namespace, name string, in, out runtime.Object) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return c.core.Put().NamespaceIfScoped(namespace, namespace != "").Resource(resource).Name(name).SubResource("status").
		Body(in).Do(ctx).Into(out)
}

// pod returns the pod as the API has it now.
func (c *client) pod(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	out := &corev1.Pod{}
	return out, c.core.Get().Namespace(namespace).Resource("pods").Name(name).Do(ctx).Into(out)
}

// deletePod lets the object of a pod go whose containers have ended, if it is still the same pod.
func (c *client) deletePod(ctx context.Context, namespace, name string, uid types.UID) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	grace := int64(0)
	return c.core.Delete().Namespace(namespace).Resource("pods").Name(name).
		Body(&metav1.DeleteOptions{GracePeriodSeconds: &grace, Preconditions: &metav1.Preconditions{UID: &uid}}).Do(ctx).Error()
}

// reflect keeps store up to date with what the selector selects, until ctx ends.
func (c *client) reflect(ctx context.Context, log *slog.Logger, resource, namespace string, selector fields.Selector, kind runtime.Object, store cache.ReflectorStore) {
	request := func(o metav1.ListOptions) *rest.Request {
		o.FieldSelector = selector.String()
		return c.core.Get().NamespaceIfScoped(namespace, namespace != "").Resource(resource).VersionedParams(&o, c.params)
	}
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			ctx, cancel := context.WithTimeout(ctx, requestTimeout)
			defer cancel()
			return request(o).Do(ctx).Get()
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.Watch = true
			return request(o).Watch(ctx)
		},
	}
	logger := clientLogger(ctx, log)
	r := cache.NewReflectorWithOptions(lw, kind, store, cache.ReflectorOptions{
		Name: "agent/" + resource, Logger: &logger,
		Backoff: &wait.Backoff{Duration: 200 * time.Millisecond, Cap: 5 * time.Second, Steps: 6, Factor: 2, Jitter: 0.2},
	})
	r.RunWithContext(klog.NewContext(ctx, logger))
}

// clientLogger is where client-go logs, for debugging: the agent says itself what it could not do. What client-go says once
// ctx has ended is that it could not go on.
func clientLogger(ctx context.Context, log *slog.Logger) logr.Logger {
	return logr.FromSlogHandler(untilDone{log.Handler(), ctx.Done()})
}

// untilDone logs at level debug, and drops what comes after done, and the bodies of requests and answers: they may hold
// secrets.
type untilDone struct {
	slog.Handler
	done <-chan struct{}
}

// LevelBodies is the level at which client-go logs the bodies of requests and answers: its verbosity of 8. They may hold secrets,
// and are never to be logged.
const LevelBodies slog.Level = -8

// Enabled implements slog.Handler.
func (h untilDone) Enabled(ctx context.Context, level slog.Level) bool {
	if level <= LevelBodies {
		return false
	}
	select {
	case <-h.done:
		return false
	default:
		return h.Handler.Enabled(ctx, slog.LevelDebug)
	}
}

// Handle implements slog.Handler.
func (h untilDone) Handle(ctx context.Context, r slog.Record) error {
	r.Level = slog.LevelDebug
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h untilDone) WithAttrs(attrs []slog.Attr) slog.Handler {
	return untilDone{h.Handler.WithAttrs(attrs), h.done}
}

// WithGroup implements slog.Handler.
func (h untilDone) WithGroup(name string) slog.Handler {
	return untilDone{h.Handler.WithGroup(name), h.done}
}
