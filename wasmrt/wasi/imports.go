//go:build linux

package wasi

import (
	"fmt"
	"slices"
	"strings"

	"edgepod/wasmrt/engine"
)

// Import is a function that a module imports.
type Import = engine.Import

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
	offered := offers{}
	for _, i := range imports {
		if _, err := offered.find(i); err != nil {
			return err
		}
	}
	return nil
}

// offers are the functions of the host modules that have been asked for, by module.
type offers map[string][]function

// find returns the function behind an import. The name alone is not enough: a name may exist in several signatures.
func (o offers) find(i Import) (function, error) {
	functions, ok := o[i.Module]
	if !ok {
		functions = functionsOf(i.Module)
		o[i.Module] = functions
	}
	var signatures []string
	for _, f := range functions {
		if f.name != i.Name {
			continue
		}
		if slices.Equal(f.paramTypes(), i.Params) && slices.Equal(f.resultTypes(), i.Results) {
			return f, nil
		}
		signatures = append(signatures, engine.Signature(f.paramTypes(), f.resultTypes()))
	}
	return function{}, &UnknownImportError{Import: i, Offered: signatures}
}
