// Command child is the program that containers run in: engine and host functions, and nothing of Kubernetes. It is built
// into package process, which starts it.
package main

import (
	"os"

	"edgepod/wasmrt/container"
)

func main() { container.Main(os.Args[1:]) }
