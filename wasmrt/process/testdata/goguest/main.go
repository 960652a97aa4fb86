// Command goguest is a guest in Go that sleeps, or ends with the code given as its second argument.
package main

import (
	"fmt"
	"os"
	"strconv"
	"time"
)

func main() {
	if len(os.Args) > 2 && os.Args[1] == "exit" {
		code, err := strconv.Atoi(os.Args[2])
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 2
		}
		os.Exit(code)
	}
	fmt.Println("sleeping")
	for {
		time.Sleep(time.Hour)
	}
}
