// Command server serves HTTP until it is told to stop, as any Go server does, or calls one: server [URL].
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
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
	if len(os.Args) > 1 {
		call(os.Args[1])
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "hello %s", r.URL.Query().Get("name"))
	})}
	l, err := net.Listen("tcp", ":8080")
	if err != nil {
		log.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- server.Serve(l) }()
	log.Print("listening on ", l.Addr())
	<-ctx.Done()
	grace, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	log.Print("stopping: ", context.Cause(ctx))
	if err := server.Shutdown(grace); err != nil {
		log.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		log.Fatal(err)
	}
	log.Print("goodbye")
}

func call(url string) {
	for range 100 {
		answer, err := http.Get(url)
		if err != nil {
			log.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || string(text) != "hello world" {
			log.Fatalf("%s: %q, %v", answer.Status, text, err)
		}
	}
	log.Print("called")
}
