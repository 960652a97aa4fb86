// Command reader follows a shared file until its last line has come, and prints what it reads.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"os"
	"time"
)

const (
	path = "/shared/lines"
	last = "line 5 of 5\n"
	// pause between two looks for more: WASI has no notification of file changes.
	pause = 20 * time.Millisecond
)

func main() {
	file := open()
	defer file.Close()
	reader := bufio.NewReader(file)
	for part := ""; part != last; {
		read, err := reader.ReadString('\n')
		part += read
		switch {
		case errors.Is(err, io.EOF):
			time.Sleep(pause)
		case err != nil:
			log.Fatal(err)
		case part != last:
			fmt.Print("read ", part)
			part = ""
		}
	}
	fmt.Print("read ", last)
}

// open waits until the writer has made the file.
func open() *os.File {
	for {
		file, err := os.Open(path)
		if err == nil {
			return file
		}
		if !errors.Is(err, fs.ErrNotExist) {
			log.Fatal(err)
		}
		time.Sleep(pause)
	}
}
