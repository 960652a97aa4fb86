// Package guest ships the modules that the binary holds, which pods name as edgepod.dev/NAME.
package guest

import (
	"embed"
	"io/fs"
)

//go:generate sh toolbox/build.sh

//go:embed *.wasm
var modules embed.FS

// Modules returns the modules by file name: NAME.wasm.
//
//	toolbox  cat, date, echo, env, exit, false, ls, sleep, tee, tick, true, write: by argv[0] or as the first argument
func Modules() fs.FS { return modules }
