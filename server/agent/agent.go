// Package agent is the node's part of the cluster, the kubelet's role: it registers the node, runs the pods that are bound
// to it on a sandbox runtime, and reports what becomes of them.
//
// It speaks to the API alone; what it needs to go on without it, or after a restart, is in its data folder.
package agent

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"edgepod/server/agent/lifecycle"
	"edgepod/wasmrt/sandbox"
)

// Agent is one node's agent. New makes it and Run runs it, once.
type Agent struct {
	Config
	client  *client
	machine machine
	sources *sources
	events  record.EventRecorder
	serving *servingCert
	images  imageList

	// running is closed when Run has taken over what ran before.
	running chan struct{}

	mu      sync.Mutex
	workers map[types.UID]*worker
	// spawn runs a worker; nil while Run does not run.
	spawn  func(*worker)
	listed bool // a complete list of the node's pods has come from the API
	halt   bool
}

// New checks the configuration, looks at the machine and makes the data folder. It starts nothing.
func New(config Config) (*Agent, error) {
	if err := config.validate(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(config.DataDir, "pods"), 0o700); err != nil {
		return nil, fmt.Errorf("agent: data folder: %w", err)
	}
	a := &Agent{Config: config, running: make(chan struct{}), workers: map[types.UID]*worker{}}
	var err error
	if a.client, err = newClient(config.REST); err != nil {
		return nil, fmt.Errorf("agent: %w", err)
	}
	if a.serving, err = openServingCert(config.DataDir, config.NodeName); err != nil {
		return nil, fmt.Errorf("agent: %w", err)
	}
	a.machine = lookAtMachine(config)
	a.sources = newSources(a.client, config.Log)
	return a, nil
}

// Run runs the node until ctx ends. Containers run on then, for the next agent to adopt: see StopPods for ending them.
func (a *Agent) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wait sync.WaitGroup
	defer wait.Wait()
	defer cancel()

	// The recorder has a queue and goroutines of its own, which Shutdown ends.
	broadcaster := record.NewBroadcaster(record.WithContext(klog.NewContext(ctx, clientLogger(ctx, a.Log))))
	defer broadcaster.Shutdown()
	a.events = broadcaster.NewRecorder(a.client.scheme, corev1.EventSource{Component: eventSource, Host: a.NodeName})
	broadcaster.StartRecordingToSink(eventSink{ctx: func() context.Context { return ctx }, client: a.client})

	a.sources.done = ctx.Done()
	a.sources.start = func(run func(context.Context)) func() {
		ctx, cancel := context.WithCancel(ctx)
		wait.Go(func() { run(ctx) })
		return cancel
	}
	if err := a.takeOver(ctx, func(w *worker) { wait.Go(func() { w.run(ctx) }) }); err != nil {
		return fmt.Errorf("agent: take over what ran before: %w", err)
	}
	close(a.running)
	wait.Go(func() { a.keepNode(ctx) })
	wait.Go(func() { a.keepLease(ctx) })
	wait.Go(func() { a.keepImages(ctx) })
	mine := fields.OneTermEqualSelector("spec.nodeName", a.NodeName)
	a.client.reflect(ctx, a.Log, "pods", "", mine, &corev1.Pod{}, (*podStore)(a))
	<-ctx.Done()
	a.mu.Lock()
	a.spawn = nil
	a.mu.Unlock()
	return nil
}

// takeOver gives a worker to each pod that an earlier agent left: those with a checkpoint, and those with a sandbox.
func (a *Agent) takeOver(ctx context.Context, spawn func(*worker)) error {
	sandboxes, err := a.Runtime.List(ctx)
	if err != nil {
		return err
	}
	folders, err := filepath.Glob(filepath.Join(a.DataDir, "pods", "*_*_*"))
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.spawn = spawn
	for _, path := range folders {
		a.restore(podFolder(path))
	}
	for _, s := range sandboxes {
		a.takeSandbox(s)
	}
	for _, w := range a.workers {
		w.seen.Sandbox.Done = w.sandbox != nil
		a.spawn(w)
	}
	return nil
}

// restore makes the worker of a pod that has a checkpoint.
func (a *Agent) restore(folder podFolder) {
	c, err := folder.load()
	if err != nil {
		a.Log.Error("read what is remembered of a pod", "folder", folder, "err", err)
	}
	if c == nil {
		return
	}
	w, err := a.newWorker(c.Pod.Namespace, c.Pod.Name, c.Pod.UID)
	if err != nil {
		a.Log.Error("checkpoint", "folder", folder, "err", err)
		return
	}
	w.pod, w.seen, w.known = c.Pod, c.Observed, true
	w.watchSources(c.Pod)
	a.workers[w.uid] = w
}

// takeSandbox gives a sandbox to its worker, which waits for the API where it has no checkpoint.
func (a *Agent) takeSandbox(s sandbox.Sandbox) {
	spec := s.Spec()
	w := a.workers[types.UID(spec.ID)]
	if w == nil {
		var err error
		if w, err = a.newWorker(spec.Namespace, spec.Name, types.UID(spec.ID)); err != nil {
			a.Log.Error("sandbox of an unknown pod", "uid", spec.ID, "err", err)
			return
		}
		a.workers[w.uid] = w
	}
	w.sandbox = s
}

func (a *Agent) newWorker(namespace, name string, uid types.UID) (*worker, error) {
	folder, err := newPodFolder(a.DataDir, namespace, name, string(uid))
	if err != nil {
		return nil, err
	}
	ref := namespace + "/" + name
	w := &worker{
		Agent: a, uid: uid, ref: ref, folder: folder, log: a.Log.With("pod", ref, "uid", string(uid)), box: newMailbox(),
		halted: make(chan struct{}), results: make(chan func()), quit: make(chan struct{}),
		look: true,
	}
	w.box.halt = a.halt
	return w, nil
}

// remove is called by a worker that ends.
func (a *Agent) remove(w *worker) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.workers[w.uid] == w {
		delete(a.workers, w.uid)
	}
}

// facts are the node's, for plans.
func (a *Agent) facts() lifecycle.Node {
	return lifecycle.Node{HostIP: a.machine.ip, Restart: a.Restart, Image: a.ImagePull, Retry: a.Retry}
}

// StopPods stops all containers, each with its pod's grace period, and starts none any more. The pods stay in the API as
// they are and start again with the next agent. It returns when no container runs, and must be called while Run runs.
func (a *Agent) StopPods(ctx context.Context) error {
	select {
	case <-a.running:
	case <-ctx.Done():
		return fmt.Errorf("stop pods: %w", ctx.Err())
	}
	a.mu.Lock()
	a.halt = true
	var all []*worker
	for _, w := range a.workers {
		w.setHalt()
		all = append(all, w)
	}
	a.mu.Unlock()
	for _, w := range all {
		select {
		case <-w.halted:
		case <-w.quit:
		case <-ctx.Done():
			return fmt.Errorf("stop pods: %s still runs: %w", w.ref, ctx.Err())
		}
	}
	return nil
}
