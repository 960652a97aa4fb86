//go:build wasip1

// Command serve is an HTTP server on the listener that it was started with. It stops well when it is told to.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
)

// descriptor opens the descriptor whose number a variable holds.
func descriptor(variable string) *os.File {
	fd, err := strconv.Atoi(os.Getenv(variable))
	if err != nil {
		log.Fatalf("%s: %v", variable, err)
	}
	return os.NewFile(uintptr(fd), variable)
}

func main() {
	listener, err := net.FileListener(descriptor("EDGEPOD_LISTEN_FD"))
	if err != nil {
		log.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(w, r.Body); err != nil {
			log.Print(err)
		}
		fmt.Fprintln(w, "hello")
	})}
	done := make(chan error)
	go func() {
		_, _ = io.Copy(io.Discard, descriptor("EDGEPOD_STOP_FD"))
		done <- server.Shutdown(context.Background())
	}()
	if err := server.Serve(listener); err != http.ErrServerClosed {
		log.Fatal(err)
	}
	if err := <-done; err != nil {
		log.Fatal(err)
	}
	fmt.Println("stopped")
	os.Exit(5)
}
