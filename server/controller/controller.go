// Package controller holds the loops of the control plane: each watches through the registry, decides by a pure function,
// and acts through the registry's verbs.
package controller

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	"edgepod/server/registry"
)

// Config is what every loop needs.
type Config struct {
	Verbs registry.Verbs
	// Release gives up what a namespace has beside its objects, before it goes; nil: it has nothing.
	Release func(ctx context.Context, namespace string) error
	// Log is where a loop says what went wrong; nil discards it.
	Log *slog.Logger
}

func (c Config) logger(name string) *slog.Logger {
	log := c.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return log.With("controller", name)
}

// Loop is one controller. Run blocks until ctx ends and everything that it started is gone.
type Loop interface {
	Run(ctx context.Context) error
}

// All returns the loops of a cluster.
func All(config Config) []Loop {
	return []Loop{
		NewScheduler(config),
		NewNamespaces(config),
		NewServiceAccounts(config),
		NewEvents(config),
		NewNodeLifecycle(config),
		NewEviction(config),
		NewPodCollection(config),
	}
}

// queue works through keys with some workers: a key is handled by one worker at a time, again after what reconcile asks
// for, and with growing pauses after errors.
type queue struct {
	log       *slog.Logger
	workers   int
	reconcile func(ctx context.Context, key types.NamespacedName) (again time.Duration, err error)
	keys      workqueue.TypedRateLimitingInterface[types.NamespacedName]
}

func newQueue(log *slog.Logger, workers int, reconcile func(context.Context, types.NamespacedName) (time.Duration, error)) *queue {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](50*time.Millisecond, time.Minute)
	return &queue{log: log, workers: workers, reconcile: reconcile, keys: workqueue.NewTypedRateLimitingQueue(limiter)}
}

func (q *queue) add(namespace, name string) {
	q.keys.Add(types.NamespacedName{Namespace: namespace, Name: name})
}

// run works until ctx ends, with the sources beside it.
func (q *queue) run(ctx context.Context, sources ...func(context.Context)) error {
	var wait sync.WaitGroup
	for _, source := range sources {
		wait.Go(func() { source(ctx) })
	}
	for range q.workers {
		wait.Go(func() {
			for q.next(ctx) {
			}
		})
	}
	<-ctx.Done()
	q.keys.ShutDown()
	wait.Wait()
	return nil
}

func (q *queue) next(ctx context.Context) bool {
	key, closed := q.keys.Get()
	if closed {
		return false
	}
	defer q.keys.Done(key)
	again, err := q.reconcile(ctx, key)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		q.log.Warn("reconcile", "key", key.String(), "err", err)
		q.keys.AddRateLimited(key)
	default:
		q.keys.Forget(key)
		if again > 0 {
			q.keys.AddAfter(key, again)
		}
	}
	return true
}
