// Command client asks a server for a page for each of its arguments.
package main

import (
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/url"
	"os"
	"syscall"
	"time"
)

func main() {
	log.SetFlags(0)
	base := os.Getenv("SERVER")
	if base == "" {
		base = "http://localhost:8080"
	}
	for _, name := range os.Args[1:] {
		if err := ask(base + "/greet/" + url.PathEscape(name)); err != nil {
			log.Fatal(err)
		}
	}
}

// ask prints a page. The server in the other container may need a moment to be there.
func ask(page string) error {
	answer, err := http.Get(page)
	for deadline := time.Now().Add(time.Minute); errors.Is(err, syscall.ECONNREFUSED) && time.Now().Before(deadline); {
		time.Sleep(50 * time.Millisecond)
		answer, err = http.Get(page)
	}
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", page, answer.Status)
	}
	_, err = io.Copy(os.Stdout, answer.Body)
	return err
}
