// Command stdin repeats its input from one goroutine, while another goes on. It ends when its input does.
package main

import (
	"bufio"
	"fmt"
	"os"
	"time"
)

func main() {
	done := make(chan error)
	go func() {
		lines := bufio.NewScanner(os.Stdin)
		for lines.Scan() {
			fmt.Println("read", lines.Text())
		}
		done <- lines.Err()
	}()
	for range 3 {
		time.Sleep(time.Millisecond)
	}
	fmt.Println("going on")
	fmt.Println("end", <-done)
}
