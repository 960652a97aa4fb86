package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/client-go/rest"
)

// chunkSize is how many objects one request for a list brings.
const chunkSize = 500

type getOptions struct {
	client        *client
	files         []string
	recursive     bool
	output        string
	allNamespaces bool
	selector      string
	fieldSelector string
	watch         bool
	noHeaders     bool
	showLabels    bool
	ignoreMissing bool
}

func getCommand(a *app) *cobra.Command {
	o := &getOptions{}
	cmd := &cobra.Command{
		Use:               "get TYPE[,TYPE] [NAME...] | TYPE/NAME... | -f FILE",
		ValidArgsFunction: cobra.NoFileCompletions,
		Short:             "Show objects",
		Example:           "  edgepod get pods\n  edgepod get pods -A -o wide\n  edgepod get pod/web -o yaml\n  edgepod get events -w",
		RunE:              func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args) },
	}
	o.client = newClient(a, cmd)
	f := cmd.Flags()
	addFileFlags(f, &o.files, &o.recursive)
	f.StringVarP(&o.output, "output", "o", "", "output format: wide, yaml, json, name, or jsonpath=TEMPLATE")
	f.BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "objects of every namespace")
	f.StringVarP(&o.selector, "selector", "l", "", "label selector")
	f.StringVar(&o.fieldSelector, "field-selector", "", "field selector")
	f.BoolVarP(&o.watch, "watch", "w", false, "go on with every change")
	f.BoolVar(&o.noHeaders, "no-headers", false, "leave out the table's first line")
	f.BoolVar(&o.showLabels, "show-labels", false, "add a column with the labels")
	f.BoolVar(&o.ignoreMissing, "ignore-not-found", false, "an object that does not exist is no error")
	return cmd
}

func (o *getOptions) run(ctx context.Context, args []string) error {
	printer, err := o.printer()
	if err != nil {
		return err
	}
	targets, err := o.client.selected(args, o.files, o.recursive, o.allNamespaces)
	if err != nil {
		return err
	}
	out := visible(o.client.app.out)
	switch {
	case o.watch && len(targets) != 1:
		return errors.New("--watch follows one object or the objects of one type")
	case o.watch:
		return o.follow(ctx, targets[0], printer, out)
	case printer == nil:
		return o.printTables(ctx, targets, out)
	}
	return o.printObjects(ctx, targets, printer, out)
}

// printer returns that of the output format, nil for the server's tables.
func (o *getOptions) printer() (printers.ResourcePrinter, error) {
	switch o.output {
	case "", "wide":
		return nil, nil
	case "name":
		return &printers.NamePrinter{}, nil
	case "json":
		return &printers.OmitManagedFieldsPrinter{Delegate: &printers.JSONPrinter{}}, nil
	case "yaml":
		return &printers.OmitManagedFieldsPrinter{Delegate: &printers.YAMLPrinter{}}, nil
	}
	template, ok := strings.CutPrefix(o.output, "jsonpath=")
	if !ok {
		return nil, fmt.Errorf("output format %q is unknown: use wide, yaml, json, name, or jsonpath=TEMPLATE", o.output)
	}
	printer, err := printers.NewJSONPathPrinter(template)
	if err != nil {
		return nil, fmt.Errorf("jsonpath %q: %w", template, err)
	}
	printer.AllowMissingKeys(true)
	return printer, nil
}

// request is one for the target, with the selectors where it is a list.
func (o *getOptions) request(api rest.Interface, t target) *rest.Request {
	req := api.Get().AbsPath(t.path()...)
	if t.name != "" {
		return req
	}
	if o.selector != "" {
		req.Param("labelSelector", o.selector)
	}
	if o.fieldSelector != "" {
		req.Param("fieldSelector", o.fieldSelector)
	}
	return req
}

// pages calls use with each answer for the target: one, or for a long list several.
func (o *getOptions) pages(ctx context.Context, t target, accept string, use func([]byte) (next string, err error)) error {
	api, err := o.client.api()
	if err != nil {
		return err
	}
	for next := ""; ; {
		req := o.request(api, t).SetHeader("Accept", accept)
		if t.name == "" {
			req.Param("limit", strconv.Itoa(chunkSize))
		}
		if next != "" {
			req.Param("continue", next)
		}
		data, err := answer(req.Do(ctx))
		if o.ignoreMissing && apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		if next, err = use(data); err != nil || next == "" {
			return err
		}
	}
}

// printTables prints a table for each run of targets of one kind. What cannot be had is told at the end.
func (o *getOptions) printTables(ctx context.Context, targets []target, out io.Writer) error {
	var errs []error
	several, printed := false, false
	for _, t := range targets {
		several = several || t.mapping.Resource != targets[0].mapping.Resource
	}
	for len(targets) > 0 {
		n := 1
		for n < len(targets) && targets[n].mapping.Resource == targets[0].mapping.Resource {
			n++
		}
		rows, err := o.printTable(ctx, targets[:n], several, printed, out)
		errs = append(errs, err)
		printed = printed || rows > 0
		targets = targets[n:]
	}
	err := errors.Join(errs...)
	if !printed && err == nil && !o.ignoreMissing {
		fmt.Fprintln(o.client.app.errOut, "No resources found.")
	}
	return err
}

// printTable prints the targets, which are of one kind, and returns the number of lines. A blank line sets it off from
// an earlier table.
func (o *getOptions) printTable(ctx context.Context, targets []target, withKind, setOff bool, out io.Writer) (rows int, err error) {
	w := printers.GetNewTabWriter(out)
	printer := o.tablePrinter(targets[0], withKind)
	var errs []error
	for _, t := range targets {
		errs = append(errs, o.pages(ctx, t, acceptTable, func(data []byte) (string, error) {
			table, err := decodeTable(data)
			if err != nil || len(table.Rows) == 0 {
				return "", err
			}
			if setOff && rows == 0 {
				fmt.Fprintln(out)
			}
			rows += len(table.Rows)
			return table.Continue, printer.PrintObj(table, w)
		}))
	}
	return rows, errors.Join(append(errs, w.Flush())...)
}

func (o *getOptions) tablePrinter(t target, withKind bool) printers.ResourcePrinter {
	return printers.NewTablePrinter(printers.PrintOptions{
		Wide: o.output == "wide", NoHeaders: o.noHeaders, ShowLabels: o.showLabels,
		WithNamespace: o.allNamespaces && t.namespaced(),
		WithKind:      withKind, Kind: t.mapping.GroupVersionKind.GroupKind(),
	})
}

// printObjects prints whole objects: one that was named alone as itself, others as a List, or for names one by one.
func (o *getOptions) printObjects(ctx context.Context, targets []target, printer printers.ResourcePrinter, out io.Writer) error {
	var items []*unstructured.Unstructured
	var errs []error
	for _, t := range targets {
		errs = append(errs, o.pages(ctx, t, "application/json", func(data []byte) (string, error) {
			object, err := decodeObject(data)
			if err != nil || !object.IsList() {
				items = append(items, object)
				return "", err
			}
			err = object.EachListItem(func(item runtime.Object) error {
				items = append(items, item.(*unstructured.Unstructured))
				return nil
			})
			next, _, _ := unstructured.NestedString(object.Object, "metadata", "continue")
			return next, err
		}))
	}
	_, names := printer.(*printers.NamePrinter)
	switch {
	case names:
		for _, item := range items {
			errs = append(errs, printer.PrintObj(item, out))
		}
	case len(targets) == 1 && targets[0].name != "":
		for _, item := range items {
			errs = append(errs, printer.PrintObj(item, out))
		}
	default:
		errs = append(errs, printer.PrintObj(listOf(items), out))
	}
	return errors.Join(errs...)
}

func listOf(items []*unstructured.Unstructured) *unstructured.Unstructured {
	contents := make([]any, 0, len(items))
	for _, item := range items {
		contents = append(contents, item.Object)
	}
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "List", "items": contents}}
}

// follow prints what is there and then each change, until ctx ends.
func (o *getOptions) follow(ctx context.Context, t target, printer printers.ResourcePrinter, out io.Writer) error {
	version := ""
	show := func(data []byte) error {
		object, err := decodeObject(data)
		if err != nil {
			return err
		}
		version = object.GetResourceVersion()
		if !object.IsList() {
			return printer.PrintObj(object, out)
		}
		version, _, _ = unstructured.NestedString(object.Object, "metadata", "resourceVersion")
		return object.EachListItem(func(item runtime.Object) error { return printer.PrintObj(item, out) })
	}
	accept := "application/json"
	if printer == nil {
		accept = acceptTable
		rows, tables := printers.GetNewTabWriter(out), o.tablePrinter(t, false)
		show = func(data []byte) error {
			table, err := decodeTable(data)
			if err != nil {
				return err
			}
			version = table.ResourceVersion
			return errors.Join(tables.PrintObj(table, rows), rows.Flush())
		}
	}
	if err := o.pages(ctx, t, accept, func(data []byte) (string, error) { return "", show(data) }); err != nil {
		return err
	}
	return o.watchChanges(ctx, t, accept, version, show)
}

// watchChanges calls show with each change to the target after the version.
func (o *getOptions) watchChanges(ctx context.Context, t target, accept, version string, show func([]byte) error) error {
	api, err := o.client.api()
	if err != nil {
		return err
	}
	if t.name != "" {
		o.fieldSelector = "metadata.name=" + t.name
		t.name = ""
	}
	stream, err := o.request(api, t).SetHeader("Accept", accept).Param("watch", "true").Param("resourceVersion", version).Stream(ctx)
	if err != nil {
		return err
	}
	defer stream.Close()
	for events := json.NewDecoder(stream); ; {
		event := metav1.WatchEvent{}
		switch err := events.Decode(&event); {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return fmt.Errorf("the server ended the watch: %w", err)
		}
		switch watch.EventType(event.Type) {
		case watch.Bookmark:
		case watch.Error:
			status := metav1.Status{}
			return errors.Join(json.Unmarshal(event.Object.Raw, &status), &apierrors.StatusError{ErrStatus: status})
		default:
			if err := show(event.Object.Raw); err != nil {
				return err
			}
		}
	}
}
