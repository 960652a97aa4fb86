// Command server answers HTTP requests until it is asked to stop. Nothing in it is about WebAssembly.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	log.SetFlags(0)
	log.SetOutput(os.Stdout)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	http.HandleFunc("/greet/{name}", func(w http.ResponseWriter, r *http.Request) {
		host, err := os.Hostname()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		log.Printf("%s %s", r.Method, r.URL.Path)
		fmt.Fprintf(w, "Hello, %s! I am %s.\n", r.PathValue("name"), host)
	})

	listener, err := net.Listen("tcp", ":8080")
	if err != nil {
		log.Fatal(err)
	}
	server := &http.Server{ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	log.Printf("server is up on %s", listener.Addr())

	<-ctx.Done()
	log.Print("asked to stop: finishing what is under way")
	grace, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := server.Shutdown(grace); err != nil {
		log.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		log.Fatal(err)
	}
	log.Print("goodbye")
}
