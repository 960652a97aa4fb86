package upstream

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubernetes/pkg/printers"
	"k8s.io/kubernetes/pkg/printers/internalversion"
)

var tables = printers.NewTableGenerator().With(internalversion.AddHandlers)

// Table makes the table that kubectl get shows: the columns of the kind (left out if options.NoHeaders), and one row for
// each object with what options.IncludeObject asks for, its metadata by default. Ages are of the moment of the call, so a
// table is worth nothing later.
func Table(kind schema.GroupVersionKind, objects []runtime.Object, options *metav1.TableOptions) (*metav1.Table, error) {
	table := &metav1.Table{Rows: make([]metav1.TableRow, 0, len(objects))}
	table.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("Table"))
	internalKind := schema.GroupVersionKind{Group: kind.Group, Version: runtime.APIVersionInternal, Kind: kind.Kind}
	if !options.NoHeaders {
		columns, err := columnsOf(internalKind)
		if err != nil {
			return nil, err
		}
		table.ColumnDefinitions = columns
	}
	for _, obj := range objects {
		rows, err := rowsOf(internalKind, obj, options.IncludeObject)
		if err != nil {
			return nil, err
		}
		table.Rows = append(table.Rows, rows...)
	}
	return table, nil
}

func columnsOf(kind schema.GroupVersionKind) ([]metav1.TableColumnDefinition, error) {
	empty, err := Scheme.New(kind)
	if err != nil {
		return nil, err
	}
	table, err := tables.GenerateTable(empty, printers.GenerateOptions{Wide: true})
	if err != nil {
		return nil, err
	}
	return table.ColumnDefinitions, nil
}

func rowsOf(kind schema.GroupVersionKind, obj runtime.Object, include metav1.IncludeObjectPolicy) ([]metav1.TableRow, error) {
	internal, err := Scheme.New(kind)
	if err != nil {
		return nil, err
	}
	if err := Scheme.Convert(obj, internal, nil); err != nil {
		return nil, err
	}
	table, err := tables.GenerateTable(internal, printers.GenerateOptions{Wide: true, NoHeaders: true})
	if err != nil {
		return nil, err
	}
	for i := range table.Rows {
		if table.Rows[i].Object.Object, err = included(obj, include); err != nil {
			return nil, err
		}
	}
	return table.Rows, nil
}

func included(obj runtime.Object, include metav1.IncludeObjectPolicy) (runtime.Object, error) {
	switch include {
	case metav1.IncludeObject:
		return obj, nil
	case metav1.IncludeNone:
		return nil, nil
	case metav1.IncludeMetadata, "":
		accessor, err := meta.Accessor(obj)
		if err != nil {
			return nil, err
		}
		partial := meta.AsPartialObjectMetadata(accessor)
		partial.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata"))
		return partial, nil
	}
	return nil, fmt.Errorf("unrecognized includeObject value: %q", include)
}
