package process

import (
	"fmt"

	"edgepod/wasmrt/image/module"
	"edgepod/wasmrt/wasi"
)

// Offered returns an error for the user, naming the import, for what containers are not given: all that package wasi has, they
// are.
func Offered(im module.Import) error {
	if im.Kind != module.KindFunc {
		return fmt.Errorf("the module imports the %s %s.%s, which is not offered", im.Kind, im.Module, im.Name)
	}
	return wasi.CheckImports([]wasi.Import{{Module: im.Module, Name: im.Name, Params: im.Params, Results: im.Results}})
}
