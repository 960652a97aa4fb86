// Command idle waits for the end of its input.
package main

import (
	"io"
	"log"
	"os"
)

func main() {
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		log.Fatal(err)
	}
}
