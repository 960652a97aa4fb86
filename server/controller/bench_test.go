package controller

import (
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"edgepod/server/registry"
)

// cpuTime is what this process has used.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// createMany creates objects as many clients at once would.
func createMany(b *testing.B, c *cluster, n int, pod func(i int) *corev1.Pod) {
	b.Helper()
	var wait sync.WaitGroup
	next := make(chan int)
	for range 64 {
		wait.Go(func() {
			for i := range next {
				if _, err := c.Create(b.Context(), c.res("pods"), registry.CreateRequest{Object: pod(i)}); err != nil {
					b.Error(err)
				}
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wait.Wait()
}

// until follows a resource until enough of its objects are as wanted.
func until[T any](b *testing.B, c *cluster, resource string, n int, wanted func(*T) bool) {
	b.Helper()
	w, err := c.Watch(b.Context(), c.res(resource), registry.WatchRequest{SendInitialEvents: true})
	if err != nil {
		b.Fatal(err)
	}
	for seen := map[string]bool{}; len(seen) < n; {
		events, err := w.Next(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		for _, e := range events {
			if e.Object != nil && wanted(e.Object.Runtime().(any).(*T)) {
				seen[e.Object.Meta().GetName()] = true
			}
		}
	}
}

// BenchmarkScheduler binds pods that wait to 100 nodes: decision, durable binding and Event.
func BenchmarkScheduler(b *testing.B) {
	c := newCluster(b)
	for i := range 100 {
		node := readyNode(fmt.Sprintf("n%03d", i), "1000")
		node.Status.Allocatable[corev1.ResourcePods] = resource.MustParse("100k")
		c.create("nodes", node)
	}
	createMany(b, c, b.N, func(i int) *corev1.Pod { return newPod(fmt.Sprintf("p%d", i), fmt.Sprintf("%dm", 1+i%50)) })
	b.ResetTimer()
	before := cpuTime(b)
	stop := c.start(NewScheduler(c.config()))
	until(b, c, "pods", b.N, func(pod *corev1.Pod) bool { return pod.Spec.NodeName != "" })
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "bound/s")
	until(b, c, "events", b.N, func(e *corev1.Event) bool { return e.Reason == "Scheduled" })
	b.StopTimer()
	b.ReportMetric(float64((cpuTime(b)-before).Microseconds())/float64(b.N), "cpu-µs/pod")
	stop()
}

// BenchmarkUnschedulable tries pods again that fit nowhere, each time that room comes free: what does a change cost while
// 2,000 pods wait?
func BenchmarkUnschedulable(b *testing.B) {
	c := newCluster(b)
	for i := range 100 {
		c.create("nodes", readyNode(fmt.Sprintf("n%03d", i), "1"))
	}
	createMany(b, c, 2000, func(i int) *corev1.Pod { return newPod(fmt.Sprintf("p%d", i), "2") })
	s := NewScheduler(c.config())
	s.absorbAll(b)
	now := time.Now()
	for s.step(b.Context(), nil) {
	}
	before, attempts := cpuTime(b), 0
	for b.Loop() {
		now = now.Add(scheduleBackoffMost + scheduleWindow)
		s.pending.wake(podGone, now)
		for entry := s.pending.pop(now); entry != nil; entry = s.pending.pop(now) {
			_, err := s.decider.Schedule(entry.pod, s.cache.Snapshot(), s.profile)
			s.pending.failed(entry, podGone, now)
			s.reports.rejected(entry.pod, err, now)
			attempts++
		}
	}
	b.ReportMetric(float64((cpuTime(b)-before).Nanoseconds())/1000/float64(attempts), "cpu-µs/attempt")
}

// absorbAll takes in what is there, without Run.
func (s *Scheduler) absorbAll(b *testing.B) {
	b.Helper()
	for _, name := range []string{"nodes", "pods"} {
		w, err := s.config.Verbs.Watch(b.Context(), s.config.Verbs.Resource("", name), registry.WatchRequest{})
		if err != nil {
			b.Fatal(err)
		}
		events, err := w.Next(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		m := model{}
		for _, e := range events {
			s.take(told{resource: name, changes: m.take(e)}, time.Now())
		}
	}
}
