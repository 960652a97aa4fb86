package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// defaultContainerAnnotation names the container that is meant where the user names none.
const defaultContainerAnnotation = "kubectl.kubernetes.io/default-container"

func logsCommand(a *app) *cobra.Command {
	var options corev1.PodLogOptions
	var since time.Duration
	var tail int64
	cmd := &cobra.Command{
		Use:               "logs POD",
		ValidArgsFunction: cobra.NoFileCompletions,
		Short:             "Print what a container wrote",
		Example:           "  edgepod logs web\n  edgepod logs web -f --tail 20\n  edgepod logs crash --previous",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError(cmd, "say which POD, and only one")
			}
			return nil
		},
	}
	c := newClient(a, cmd)
	f := cmd.Flags()
	f.BoolVarP(&options.Follow, "follow", "f", false, "go on with what comes")
	f.BoolVarP(&options.Previous, "previous", "p", false, "of the container's previous run")
	f.StringVarP(&options.Container, "container", "c", "", "container (default: the pod's first)")
	f.BoolVar(&options.Timestamps, "timestamps", false, "begin each line with its time")
	f.Int64Var(&tail, "tail", -1, "the last lines alone (-1: all)")
	f.DurationVar(&since, "since", 0, "what is newer than this, such as 5s or 3h (0: all)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if tail >= 0 {
			options.TailLines = &tail
		}
		if since > 0 {
			seconds := int64((since + time.Second - 1) / time.Second)
			options.SinceSeconds = &seconds
		}
		return printLogs(cmd.Context(), c, strings.TrimPrefix(strings.TrimPrefix(args[0], "pods/"), "pod/"), &options)
	}
	return cmd
}

func printLogs(ctx context.Context, c *client, name string, options *corev1.PodLogOptions) error {
	namespace, _, err := c.Namespace()
	if err != nil {
		return err
	}
	core, err := c.core()
	if err != nil {
		return err
	}
	if options.Container == "" {
		pod := &corev1.Pod{}
		if err := core.Get().Namespace(namespace).Resource("pods").Name(name).Do(ctx).Into(pod); err != nil {
			return err
		}
		options.Container = defaultContainer(pod)
		if len(pod.Spec.Containers)+len(pod.Spec.InitContainers) > 1 {
			fmt.Fprintf(c.app.errOut, "Showing container %q; choose another with -c: %s\n", options.Container, strings.Join(containerNames(pod), ", "))
		}
	}
	return copyLogs(ctx, core, namespace, name, options, visible(c.app.out))
}

// copyLogs writes a container's log to out until its end, or until ctx ends.
func copyLogs(ctx context.Context, core rest.Interface, namespace, name string, options *corev1.PodLogOptions, out io.Writer) error {
	stream, err := core.Get().Namespace(namespace).Resource("pods").Name(name).SubResource("log").
		VersionedParams(options, scheme.ParameterCodec).Stream(ctx)
	if err != nil {
		return err
	}
	defer stream.Close()
	if _, err := io.Copy(out, stream); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("read the log of %s: %w", name, err)
	}
	return nil
}

func defaultContainer(pod *corev1.Pod) string {
	if name := pod.Annotations[defaultContainerAnnotation]; name != "" {
		return name
	}
	return pod.Spec.Containers[0].Name
}

func containerNames(pod *corev1.Pod) []string {
	var names []string
	for _, c := range pod.Spec.InitContainers {
		names = append(names, c.Name)
	}
	for _, c := range pod.Spec.Containers {
		names = append(names, c.Name)
	}
	return names
}
