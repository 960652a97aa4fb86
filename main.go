// Command edgepod is a WebAssembly-first edge orchestrator: a control plane, a node agent and their command line in one file.
package main

import (
	"context"
	"os"

	"edgepod/wasmrt/process"
)

func main() {
	process.ChildMain()
	a := &app{in: os.Stdin, out: os.Stdout, errOut: os.Stderr}
	os.Exit(execute(context.Background(), a, os.Args[1:]))
}
