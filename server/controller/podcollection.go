package controller

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"edgepod/server/registry"
)

// The figures of Kubernetes' pod garbage collector.
const (
	collectPeriod    = 20 * time.Second
	orphanQuarantine = 40 * time.Second
	// terminatedKept is how many ended pods the cluster keeps; the oldest beyond that are deleted.
	terminatedKept = 12500
)

// PodCollection deletes pods whose node no longer exists, and the oldest ended pods when there are too many.
type PodCollection struct {
	config Config
	log    *slog.Logger
	// missing holds when a node that pods are bound to was first not there.
	missing map[string]time.Time
}

// NewPodCollection returns the loop.
func NewPodCollection(config Config) *PodCollection {
	return &PodCollection{config: config, log: config.logger("podcollection"), missing: map[string]time.Time{}}
}

// Run implements Loop.
func (c *PodCollection) Run(ctx context.Context) error {
	tick := time.NewTicker(collectPeriod)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := c.sweep(ctx, time.Now()); err != nil && ctx.Err() == nil {
			c.log.Warn("collect pods", "err", err)
		}
	}
}

func (c *PodCollection) sweep(ctx context.Context, now time.Time) error {
	nodes, err := c.config.Verbs.List(ctx, c.config.Verbs.Resource("", "nodes"), registry.ListRequest{})
	if err != nil {
		return err
	}
	list, err := c.config.Verbs.List(ctx, c.config.Verbs.Resource("", "pods"), registry.ListRequest{})
	if err != nil {
		return err
	}
	names := map[string]bool{}
	for _, object := range nodes.Items {
		names[object.Meta().GetName()] = true
	}
	pods := make([]*corev1.Pod, len(list.Items))
	for i, object := range list.Items {
		pods[i] = object.Runtime().(*corev1.Pod)
	}
	c.missing = stillMissing(c.missing, pods, names, now)
	for _, pod := range planCollection(pods, c.missing, now, terminatedKept) {
		c.log.Info("pod is collected", "pod", pod.Namespace+"/"+pod.Name, "node", pod.Spec.NodeName)
		if err := c.remove(ctx, pod); err != nil {
			return err
		}
	}
	return nil
}

func (c *PodCollection) remove(ctx context.Context, pod *corev1.Pod) error {
	none := int64(0)
	_, err := c.config.Verbs.Delete(ctx, c.config.Verbs.Resource("", "pods"), registry.DeleteRequest{
		Namespace: pod.Namespace, Name: pod.Name,
		Options: &metav1.DeleteOptions{GracePeriodSeconds: &none, Preconditions: &metav1.Preconditions{UID: &pod.UID}},
	})
	if apierrors.IsConflict(err) {
		return nil // another pod has its name by now
	}
	return ignoreNotFound(err)
}

// stillMissing returns since when each node that a pod is bound to has not been there.
func stillMissing(before map[string]time.Time, pods []*corev1.Pod, nodes map[string]bool, now time.Time) map[string]time.Time {
	missing := map[string]time.Time{}
	for _, pod := range pods {
		name := pod.Spec.NodeName
		if name == "" || nodes[name] {
			continue
		}
		since, known := before[name]
		if !known {
			since = now
		}
		missing[name] = since
	}
	return missing
}

// planCollection returns the pods to delete: those of nodes that have been missing for the quarantine, and the oldest of
// the ended ones beyond keep.
func planCollection(pods []*corev1.Pod, missing map[string]time.Time, now time.Time, keep int) []*corev1.Pod {
	var remove, finished []*corev1.Pod
	for _, pod := range pods {
		since, lost := missing[pod.Spec.NodeName]
		switch {
		case lost && now.Sub(since) >= orphanQuarantine:
			remove = append(remove, pod)
		case ended(pod):
			finished = append(finished, pod)
		}
	}
	if len(finished) > keep {
		slices.SortStableFunc(finished, func(a, b *corev1.Pod) int {
			return cmp.Compare(a.CreationTimestamp.Unix(), b.CreationTimestamp.Unix())
		})
		remove = append(remove, finished[:len(finished)-keep]...)
	}
	return remove
}
