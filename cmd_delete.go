package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

type deleteOptions struct {
	get     getOptions
	all     bool
	wait    bool
	timeout time.Duration
	grace   int64
	now     bool
}

func deleteCommand(a *app) *cobra.Command {
	o := &deleteOptions{}
	cmd := &cobra.Command{
		Use:               "delete TYPE NAME... | TYPE/NAME... | TYPE -l SELECTOR | TYPE --all | -f FILE",
		ValidArgsFunction: cobra.NoFileCompletions,
		Short:             "Delete objects, and wait until they are gone",
		Example:           "  edgepod delete pod web\n  edgepod delete -f pod.yaml\n  edgepod delete pods --all",
		RunE:              func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args) },
	}
	o.get.client = newClient(a, cmd)
	f := cmd.Flags()
	addFileFlags(f, &o.get.files, &o.get.recursive)
	f.StringVarP(&o.get.selector, "selector", "l", "", "label selector")
	f.BoolVar(&o.all, "all", false, "all objects of the type in the namespace")
	f.BoolVarP(&o.get.allNamespaces, "all-namespaces", "A", false, "objects of every namespace")
	f.BoolVar(&o.wait, "wait", true, "wait until the objects are gone")
	f.DurationVar(&o.timeout, "timeout", 0, "give up waiting after this time (0: never)")
	f.Int64Var(&o.grace, "grace-period", -1, "seconds that pods get to stop (-1: their own)")
	f.BoolVar(&o.now, "now", false, "let pods stop within one second")
	f.BoolVar(&o.get.ignoreMissing, "ignore-not-found", false, "an object that does not exist is no error")
	cmd.MarkFlagsMutuallyExclusive("grace-period", "now")
	cmd.MarkFlagsMutuallyExclusive("all", "selector")
	return cmd
}

func (o *deleteOptions) run(ctx context.Context, args []string) error {
	selected, err := o.get.client.selected(args, o.get.files, o.get.recursive, o.get.allNamespaces)
	if err != nil {
		return err
	}
	if o.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.timeout)
		defer cancel()
	}
	targets, errs := o.named(ctx, selected)
	var deleted []deletion
	for _, t := range targets {
		uid, err := o.delete(ctx, t)
		if o.get.ignoreMissing && apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		deleted = append(deleted, deletion{o.get.client, t, uid})
		if _, err := fmt.Fprintf(o.get.client.app.out, "%s deleted\n", t); err != nil {
			return err
		}
	}
	if len(targets) == 0 && errors.Join(errs...) == nil {
		fmt.Fprintln(o.get.client.app.errOut, "No resources found.")
	}
	for _, d := range deleted {
		if o.wait {
			errs = append(errs, d.await(ctx))
		}
	}
	return errors.Join(errs...)
}

// named replaces the targets that are lists by the objects in them.
func (o *deleteOptions) named(ctx context.Context, selected []target) (targets []target, errs []error) {
	for _, t := range selected {
		if t.name != "" {
			targets = append(targets, t)
			continue
		}
		if !o.all && o.get.selector == "" {
			return nil, []error{fmt.Errorf("say which %s: by name, with -l SELECTOR, or --all", t.mapping.Resource.Resource)}
		}
		errs = append(errs, o.get.pages(ctx, t, "application/json", func(data []byte) (string, error) {
			list, err := decodeList(data)
			if err != nil {
				return "", err
			}
			for _, item := range list.Items {
				targets = append(targets, target{mapping: t.mapping, namespace: item.GetNamespace(), name: item.GetName()})
			}
			return list.GetContinue(), nil
		}))
	}
	return targets, []error{errors.Join(errs...)}
}

// delete asks for the end of one object and returns its uid.
func (o *deleteOptions) delete(ctx context.Context, t target) (types.UID, error) {
	background := metav1.DeletePropagationBackground
	options := &metav1.DeleteOptions{PropagationPolicy: &background}
	options.Kind, options.APIVersion = "DeleteOptions", "v1"
	switch {
	case o.now:
		second := int64(1)
		options.GracePeriodSeconds = &second
	case o.grace >= 0:
		options.GracePeriodSeconds = &o.grace
	}
	body, err := json.Marshal(options)
	if err != nil {
		return "", err
	}
	api, err := o.get.client.api()
	if err != nil {
		return "", err
	}
	data, err := answer(api.Delete().AbsPath(t.path()...).SetHeader("Content-Type", "application/json").Body(body).Do(ctx))
	if err != nil {
		return "", err
	}
	answer := struct {
		Metadata metav1.ObjectMeta     `json:"metadata"`
		Details  *metav1.StatusDetails `json:"details"`
	}{}
	if err := json.Unmarshal(data, &answer); err != nil {
		return "", err
	}
	if answer.Details != nil {
		return answer.Details.UID, nil
	}
	return answer.Metadata.UID, nil
}

// deletion is an object whose end was asked for.
type deletion struct {
	client *client
	target target
	uid    types.UID
}

// await returns when the object, or at least the one of its uid, is gone.
func (d deletion) await(ctx context.Context) error {
	for {
		live, err := d.client.get(ctx, d.target)
		if apierrors.IsNotFound(err) || err == nil && d.uid != "" && live.GetUID() != d.uid {
			return nil
		}
		if err != nil {
			return err
		}
		gone, err := d.watch(ctx, live)
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("%s still exists: %w", d.target, ctx.Err())
		case gone || err != nil:
			return err
		}
	}
}

// watch follows the object until it is gone; false means that the watch ended before that.
func (d deletion) watch(ctx context.Context, live *unstructured.Unstructured) (gone bool, err error) {
	api, err := d.client.api()
	if err != nil {
		return false, err
	}
	list := d.target
	list.name = ""
	stream, err := api.Get().AbsPath(list.path()...).Param("watch", "true").
		Param("resourceVersion", live.GetResourceVersion()).Param("fieldSelector", "metadata.name="+d.target.name).Stream(ctx)
	if err != nil {
		return false, err
	}
	defer stream.Close()
	for events := json.NewDecoder(stream); ; {
		event := metav1.WatchEvent{}
		err := events.Decode(&event)
		switch {
		case errors.Is(err, io.EOF) || watch.EventType(event.Type) == watch.Error:
			return false, nil
		case err != nil:
			return false, err
		case watch.EventType(event.Type) == watch.Deleted:
			return true, nil
		}
	}
}

func decodeList(data []byte) (*unstructured.UnstructuredList, error) {
	list := &unstructured.UnstructuredList{}
	return list, list.UnmarshalJSON(data)
}
