//go:build !linux

package container

import (
	"fmt"
	"os"
)

// Main tells that containers do not run on this system, and ends the process.
func Main([]string) {
	fmt.Fprintln(os.Stderr, "containers are not supported on this system: run edgepod's agent on Linux")
	os.Exit(1)
}
