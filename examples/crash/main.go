// Command crash says what it is about to do and ends with exit code 3.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "crash: giving up")
	os.Exit(3)
}
