package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// errWatchEnded says that a watch is over and may be begun again, errPodGone that the pod was deleted.
var (
	errWatchEnded = errors.New("the server ended the watch")
	errPodGone    = errors.New("the pod was deleted")
)

// follow copies the output of the pod's one container to out until the pod has ended, and returns the exit code. What
// keeps the pod from starting goes to notes; where that is final, the code is exitNotRun.
//
//	pending ──► running ──► log, attempt after attempt ──► phase Succeeded or Failed ──► exit code
//	   └──► image or configuration is wrong ──► exitNotRun
func follow(ctx context.Context, core rest.Interface, pod *corev1.Pod, out, notes io.Writer) (code int, err error) {
	shown := -1
	told := ""
	for {
		pod, err = waitForPod(ctx, core, pod, func(pod *corev1.Pod) bool {
			return ended(pod) || attempt(pod) > shown || notice(pod) != told
		})
		if err != nil {
			return 0, err
		}
		if n := attempt(pod); n > shown {
			shown = n
			options := &corev1.PodLogOptions{Container: pod.Spec.Containers[0].Name, Follow: true}
			if err := copyLogs(ctx, core, pod.Namespace, pod.Name, options, out); err != nil {
				return 0, err
			}
			continue
		}
		if ended(pod) {
			return exitCode(pod, notes)
		}
		told = notice(pod)
		if told != "" {
			fmt.Fprintf(notes, "%s\n", told)
		}
		if hopeless(pod) {
			return exitNotRun, nil
		}
	}
}

// errMount says that a folder could not be given to the pod.
type errMount struct{ message string }

func (e errMount) Error() string { return e.message }

// followUnlessMountFails is follow for pods with volumes, too: what is wrong with one is told by an event alone.
func followUnlessMountFails(ctx context.Context, core rest.Interface, pod *corev1.Pod, out, notes io.Writer) (int, error) {
	if len(pod.Spec.Volumes) == 0 {
		return follow(ctx, core, pod, out, notes)
	}
	following, giveUp := context.WithCancelCause(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		if message := failedMount(following, core, pod); message != "" {
			giveUp(errMount{message})
		}
	}()
	code, err := follow(following, core, pod, out, notes)
	giveUp(nil)
	<-watched
	var mount errMount
	if err != nil && errors.As(context.Cause(following), &mount) {
		fmt.Fprintf(notes, "FailedMount: %s\n", mount.message)
		return exitNotRun, nil
	}
	return code, err
}

// failedMount returns the message of the first event that tells of a volume that could not be made, or "" when there is
// none until ctx ends or the events cannot be watched.
func failedMount(ctx context.Context, core rest.Interface, pod *corev1.Pod) string {
	w, err := core.Get().Namespace(pod.Namespace).Resource("events").VersionedParams(&metav1.ListOptions{
		Watch: true, FieldSelector: fields.Set{"involvedObject.uid": string(pod.UID), "reason": "FailedMount"}.String(),
	}, scheme.ParameterCodec).Watch(ctx)
	if err != nil {
		return ""
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		if e, ok := event.Object.(*corev1.Event); ok {
			return e.Message
		}
	}
	return ""
}

// waitForPod watches the pod until it is as wanted, and returns it.
func waitForPod(ctx context.Context, core rest.Interface, pod *corev1.Pod, wanted func(*corev1.Pod) bool) (*corev1.Pod, error) {
	for !wanted(pod) {
		live, err := watchPod(ctx, core, pod, wanted)
		if errors.Is(err, errWatchEnded) {
			live = &corev1.Pod{}
			err = core.Get().Namespace(pod.Namespace).Resource("pods").Name(pod.Name).Do(ctx).Into(live)
		}
		if apierrors.IsNotFound(err) || err == nil && live.UID != pod.UID {
			return nil, errPodGone
		}
		if err != nil {
			return nil, err
		}
		pod = live
	}
	return pod, nil
}

func watchPod(ctx context.Context, core rest.Interface, pod *corev1.Pod, wanted func(*corev1.Pod) bool) (*corev1.Pod, error) {
	w, err := core.Get().Namespace(pod.Namespace).Resource("pods").VersionedParams(&metav1.ListOptions{
		Watch: true, ResourceVersion: pod.ResourceVersion, FieldSelector: fields.OneTermEqualSelector("metadata.name", pod.Name).String(),
	}, scheme.ParameterCodec).Watch(ctx)
	if err != nil {
		return nil, err
	}
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case event, ok := <-w.ResultChan():
			live, isPod := event.Object.(*corev1.Pod)
			switch {
			case !ok || event.Type == watch.Error:
				return nil, errWatchEnded
			case event.Type == watch.Deleted:
				return nil, errPodGone
			case isPod && wanted(live):
				return live, nil
			}
		}
	}
}

func ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

func containerStatus(pod *corev1.Pod) corev1.ContainerStatus {
	if len(pod.Status.ContainerStatuses) == 0 {
		return corev1.ContainerStatus{}
	}
	return pod.Status.ContainerStatuses[0]
}

// attempt is the number of the container's newest run that has a log, -1 before the first.
func attempt(pod *corev1.Pod) int {
	status := containerStatus(pod)
	if status.State.Running == nil && status.State.Terminated == nil || status.ContainerID == "" {
		return -1
	}
	return int(status.RestartCount)
}

// notice says what keeps the container from running, "" for nothing that a user would ask about.
func notice(pod *corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Message != "" {
			return fmt.Sprintf("%s: %s", c.Reason, c.Message)
		}
	}
	waiting := containerStatus(pod).State.Waiting
	if waiting == nil || waiting.Message == "" {
		return ""
	}
	return fmt.Sprintf("%s: %s", waiting.Reason, waiting.Message)
}

// hopeless tells that trying again will not start the container: what is wrong is in what the user gave.
func hopeless(pod *corev1.Pod) bool {
	waiting := containerStatus(pod).State.Waiting
	if waiting == nil {
		return false
	}
	switch waiting.Reason {
	case "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError",
		"CreateContainerConfigError", "CreateContainerError", "RunContainerError":
		return true
	}
	return false
}

// exitCode returns that of an ended pod, with a word to notes where the container did not end by itself.
func exitCode(pod *corev1.Pod, notes io.Writer) (int, error) {
	terminated := containerStatus(pod).State.Terminated
	if terminated == nil {
		if pod.Status.Phase == corev1.PodSucceeded {
			return 0, nil
		}
		fmt.Fprintf(notes, "pod %s failed: %s %s\n", pod.Name, pod.Status.Reason, pod.Status.Message)
		return exitNotRun, nil
	}
	said := terminated.Reason == "Error" && (terminated.Message == "" || terminated.ExitCode == exitTrap)
	if terminated.Reason != "Completed" && !said {
		fmt.Fprintf(notes, "%s: %s\n", terminated.Reason, terminated.Message)
	}
	return int(terminated.ExitCode), nil
}

// removePod deletes the pod and waits until it is gone.
func removePod(ctx context.Context, core rest.Interface, pod *corev1.Pod) error {
	grace := int64(1)
	options := &metav1.DeleteOptions{GracePeriodSeconds: &grace, Preconditions: &metav1.Preconditions{UID: &pod.UID}}
	err := core.Delete().Namespace(pod.Namespace).Resource("pods").Name(pod.Name).Body(options).Do(ctx).Error()
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = waitForPod(ctx, core, pod, func(*corev1.Pod) bool { return false })
	if errors.Is(err, errPodGone) {
		return nil
	}
	return fmt.Errorf("pod %s is not gone yet: %w", pod.Name, err)
}
