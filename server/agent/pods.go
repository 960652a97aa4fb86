package agent

import (
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"edgepod/wasmrt/sandbox/guestfiles"
)

// podStore is the agent as the store of the reflector of its node's pods: it hands each to its worker. A pod that was
// deleted and made again under its name is another pod with another worker.
type podStore Agent

// Add implements cache.ReflectorStore.
func (s *podStore) Add(object any) error { return s.Update(object) }

// Update implements cache.ReflectorStore.
func (s *podStore) Update(object any) error {
	a := (*Agent)(s)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.assign(object.(*corev1.Pod))
	return nil
}

// Delete implements cache.ReflectorStore.
func (s *podStore) Delete(object any) error {
	a := (*Agent)(s)
	a.mu.Lock()
	defer a.mu.Unlock()
	if w := a.workers[object.(*corev1.Pod).UID]; w != nil {
		w.setGone()
	}
	return nil
}

// Replace implements cache.ReflectorStore. The list is complete, so that pods which are not in it are gone.
func (s *podStore) Replace(list []any, _ string) error {
	a := (*Agent)(s)
	a.mu.Lock()
	defer a.mu.Unlock()
	here := map[types.UID]bool{}
	for _, object := range list {
		pod := object.(*corev1.Pod)
		here[pod.UID] = true
		a.assign(pod)
	}
	for uid, w := range a.workers {
		if !here[uid] {
			w.setGone()
		}
	}
	if !a.listed {
		a.listed = true
		a.sweep()
	}
	return nil
}

// Resync implements cache.ReflectorStore.
func (s *podStore) Resync() error { return nil }

// assign gives the pod to its worker, making one for a new pod.
func (a *Agent) assign(pod *corev1.Pod) {
	w := a.workers[pod.UID]
	if w == nil {
		if a.spawn == nil {
			return
		}
		var err error
		if w, err = a.newWorker(pod.Namespace, pod.Name, pod.UID); err != nil {
			a.Log.Error("pod cannot be looked after", "pod", pod.Namespace+"/"+pod.Name, "err", err)
			return
		}
		a.workers[pod.UID] = w
		w.setPod(pod)
		a.spawn(w)
		return
	}
	w.setPod(pod)
}

// sweep removes folders of pods that nobody looks after: those whose checkpoint could not be read and that are gone.
func (a *Agent) sweep() {
	used := map[string]bool{}
	for _, w := range a.workers {
		used[string(w.folder)] = true
	}
	folders, err := filepath.Glob(filepath.Join(a.DataDir, "pods", "*_*_*"))
	if err != nil {
		a.Log.Error("pods' folders", "err", err)
	}
	for _, path := range folders {
		if used[path] {
			continue
		}
		if err := guestfiles.Remove(path); err != nil {
			a.Log.Error("remove the folder of a pod that is gone", "folder", path, "err", err)
		}
	}
}

// find returns the worker of a pod by its name: the newest of those with that name.
func (a *Agent) find(namespace, name string) *worker {
	a.mu.Lock()
	defer a.mu.Unlock()
	var found *worker
	for _, w := range a.workers {
		if w.ref == namespace+"/"+name && (found == nil || found.box.isGone()) {
			found = w
		}
	}
	return found
}

func (m *mailbox) isGone() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.gone
}
