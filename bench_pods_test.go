package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// guest is a module whose pods are timed.
type benchGuest struct {
	name, image string
	args        []string
	phase       corev1.PodPhase
	budget      string
}

func benchGuests() []benchGuest {
	return []benchGuest{
		{"small C module", "edgepod.dev/toolbox", []string{"sleep", "infinity"}, corev1.PodRunning, "25 / 60 ms"},
		{"small C module", "./hello-c.wasm", nil, corev1.PodSucceeded, ""},
		{"Go module", "./stay-go.wasm", nil, corev1.PodRunning, ""},
		{"Go module", "./hello/hello.wasm", nil, corev1.PodSucceeded, ""},
	}
}

func named(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }

func (g benchGuest) pod(name string) *corev1.Pod {
	grace := int64(1)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"bench": "pods"}},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, TerminationGracePeriodSeconds: &grace,
			Containers: []corev1.Container{{Name: "a", Image: g.image, Args: g.args, ImagePullPolicy: corev1.PullIfNotPresent}},
		},
	}
}

// podsOneByOne creates pods one at a time, and measures until a watch shows the phase.
func (m *measurement) podsOneByOne() {
	const rounds = 30
	watched := m.watchPods()
	defer watched.stop()
	for n, g := range benchGuests() {
		m.runPod(watched, g, fmt.Sprintf("warm-%d", n)) // compiles
		var took, gone []time.Duration
		for i := range rounds {
			up, down := m.runPod(watched, g, fmt.Sprintf("one-%d-%d", n, i))
			took, gone = append(took, up), append(gone, down)
		}
		m.add(fmt.Sprintf("create → %s, %s, p50 / p99", g.phase, g.name), g.budget, "%.1f / %.1f ms", ms(percentile(took, 50)), ms(percentile(took, 99)))
		if g.phase == corev1.PodRunning {
			m.add(fmt.Sprintf("delete → gone, %s, p50", g.name), "100 ms", "%.1f ms", ms(percentile(gone, 50)))
		}
	}
}

func (m *measurement) runPod(watched *podWatch, g benchGuest, name string) (up, down time.Duration) {
	began := time.Now()
	m.create(g.pod(name))
	up = watched.wait(m, name, string(g.phase)).Sub(began)
	began = time.Now()
	m.check(m.core.Delete().Namespace("default").Resource("pods").Name(name).Do(context.Background()).Error())
	return up, watched.wait(m, name, "gone").Sub(began)
}

func (m *measurement) create(pod *corev1.Pod) {
	m.check(m.core.Post().Namespace("default").Resource("pods").Body(pod).Do(context.Background()).Error())
}

// podsAtOnce creates many pods together, and measures until the last has the phase.
func (m *measurement) podsAtOnce(count int) {
	for _, g := range benchGuests() {
		watched := m.watchPods()
		began := time.Now()
		m.eachOf(count, 32, func(ctx context.Context, i int) error {
			return m.core.Post().Namespace("default").Resource("pods").Body(g.pod(fmt.Sprintf("many-%d", i))).Do(ctx).Error()
		})
		last := began
		for i := range count {
			if at := watched.wait(m, fmt.Sprintf("many-%d", i), string(g.phase)); at.After(last) {
				last = at
			}
		}
		budget := ""
		if g.image == "edgepod.dev/toolbox" {
			budget = map[int]string{50: "0.8 s", 100: "1.5 s"}[count]
			m.processes(g.name)
		} else if g.phase == corev1.PodRunning {
			m.processes(g.name)
		}
		m.add(fmt.Sprintf("%d at once → %s, %s, the last", count, g.phase, g.name), budget, "%v", last.Sub(began).Round(time.Millisecond))
		m.check(m.core.Delete().Namespace("default").Resource("pods").Param("labelSelector", "bench=pods").Do(context.Background()).Error())
		for i := range count {
			watched.wait(m, fmt.Sprintf("many-%d", i), "gone")
		}
		watched.stop()
	}
}

// processes measures the memory of the containers that run now.
func (m *measurement) processes(guest string) {
	var private, pss float64
	count := 0.0
	paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
	m.check(err)
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil || !strings.HasPrefix(string(data), "edgepod-container\x00run") {
			continue
		}
		if procFigure(m.B, filepath.Join(filepath.Dir(path), "status"), "PPid:") != float64(m.process.Pid) {
			continue
		}
		rollup := filepath.Join(filepath.Dir(path), "smaps_rollup")
		pss += procFigure(m.B, rollup, "Pss:")
		private += procFigure(m.B, rollup, "Private_Dirty:")
		count++
	}
	if count > 0 {
		m.add(fmt.Sprintf("one of %.0f container processes, %s, private / PSS", count, guest), "6 MB", "%.1f / %.1f MB", private/count/1000, pss/count/1000)
	}
}

// podWatch keeps when each pod was first seen in each phase.
type podWatch struct {
	stop func()
	mu   sync.Mutex
	seen map[string]time.Time
	news chan struct{}
}

func (m *measurement) watchPods() *podWatch {
	ctx, cancel := context.WithCancel(context.Background())
	list := &metav1.PartialObjectMetadataList{}
	data, err := m.core.Get().Namespace("default").Resource("pods").Do(ctx).Raw()
	m.check(err)
	m.check(json.Unmarshal(data, list))
	w, err := m.core.Get().Namespace("default").Resource("pods").Param("watch", "true").Param("resourceVersion", list.ResourceVersion).Watch(ctx)
	m.check(err)
	p := &podWatch{stop: func() { cancel(); w.Stop() }, seen: map[string]time.Time{}, news: make(chan struct{}, 1)}
	go func() {
		for event := range w.ResultChan() {
			pod, ok := event.Object.(*corev1.Pod)
			if !ok {
				continue
			}
			phase := string(pod.Status.Phase)
			if event.Type == "DELETED" {
				phase = "gone"
			}
			p.note(pod.Name, phase)
		}
	}()
	return p
}

func (p *podWatch) note(name, phase string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.seen[name+"/"+phase]; !ok {
		p.seen[name+"/"+phase] = time.Now()
	}
	select {
	case p.news <- struct{}{}:
	default:
	}
}

// wait returns when the pod was first seen in the phase, and forgets it.
func (p *podWatch) wait(m *measurement, name, phase string) time.Time {
	deadline := time.After(2 * time.Minute)
	for {
		p.mu.Lock()
		at, ok := p.seen[name+"/"+phase]
		if ok {
			delete(p.seen, name+"/"+phase)
		}
		p.mu.Unlock()
		if ok {
			return at
		}
		select {
		case <-p.news:
		case <-deadline:
			m.Fatalf("pod %s was not %s within two minutes", name, phase)
		}
	}
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
