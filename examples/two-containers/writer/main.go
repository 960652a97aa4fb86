// Command writer appends a numbered line to a shared file each time its interval has passed, and names the last one.
package main

import (
	"fmt"
	"log"
	"os"
	"time"
)

const (
	path     = "/shared/lines"
	lines    = 5
	interval = 100 * time.Millisecond
)

func main() {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		log.Fatal(err)
	}
	defer file.Close()
	for i := 1; i <= lines; i++ {
		if _, err := fmt.Fprintf(file, "line %d of %d\n", i, lines); err != nil {
			log.Fatal(err)
		}
		time.Sleep(interval)
	}
	fmt.Println("wrote", lines, "lines")
}
