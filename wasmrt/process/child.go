package process

import (
	"os"

	"edgepod/wasmrt/container"
)

// ChildMain must be called first by every program that makes a runtime, also by TestMain: where the program was started
// to be a container's process, it does not return.
func ChildMain() {
	if len(os.Args) > 0 && os.Args[0] == childName {
		container.Main(os.Args[1:])
	}
}
