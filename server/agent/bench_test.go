package agent_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	corev1 "k8s.io/api/core/v1"
)

// BenchmarkCreateToReady is the way of a pod through the real control plane and the agent, with a runtime that takes no
// time, as a watch sees it.
func BenchmarkCreateToReady(b *testing.B) {
	c := newCluster(b)
	c.startReady()
	w, err := c.api.CoreV1().Pods("default").Watch(b.Context(), metav1.ListOptions{})
	if err != nil {
		b.Fatal(err)
	}
	defer w.Stop()
	var took []time.Duration
	for i := 0; b.Loop(); i++ {
		name := fmt.Sprintf("p%d", i)
		began := time.Now()
		c.create("{metadata: {name: " + name + "}, spec: {terminationGracePeriodSeconds: 1, containers: [{name: c, image: edgepod.dev/web}]}}")
		c.await(w, func(e watch.Event, p *corev1.Pod) bool { return p.Name == name && ready(p) })
		took = append(took, time.Since(began))
		c.delete(name, 1)
		c.await(w, func(e watch.Event, p *corev1.Pod) bool { return p.Name == name && e.Type == watch.Deleted })
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms-p50")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "ms-p99")
}

func (c *cluster) await(w watch.Interface, holds func(watch.Event, *corev1.Pod) bool) {
	c.t.Helper()
	for e := range w.ResultChan() {
		if p, ok := e.Object.(*corev1.Pod); ok && holds(e, p) {
			return
		}
	}
	c.t.Fatal("the watch ended")
}
