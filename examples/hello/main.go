// Command hello greets whom its arguments name, and ends.
package main

import (
	"fmt"
	"os"
	"strings"
)

func main() {
	whom := "world"
	if len(os.Args) > 1 {
		whom = strings.Join(os.Args[1:], " ")
	}
	greeting := os.Getenv("GREETING")
	if greeting == "" {
		greeting = "Hello"
	}
	fmt.Printf("%s, %s!\n", greeting, whom)
}
