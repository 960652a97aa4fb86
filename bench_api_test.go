package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// callTime is how long each kind of call is measured.
const callTime = 2 * time.Second

// parked is a pod that no scheduler takes, so that the calls alone are measured.
func parked(name string) *corev1.Pod {
	pod := benchGuest{image: "edgepod.dev/toolbox", args: []string{"true"}}.pod(name)
	pod.Spec.SchedulerName = "nobody"
	pod.Labels = map[string]string{"bench": "calls"}
	return pod
}

// calls measures creates, gets, patches and deletes a second, and the server's processor time for each.
func (m *measurement) calls() {
	patch := []byte(`{"metadata":{"labels":{"at":"%d"}}}`)
	budgets := map[string]string{"create": "0.18 ms", "get": "0.075 ms", "patch": "0.25 ms", "delete": "0.29 ms"}
	for _, clients := range []int{1, 8, 32} {
		var created, deleted atomic.Int64
		name := func(i int64) string { return fmt.Sprintf("call-%d-%d", clients, i) }
		pods := func() int64 { return max(created.Load(), 1) }
		kinds := []struct {
			verb string
			call func(ctx context.Context, i int64) error
		}{
			{"create", func(ctx context.Context, i int64) error {
				err := m.core.Post().Namespace("default").Resource("pods").Body(parked(name(i))).Do(ctx).Error()
				if err == nil {
					created.Add(1)
				}
				return err
			}},
			{"get", func(ctx context.Context, i int64) error {
				return m.core.Get().Namespace("default").Resource("pods").Name(name(i % pods())).Do(ctx).Error()
			}},
			{"patch", func(ctx context.Context, i int64) error {
				return m.core.Patch(types.StrategicMergePatchType).Namespace("default").Resource("pods").Name(name(i % pods())).
					Body(fmt.Appendf(nil, string(patch), i)).Do(ctx).Error()
			}},
			{"delete", func(ctx context.Context, i int64) error {
				if i >= created.Load() {
					return errEnough
				}
				deleted.Add(1)
				return m.core.Delete().Namespace("default").Resource("pods").Name(name(i)).Do(ctx).Error()
			}},
		}
		for _, k := range kinds {
			perSecond, cpu := m.rate(clients, k.call)
			m.add(fmt.Sprintf("%s, %d clients: calls a second, server CPU each", k.verb, clients), budgets[k.verb], "%.0f, %.2f ms", perSecond, ms(cpu))
		}
		m.clearPods("bench=calls")
	}
}

// errEnough ends a measurement before its time.
var errEnough = errors.New("enough")

// rate does calls from many clients and returns how many a second succeed, and the server's processor time for each.
func (m *measurement) rate(clients int, call func(ctx context.Context, i int64) error) (perSecond float64, cpu time.Duration) {
	ctx := context.Background()
	var next, done atomic.Int64
	var failed atomic.Pointer[error]
	var wait sync.WaitGroup
	before, began := m.cpu(), time.Now()
	for range clients {
		wait.Go(func() {
			for time.Since(began) < callTime {
				err := call(ctx, next.Add(1)-1)
				if err != nil {
					if !errors.Is(err, errEnough) {
						failed.Store(&err)
					}
					return
				}
				done.Add(1)
			}
		})
	}
	wait.Wait()
	took, used := time.Since(began), m.cpu()-before
	if err := failed.Load(); err != nil {
		m.Fatal(*err)
	}
	return float64(done.Load()) / took.Seconds(), used / time.Duration(max(done.Load(), 1))
}

func (m *measurement) clearPods(selector string) {
	zero := int64(0)
	m.check(m.core.Delete().Namespace("default").Resource("pods").Param("labelSelector", selector).
		Body(&metav1.DeleteOptions{GracePeriodSeconds: &zero}).Do(context.Background()).Error())
}

// eachOf calls do with 0 to count-1 from some clients at once.
func (m *measurement) eachOf(count, clients int, do func(ctx context.Context, i int) error) {
	var next atomic.Int64
	var wait sync.WaitGroup
	errs := make([]error, clients)
	for c := range clients {
		wait.Go(func() {
			for errs[c] == nil {
				i := int(next.Add(1)) - 1
				if i >= count {
					return
				}
				errs[c] = do(context.Background(), i)
			}
		})
	}
	wait.Wait()
	m.check(errors.Join(errs...))
}

// lists measures whole lists of pods.
func (m *measurement) lists(count int) {
	m.eachOf(count, 32, func(ctx context.Context, i int) error {
		return m.core.Post().Namespace("default").Resource("pods").Body(parked(fmt.Sprintf("list-%d", i))).Do(ctx).Error()
	})
	var took []time.Duration
	size := 0
	for range 30 {
		began := time.Now()
		data, err := m.core.Get().Namespace("default").Resource("pods").SetHeader("Accept", "application/json").Do(context.Background()).Raw()
		m.check(err)
		took, size = append(took, time.Since(began)), len(data)
	}
	m.add(fmt.Sprintf("list of %d pods, JSON (%.1f MB), 1 client, p50", count, float64(size)/1e6), "10 ms", "%.1f ms", ms(percentile(took, 50)))
	m.clearPods("bench=calls")
}

// watchers measures how fast changes reach many watchers.
func (m *measurement) watchers(count int) {
	const changes = 1000
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	lags := make([][]time.Duration, count)
	var ready, wait sync.WaitGroup
	for i := range count {
		ready.Add(1)
		wait.Go(func() {
			stream, err := m.core.Get().Namespace("default").Resource("configmaps").Param("watch", "true").
				Param("labelSelector", "bench=watch").SetHeader("Accept", "application/json").Stream(ctx)
			ready.Done()
			if err != nil {
				return
			}
			defer stream.Close()
			for events := json.NewDecoder(stream); len(lags[i]) < changes; {
				event := struct{ Object corev1.ConfigMap }{}
				if events.Decode(&event) != nil {
					return
				}
				sent, err := strconv.ParseInt(event.Object.Data["sent"], 10, 64)
				if err != nil {
					return
				}
				lags[i] = append(lags[i], time.Since(time.Unix(0, sent)))
			}
		})
	}
	ready.Wait()
	began := time.Now()
	m.eachOf(changes, 8, func(ctx context.Context, i int) error {
		cm := &corev1.ConfigMap{ObjectMeta: named(fmt.Sprintf("watched-%d", i)), Data: map[string]string{"sent": strconv.FormatInt(time.Now().UnixNano(), 10)}}
		cm.Labels = map[string]string{"bench": "watch"}
		return m.core.Post().Namespace("default").Resource("configmaps").Body(cm).Do(ctx).Error()
	})
	stuck := time.AfterFunc(time.Minute, cancel)
	wait.Wait()
	stuck.Stop()
	took := time.Since(began)
	var all []time.Duration
	for _, l := range lags {
		all = append(all, l...)
	}
	if len(all) != count*changes {
		m.Fatalf("of %d events %d came", count*changes, len(all))
	}
	m.add(fmt.Sprintf("%d watchers: events a second; lag p50 / p99", count), "135,000; 50 ms", "%.0f; %.1f / %.1f ms", float64(len(all))/took.Seconds(), ms(percentile(all, 50)), ms(percentile(all, 99)))
}
