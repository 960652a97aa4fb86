package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

func describeCommand(a *app) *cobra.Command {
	o := &getOptions{}
	cmd := &cobra.Command{
		Use:               "describe TYPE [NAME...] | TYPE/NAME... | -f FILE",
		ValidArgsFunction: cobra.NoFileCompletions,
		Short:             "Show objects in full, with their events",
		Example:           "  edgepod describe pod web\n  edgepod describe nodes",
	}
	o.client = newClient(a, cmd)
	addFileFlags(cmd.Flags(), &o.files, &o.recursive)
	cmd.Flags().StringVarP(&o.selector, "selector", "l", "", "label selector")
	cmd.Flags().BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "objects of every namespace")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		targets, err := o.client.selected(args, o.files, o.recursive, o.allNamespaces)
		if err != nil {
			return err
		}
		return o.describeAll(cmd.Context(), targets, visible(a.out))
	}
	return cmd
}

func (o *getOptions) describeAll(ctx context.Context, targets []target, out io.Writer) error {
	first := true
	show := func(object *unstructured.Unstructured) error {
		if !first {
			fmt.Fprint(out, "\n\n")
		}
		first = false
		return o.client.describe(ctx, object, out)
	}
	var errs []error
	for _, t := range targets {
		errs = append(errs, o.pages(ctx, t, "application/json", func(data []byte) (string, error) {
			object, err := decodeObject(data)
			if err != nil || !object.IsList() {
				return "", errors.Join(err, show(object))
			}
			next, _, _ := unstructured.NestedString(object.Object, "metadata", "continue")
			return next, object.EachListItem(func(item runtime.Object) error { return show(item.(*unstructured.Unstructured)) })
		}))
	}
	return errors.Join(errs...)
}

// describe prints one object: its fields but for those that tell a reader nothing, then its events in the server's own
// columns.
func (c *client) describe(ctx context.Context, object *unstructured.Unstructured, out io.Writer) error {
	name := object.GetName()
	if namespace := object.GetNamespace(); namespace != "" {
		name = namespace + "/" + name
	}
	if _, err := fmt.Fprintf(out, "%s %s\n\n", object.GetKind(), name); err != nil {
		return err
	}
	for _, section := range sections(object) {
		text, err := yaml.Marshal(section)
		if err != nil {
			return err
		}
		if _, err := out.Write(text); err != nil {
			return err
		}
	}
	return c.describeEvents(ctx, object, out)
}

// sections returns what there is to read of an object, one top-level field each: metadata, and the rest by name.
func sections(object *unstructured.Unstructured) []map[string]any {
	object = object.DeepCopy()
	unstructured.RemoveNestedField(object.Object, "metadata", "annotations", corev1.LastAppliedConfigAnnotation)
	if len(object.GetAnnotations()) == 0 {
		unstructured.RemoveNestedField(object.Object, "metadata", "annotations")
	}
	for _, field := range []string{"managedFields", "name", "namespace", "generation", "resourceVersion"} {
		unstructured.RemoveNestedField(object.Object, "metadata", field)
	}
	var all []map[string]any
	for _, field := range slices.Sorted(maps.Keys(object.Object)) {
		switch field {
		case "apiVersion", "kind", "metadata":
		default:
			all = append(all, map[string]any{field: object.Object[field]})
		}
	}
	return append([]map[string]any{{"metadata": object.Object["metadata"]}}, all...)
}

// describeEvents prints the events about an object, if there are any.
func (c *client) describeEvents(ctx context.Context, object *unstructured.Unstructured, out io.Writer) error {
	mapping, err := c.mapping("events")
	if err != nil {
		return err
	}
	events := target{mapping: mapping, namespace: object.GetNamespace()}
	about := fields.Set{"involvedObject.name": object.GetName(), "involvedObject.kind": object.GetKind()}
	if events.namespace == "" {
		events.namespace = metav1.NamespaceDefault
	} else {
		about["involvedObject.uid"] = string(object.GetUID())
	}
	o := getOptions{client: c, fieldSelector: about.AsSelector().String()}
	headed := false
	return o.pages(ctx, events, acceptTable, func(data []byte) (string, error) {
		table, err := decodeTable(data)
		if err != nil || len(table.Rows) == 0 {
			return "", err
		}
		if !headed {
			headed = true
			fmt.Fprintln(out, "events:")
		}
		return table.Continue, o.tablePrinter(events, false).PrintObj(table, out)
	})
}
