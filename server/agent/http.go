package agent

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"edgepod/server/agent/podlog"
)

// Handler answers what the server asks of a node, with the paths of the kubelet. It checks no identity: Serve does.
func (a *Agent) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") })
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", a.containerLogs)
	return mux
}

// view is what others may see of a worker's pod.
type view struct {
	status  corev1.PodStatus
	changed chan struct{} // closed when there is a newer view
}

// show publishes the newest status for those who read logs.
func (w *worker) show() {
	w.viewMu.Lock()
	defer w.viewMu.Unlock()
	if w.view.changed != nil {
		close(w.view.changed)
	}
	w.view = view{status: w.seen.Status, changed: make(chan struct{})}
}

func (w *worker) lookAt() view {
	w.viewMu.Lock()
	defer w.viewMu.Unlock()
	return w.view
}

func (a *Agent) containerLogs(rw http.ResponseWriter, r *http.Request) {
	container := r.PathValue("container")
	options, follow, previous, err := logOptions(r.URL.Query(), time.Now())
	if err != nil {
		http.Error(rw, err.Error(), http.StatusBadRequest)
		return
	}
	w := a.find(r.PathValue("namespace"), r.PathValue("pod"))
	if w == nil {
		http.Error(rw, fmt.Sprintf("pod %q does not exist", r.PathValue("pod")), http.StatusNotFound)
		return
	}
	status, found := containerStatus(w.lookAt().status, container)
	if !found {
		http.Error(rw, fmt.Sprintf("container %q not found in pod %q", container, r.PathValue("pod")), http.StatusNotFound)
		return
	}
	attempt, err := logAttempt(status, r.PathValue("pod"), previous)
	if err != nil {
		http.Error(rw, err.Error(), http.StatusBadRequest)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	var wait sync.WaitGroup
	defer wait.Wait()
	defer cancel()
	if follow && !previous {
		done := make(chan struct{})
		options.Follow = done
		wait.Go(func() {
			defer close(done)
			w.waitEnded(ctx, container, attempt)
		})
	}
	w.sendLog(ctx, rw, container, attempt, options)
}

// sendLog streams the log. An error in the middle breaks the answer off, so that it does not look complete.
func (w *worker) sendLog(ctx context.Context, rw http.ResponseWriter, container string, attempt int, options podlog.Options) {
	root, err := os.OpenRoot(string(w.folder))
	if err != nil {
		http.Error(rw, "the pod's folder cannot be read", http.StatusInternalServerError)
		w.log.Error("open the pod's folder", "err", err)
		return
	}
	defer root.Close()
	out := &logWriter{ResponseWriter: rw, control: http.NewResponseController(rw)}
	rw.Header().Set("Content-Type", "text/plain")
	err = podlog.Copy(ctx, out, root, path.Join(container, strconv.Itoa(attempt)+".log"), options)
	switch {
	case err == nil, ctx.Err() != nil:
	case !out.begun:
		http.Error(rw, fmt.Sprintf("the log of container %q cannot be read", container), http.StatusInternalServerError)
		w.log.Error("read a log", "container", container, "err", err)
	default:
		w.log.Warn("a log broke off", "container", container, "err", err)
		panic(http.ErrAbortHandler)
	}
}

// logWriter is the answer. It is flushed before the first byte too, so that a client that follows sees that it does.
type logWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	begun   bool
}

func (w *logWriter) Write(p []byte) (int, error) {
	w.begun = true
	return w.ResponseWriter.Write(p)
}

// Flush implements podlog.Flusher. An error shows at the next Write.
func (w *logWriter) Flush() {
	w.begun = true
	_ = w.control.Flush()
}

// waitEnded returns when the attempt does not run any more, or ctx ends, or the agent does.
func (w *worker) waitEnded(ctx context.Context, container string, attempt int) {
	for {
		v := w.lookAt()
		cs, ok := containerStatus(v.status, container)
		if !ok || cs.State.Running == nil || attemptOf(cs.ContainerID) != attempt {
			return
		}
		select {
		case <-v.changed:
		case <-w.quit:
			return
		case <-ctx.Done():
			return
		}
	}
}

func containerStatus(status corev1.PodStatus, name string) (corev1.ContainerStatus, bool) {
	for _, cs := range slices.Concat(status.ContainerStatuses, status.InitContainerStatuses) {
		if cs.Name == name {
			return cs, true
		}
	}
	return corev1.ContainerStatus{}, false
}

// logAttempt is the attempt whose log is meant: the one that runs or ran last, or the one before.
func logAttempt(cs corev1.ContainerStatus, pod string, previous bool) (int, error) {
	last := cs.LastTerminationState.Terminated
	switch {
	case previous && last == nil:
		return 0, fmt.Errorf("previous terminated container %q in pod %q not found", cs.Name, pod)
	case previous:
		return attemptOf(last.ContainerID), nil
	case cs.State.Running != nil:
		return attemptOf(cs.ContainerID), nil
	case cs.State.Terminated != nil && cs.State.Terminated.ContainerID != "":
		return attemptOf(cs.State.Terminated.ContainerID), nil
	case last != nil:
		return attemptOf(last.ContainerID), nil
	case cs.State.Terminated != nil:
		return 0, fmt.Errorf("container %q in pod %q is terminated", cs.Name, pod)
	}
	reason := "no logs yet"
	if w := cs.State.Waiting; w != nil {
		reason = w.Reason
		if strings.HasPrefix(reason, "ErrImage") || strings.HasPrefix(reason, "ImagePull") {
			reason = "trying and failing to pull image"
		}
	}
	return 0, fmt.Errorf("container %q in pod %q is waiting to start: %s", cs.Name, pod, reason)
}

// attemptOf reads the attempt from "edgepod://UID/NAME-ATTEMPT".
func attemptOf(id string) int {
	n, err := strconv.Atoi(id[strings.LastIndexByte(id, '-')+1:])
	if err != nil {
		return 0
	}
	return n
}

func logOptions(q url.Values, now time.Time) (o podlog.Options, follow, previous bool, err error) {
	number := func(name string) *int64 {
		if !q.Has(name) {
			return nil
		}
		n, parseErr := strconv.ParseInt(q.Get(name), 10, 64)
		if parseErr != nil || n < 0 {
			err = errors.Join(err, fmt.Errorf("%s must be a number that is not negative", name))
		}
		return &n
	}
	flag := func(name string) bool {
		on, parseErr := strconv.ParseBool(q.Get(name))
		if parseErr != nil && q.Get(name) != "" {
			err = errors.Join(err, fmt.Errorf("%s must be true or false", name))
		}
		return on
	}
	o.TailLines, o.LimitBytes, o.Timestamps = number("tailLines"), number("limitBytes"), flag("timestamps")
	follow, previous = flag("follow"), flag("previous")
	if seconds := number("sinceSeconds"); seconds != nil {
		o.Since = now.Add(-time.Duration(*seconds) * time.Second)
	}
	if text := q.Get("sinceTime"); text != "" {
		at, parseErr := time.Parse(time.RFC3339Nano, text)
		if parseErr != nil {
			err = errors.Join(err, errors.New("sinceTime must be a time such as 2006-01-02T15:04:05Z"))
		}
		o.Since = at
	}
	switch stream := q.Get("stream"); stream {
	case "", "All":
	case "Stdout", "Stderr":
		o.Stream = strings.ToLower(stream)
	default:
		err = errors.Join(err, fmt.Errorf("stream %q is not All, Stdout or Stderr", stream))
	}
	return o, follow, previous, err
}
