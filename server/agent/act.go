package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"edgepod/server/agent/lifecycle"
	"edgepod/server/agent/podvalue"
	"edgepod/server/agent/volume"
	"edgepod/wasmrt/sandbox"
)

// act does one action in a goroutine of its own; how it ended comes back as a result. What the goroutine reads of the
// worker is fixed here, since the pod may change meanwhile.
func (w *worker) act(ctx context.Context, a lifecycle.Action) {
	w.log.Debug("action", "action", a.String())
	job := w.job()
	began := time.Now()
	w.acts.Go(func() {
		result, then := job.do(ctx, a)
		w.tell(func() {
			if result.Err == nil || ctx.Err() == nil {
				w.finish(a, result, then, time.Since(began))
			}
		})
	})
}

// finish records a result.
func (w *worker) finish(a lifecycle.Action, result lifecycle.Result, then func(*worker), took time.Duration) {
	if result.Err != nil {
		w.log.Warn("action failed", "action", a.String(), "err", result.Err, "took", took)
	} else {
		w.log.Debug("action done", "action", a.String(), "took", took)
	}
	a.End(&w.seen, result, time.Now())
	if then != nil {
		then(w)
	}
	w.look = true
}

// job is what an action needs of its worker.
type job struct {
	*Agent
	uid     types.UID
	pod     *corev1.Pod
	sandbox sandbox.Sandbox
	folder  podFolder
	lock    *sync.Mutex // of the volumes
	// resolved holds what each container's image was when it was pulled last.
	resolved map[string]lifecycle.Resolved
	// first tells that the volumes have not been made yet.
	first bool
}

func (w *worker) job() job {
	resolved := map[string]lifecycle.Resolved{}
	for name, c := range w.seen.Containers {
		resolved[name] = c.Resolved
	}
	return job{
		Agent: w.Agent, uid: w.uid, pod: w.pod, sandbox: w.sandbox, folder: w.folder, lock: &w.volumes,
		resolved: resolved, first: !w.seen.Volumes.Done,
	}
}

// do performs the action. then, where not nil, runs in the worker's goroutine after the result was recorded.
func (j job) do(ctx context.Context, a lifecycle.Action) (r lifecycle.Result, then func(*worker)) {
	switch a := a.(type) {
	case lifecycle.PrepareVolumes:
		r.Err = j.prepareVolumes()
	case lifecycle.CreateSandbox:
		var s sandbox.Sandbox
		if s, r.Err = j.createSandbox(ctx); r.Err == nil {
			return r, func(w *worker) { w.sandbox = s }
		}
		j.event("", corev1.EventTypeWarning, "FailedCreatePodSandBox", fmt.Sprintf("Failed to create pod sandbox: %v", r.Err))
	case lifecycle.Pull:
		r = j.pull(ctx, a)
	case lifecycle.Start:
		// A start that has begun is carried through: the next agent finds a container, not half of one.
		r = j.start(context.WithoutCancel(ctx), a)
	case lifecycle.Stop:
		r.Err = j.stop(ctx, a)
	case lifecycle.RemoveSandbox:
		if j.sandbox != nil {
			r.Err = j.sandbox.Remove(ctx)
		}
		if r.Err == nil {
			return r, func(w *worker) { w.sandbox = nil }
		}
	case lifecycle.RemoveVolumes:
		j.lock.Lock()
		defer j.lock.Unlock()
		r.Err = j.volumeFolder().Remove()
	case lifecycle.Release:
		r.Err = j.release(ctx)
	}
	return r, nil
}

func (j job) event(container, kind, reason, message string) {
	if j.pod != nil {
		j.events.Event(podRef(j.pod, container), kind, reason, message)
	}
}

func (j job) values() podvalue.Context {
	return podvalue.Context{
		Pod: j.pod, Sources: podSources{j.sources, j.pod.Namespace}, HostIP: j.machine.ip, Allocatable: j.machine.capacity,
	}
}

// volumeFolder is the pod's volumes, which are its containers' user's.
func (j job) volumeFolder() volume.Folder {
	f := volume.Folder{Dir: j.folder.volumes(), HostPaths: j.HostPaths}
	if owner, ok := j.Runtime.Owner(string(j.uid)); ok && (j.sandbox == nil || !j.sandbox.Spec().AsRoot) {
		f.Owner = &owner
	}
	return f
}

// createSandbox makes the pod's sandbox: root's, where a volume is.
func (j job) createSandbox(ctx context.Context) (sandbox.Sandbox, error) {
	spec := sandboxSpec(j.pod)
	j.lock.Lock()
	own, err := j.volumeFolder().RootsOwn(j.pod)
	j.lock.Unlock()
	if err != nil {
		return nil, err
	}
	spec.AsRoot = len(own) > 0
	return j.Runtime.Create(ctx, spec)
}

func (j job) prepareVolumes() error {
	j.lock.Lock()
	defer j.lock.Unlock()
	folder := j.volumeFolder()
	var own []*corev1.Volume
	var err error
	if j.sandbox == nil { // else it is settled whose they are
		if own, err = folder.RootsOwn(j.pod); len(own) > 0 {
			folder.Owner = nil // as createSandbox will find, too
		}
	}
	if err == nil {
		err = folder.Prepare(j.values())
	}
	if err != nil {
		j.event("", corev1.EventTypeWarning, "FailedMount", err.Error())
	} else if j.first {
		j.warnOfVolumes(own)
	}
	return err
}

// warnOfVolumes tells of what an emptyDir asks for and this node does not do, and of volumes that are root's own.
func (j job) warnOfVolumes(rootsOwn []*corev1.Volume) {
	for _, v := range rootsOwn {
		j.event("", corev1.EventTypeWarning, "VolumeAccessibleToRootOnly", fmt.Sprintf("hostPath volume %q (%s) is accessible to root alone, "+
			"so that the pod's containers run as root without capabilities; make it accessible to others (mode 0777, or 0755 where it is only read) "+
			"to let them run as a user of their own", v.Name, v.HostPath.Path))
	}
	for _, v := range j.pod.Spec.Volumes {
		if v.EmptyDir != nil && v.EmptyDir.Medium == corev1.StorageMediumMemory {
			j.event("", corev1.EventTypeWarning, "PossibleMemoryBackedVolumesOnDisk",
				fmt.Sprintf("emptyDir volume %q asks for memory; this node keeps it on disk", v.Name))
		}
	}
}

func (j job) start(ctx context.Context, a lifecycle.Start) lifecycle.Result {
	spec, err := j.containerSpec(a)
	if err == nil {
		err = j.makeRoom(ctx, spec)
	}
	if err != nil {
		j.event(a.Container, corev1.EventTypeWarning, "Failed", "Error: "+err.Error())
		return lifecycle.Result{Err: err, Reason: sandbox.ReasonCreateContainerConfigError}
	}
	status, err := j.sandbox.Start(ctx, spec)
	if err == nil {
		j.event(a.Container, corev1.EventTypeNormal, "Created", "Container created")
		j.event(a.Container, corev1.EventTypeNormal, "Started", "Container started")
		return lifecycle.Result{Status: &status}
	}
	r := lifecycle.Result{Err: err, Reason: sandbox.ReasonCreateContainerError}
	var start *sandbox.StartError
	var image *sandbox.ImageError
	switch {
	case errors.As(err, &start):
		r.Reason = start.Reason
	case errors.As(err, &image):
		r.Reason = image.Reason
	}
	j.event(a.Container, corev1.EventTypeWarning, "Failed", "Error: "+err.Error())
	return r
}

// makeRoom makes the folder of the log, and removes logs and files of attempts that nobody asks for any more.
func (j job) makeRoom(ctx context.Context, spec sandbox.ContainerSpec) error {
	if err := os.MkdirAll(filepath.Dir(spec.Log.Path), 0o755); err != nil {
		return err
	}
	if spec.Attempt == 0 {
		return nil
	}
	if err := j.folder.dropLogs(spec.Name, spec.Attempt-1); err != nil {
		return err
	}
	statuses, err := j.sandbox.Status(ctx)
	if err != nil {
		return err
	}
	for _, st := range statuses {
		if st.Name == spec.Name && st.Attempt < spec.Attempt && st.State == sandbox.StateExited {
			if err := j.sandbox.Forget(ctx, st.ID); err != nil && !errors.Is(err, sandbox.ErrNotFound) {
				return err
			}
		}
	}
	return nil
}

func (j job) stop(ctx context.Context, a lifecycle.Stop) error {
	message := "Stopping container " + a.Container
	if a.Replace {
		message = fmt.Sprintf("Container %s definition changed, will be restarted", a.Container)
	}
	j.event(a.Container, corev1.EventTypeNormal, "Killing", message)
	if j.sandbox == nil {
		return nil
	}
	err := j.sandbox.Stop(ctx, containerID(a.Container, a.Attempt), a.Grace)
	if errors.Is(err, sandbox.ErrNotFound) {
		return nil
	}
	return err
}

// release deletes the pod's object; one that is gone already, or that is another pod by now, is no error.
func (j job) release(ctx context.Context) error {
	err := j.client.deletePod(ctx, j.pod.Namespace, j.pod.Name, j.pod.UID)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}
