package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"edgepod/server/registry/upstream"
)

var logParameters = runtime.NewParameterCodec(upstream.Scheme)

// log streams a container's log from the agent of its node.
func (a *API) log(r *request) error {
	options, err := r.logOptions()
	if err != nil {
		return err
	}
	object, err := a.Registry.Get(r.Request().Context(), r.resource, r.namespace, r.name)
	if err != nil {
		return err
	}
	pod := object.Runtime().(*corev1.Pod)
	container, err := logContainer(pod, options.Container)
	if err != nil {
		return err
	}
	if pod.Spec.NodeName == "" {
		return r.NoContent(http.StatusNoContent)
	}
	if a.Nodes == nil {
		return apierrors.NewServiceUnavailable("this server reaches no nodes, so it has no logs")
	}
	answer, err := a.fetchLog(r, pod, container, options)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return agentError(r.name, answer)
	}
	return a.copyLog(r, answer.Body)
}

func (r *request) logOptions() (*corev1.PodLogOptions, error) {
	options := &corev1.PodLogOptions{}
	if err := logParameters.DecodeParameters(r.query(), corev1.SchemeGroupVersion, options); err != nil {
		return nil, badRequest("%v", err)
	}
	if options.Stream == nil {
		all := corev1.LogStreamAll
		options.Stream = &all
	}
	if errs := upstream.PodLogOptions(options); len(errs) > 0 {
		return nil, apierrors.NewInvalid(schema.GroupKind{Kind: "PodLogOptions"}, r.name, errs)
	}
	return options, nil
}

// logContainer finds the container meant, or says what there is to choose from. In a pod of one container that one is meant,
// however many others prepare its way.
func logContainer(pod *corev1.Pod, name string) (string, error) {
	var all []string
	for _, c := range pod.Spec.InitContainers {
		all = append(all, c.Name)
	}
	for _, c := range pod.Spec.Containers {
		all = append(all, c.Name)
	}
	for _, c := range pod.Spec.EphemeralContainers {
		all = append(all, c.Name)
	}
	if name != "" {
		if !contains(all, name) {
			return "", badRequest("container %s is not valid for pod %s", name, pod.Name)
		}
		return name, nil
	}
	if len(pod.Spec.Containers) == 1 {
		return pod.Spec.Containers[0].Name, nil
	}
	return "", badRequest("a container name must be specified for pod %s, choose one of: %s", pod.Name, all)
}

// fetchLog asks the agent. The pod's own words for why there is no log yet come from it.
func (a *API) fetchLog(r *request, pod *corev1.Pod, container string, options *corev1.PodLogOptions) (*http.Response, error) {
	base, transport, err := a.Nodes.Node(r.Request().Context(), pod.Spec.NodeName)
	if err != nil {
		return nil, err
	}
	target := base.JoinPath("containerLogs", pod.Namespace, pod.Name, container)
	target.RawQuery = logQuery(options).Encode()
	req, err := http.NewRequestWithContext(r.Request().Context(), http.MethodGet, target.String(), nil)
	if err != nil {
		return nil, err
	}
	answer, err := transport.RoundTrip(req)
	if err != nil {
		if ctxErr := r.Request().Context().Err(); ctxErr != nil {
			return nil, ctxErr
		}
		return nil, apierrors.NewInternalError(fmt.Errorf("get %q of node %s: %w", target.Path, pod.Spec.NodeName, err))
	}
	return answer, nil
}

func logQuery(options *corev1.PodLogOptions) url.Values {
	values := url.Values{}
	set := func(name string, on bool) {
		if on {
			values.Set(name, "true")
		}
	}
	number := func(name string, n *int64) {
		if n != nil {
			values.Set(name, strconv.FormatInt(*n, 10))
		}
	}
	set("follow", options.Follow)
	set("previous", options.Previous)
	set("timestamps", options.Timestamps)
	number("sinceSeconds", options.SinceSeconds)
	number("tailLines", options.TailLines)
	number("limitBytes", options.LimitBytes)
	if options.SinceTime != nil {
		values.Set("sinceTime", options.SinceTime.Format(time.RFC3339Nano))
	}
	if options.Stream != nil && *options.Stream != corev1.LogStreamAll {
		values.Set("stream", *options.Stream)
	}
	return values
}

// agentError makes the agent's refusal a Status with the agent's words.
func agentError(pod string, answer *http.Response) error {
	text, err := io.ReadAll(io.LimitReader(answer.Body, 50_000))
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	message := strings.TrimSpace(string(text))
	switch answer.StatusCode {
	case http.StatusBadRequest:
		return apierrors.NewBadRequest(message)
	case http.StatusInternalServerError:
		return apierrors.NewInternalError(errors.New(message))
	}
	return apierrors.NewGenericServerResponse(answer.StatusCode, "", schema.GroupResource{Resource: "pods/log"}, pod, message, 0, false)
}

// copyLog passes on what comes as it comes. An error in the middle breaks the connection off: a log that ends without one
// is complete.
func (a *API) copyLog(r *request, from io.Reader) error {
	w := r.Response()
	w.Header().Set("Content-Type", "text/plain")
	w.WriteHeader(http.StatusOK)
	control := http.NewResponseController(w.Writer)
	if err := control.Flush(); err != nil {
		return nil
	}
	err := copyFlushed(control, w, from)
	if deadline := setWriteDeadline(control, time.Time{}); deadline != nil {
		a.Log.Debug("the connection of a log is gone", "err", deadline)
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		a.Log.Debug("a log broke off", "pod", r.namespace+"/"+r.name, "err", err)
		panic(http.ErrAbortHandler)
	}
	return nil
}

// copyFlushed returns what ended the reading, unless it was the end; that the client left is no error.
func copyFlushed(control *http.ResponseController, to io.Writer, from io.Reader) error {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if err := setWriteDeadline(control, time.Now().Add(stalled)); err != nil {
				return nil
			}
			if _, err := to.Write(buf[:n]); err != nil {
				return nil
			}
			if err := control.Flush(); err != nil {
				return nil
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
