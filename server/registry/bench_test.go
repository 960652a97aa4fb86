package registry

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// BenchmarkCreate measures with 32 writers, who share transactions as the clients of a busy API do.
func BenchmarkCreate(b *testing.B) {
	f := newFixture(b)
	var n atomic.Int64
	b.SetParallelism(16)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			f.create("pods", newPod(fmt.Sprint("p", n.Add(1))))
		}
	})
}

// BenchmarkPrepare is what of a creation is not the store's.
func BenchmarkPrepare(b *testing.B) {
	f := newFixture(b)
	pods := f.res("pods")
	b.ReportAllocs()
	for b.Loop() {
		pod := newPod("p")
		if _, err := f.prepareNew(b.Context(), pods, pod); err != nil {
			b.Fatal(err)
		}
		value, err := encode(pods, pod, 0)
		if err != nil {
			b.Fatal(err)
		}
		encoder(pods, pod, value)(1)
	}
}

// BenchmarkSupport is the look at what is not supported, which each new pod gets.
func BenchmarkSupport(b *testing.B) {
	look, pod := podSupport(unsupported), newPod("p")
	b.ReportAllocs()
	for b.Loop() {
		look(pod)
	}
}

func BenchmarkGet(b *testing.B) {
	f := newFixture(b)
	f.create("pods", newPod("p"))
	b.ReportAllocs()
	for b.Loop() {
		f.get("pods", "default", "p")
	}
}

func BenchmarkList2000(b *testing.B) {
	f := newFixture(b)
	var n atomic.Int64
	b.SetParallelism(16)
	for range 20 {
		fillPods(f, &n, 100)
	}
	for name, req := range map[string]ListRequest{
		"All":   {},
		"Label": {Label: mustLabels(b, "app=web")},
		"Field": {Field: mustFields(b, "spec.nodeName=n")},
		"Page":  {Limit: 500},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := f.List(context.Background(), f.res("pods"), req); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func fillPods(f *fixture, n *atomic.Int64, count int) {
	done := make(chan struct{})
	for range count {
		go func() {
			f.create("pods", newPod(fmt.Sprint("p", n.Add(1))))
			done <- struct{}{}
		}()
	}
	for range count {
		<-done
	}
}

func BenchmarkUpdateStatus(b *testing.B) {
	f := newFixture(b)
	var n atomic.Int64
	fillPods(f, &n, 64)
	n.Store(0)
	b.SetParallelism(16)
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			i := n.Add(1)
			f.update("pods", "status", "default", fmt.Sprint("p", i%64+1), func(obj runtime.Object) {
				obj.(*corev1.Pod).Status.Message = fmt.Sprint(i)
			})
		}
	})
}

func BenchmarkRenewLease(b *testing.B) {
	f := newFixture(b)
	f.create("leases", newLease("l"))
	b.ReportAllocs()
	for b.Loop() {
		f.now = f.now.Add(time.Second)
		f.update("leases", "", "default", "l", func(obj runtime.Object) {
			obj.(*coordinationv1.Lease).Spec.RenewTime = new(metav1.NewMicroTime(f.now))
		})
	}
}

func BenchmarkWatchFanOut(b *testing.B) {
	f := newFixture(b)
	f.create("pods", newPod("p"))
	const watchers = 100
	var ws []Watcher
	for range watchers {
		ws = append(ws, f.watchPods(WatchRequest{Field: mustFields(b, "spec.nodeName=")}))
	}
	for _, w := range ws {
		f.next(w, 1)
	}
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		i++
		f.update("pods", "", "default", "p", func(obj runtime.Object) {
			obj.(metav1.Object).SetLabels(map[string]string{"i": fmt.Sprint(i)})
		})
		for _, w := range ws {
			f.next(w, 1)
		}
	}
}
