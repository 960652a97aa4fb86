//go:build linux

package wasi

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tetratelabs/wazero/api"
)

// Import is a function that a module imports.
type Import struct {
	Module, Name    string
	Params, Results []api.ValueType
}

func (i Import) String() string {
	return fmt.Sprintf("%s.%s %s", i.Module, i.Name, signature(i.Params, i.Results))
}

// signature writes value types as "(i32, i64) -> i32".
func signature(params, results []api.ValueType) string {
	s := "(" + strings.Join(typeNames(params), ", ") + ")"
	switch len(results) {
	case 0:
		return s
	case 1:
		return s + " -> " + api.ValueTypeName(results[0])
	}
	return s + " -> (" + strings.Join(typeNames(results), ", ") + ")"
}

func typeNames(types []api.ValueType) []string {
	names := make([]string, len(types))
	for i, t := range types {
		names[i] = api.ValueTypeName(t)
	}
	return names
}

// UnknownImportError says that a module imports a function which is not offered.
type UnknownImportError struct {
	Import
	// Offered holds the signatures under which the function exists, empty where its name is unknown.
	Offered []string
}

func (e *UnknownImportError) Error() string {
	if len(e.Offered) == 0 {
		return fmt.Sprintf("the module imports %v, which is not offered", e.Import)
	}
	return fmt.Sprintf("the module imports %v, which is offered as %s only", e.Import, strings.Join(e.Offered, " or "))
}

// CheckImports returns an *UnknownImportError for the first import that is not offered, and nil when a module with these
// imports can be given all of them. It needs no Host.
func CheckImports(imports []Import) error {
	for _, i := range imports {
		if _, err := find(i); err != nil {
			return err
		}
	}
	return nil
}

// find returns the function behind an import. The name alone is not enough: a name may exist in several signatures.
func find(i Import) (function, error) {
	var offered []string
	for _, f := range functionsOf(i.Module) {
		if f.name != i.Name {
			continue
		}
		if slices.Equal(f.paramTypes(), i.Params) && slices.Equal(f.resultTypes(), i.Results) {
			return f, nil
		}
		offered = append(offered, signature(f.paramTypes(), f.resultTypes()))
	}
	return function{}, &UnknownImportError{Import: i, Offered: offered}
}
