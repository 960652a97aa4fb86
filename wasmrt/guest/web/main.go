// Command web is a small web server for pods, built with `edgepod build`:
//
//	web [--listen [HOST]:PORT] [FOLDER]
//
// It serves the files of FOLDER, or of a folder where nginx, Apache or nobody would have them, on port 80, or the one in $PORT;
// /healthz answers ok, and /echo with the request itself. Each request is a line of its output.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

// folders are served where none is named.
var folders = []string{"/usr/share/nginx/html", "/usr/local/apache2/htdocs", "/srv"}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Println("web:", err)
		os.Exit(1)
	}
}

// options are what the command line and the environment say.
type options struct {
	listen string
	folder string
}

// parse reads the command line. Flags of nginx are accepted and have no effect, as pods that mean nginx have them.
func parse(args []string, getenv func(string) string) (options, error) {
	o := options{listen: ":80"}
	if port := getenv("PORT"); port != "" {
		o.listen = ":" + port
	}
	for len(args) > 0 {
		name, value, given := strings.Cut(args[0], "=")
		args = args[1:]
		switch name {
		case "--listen", "-g", "-c":
			if !given {
				if len(args) == 0 {
					return o, errors.New(name + " wants a value")
				}
				value, args = args[0], args[1:]
			}
			if name == "--listen" {
				o.listen = value
			}
		default:
			if strings.HasPrefix(name, "-") || o.folder != "" {
				return o, errors.New("usage: web [--listen [HOST]:PORT] [FOLDER]")
			}
			o.folder = name
		}
	}
	if !strings.Contains(o.listen, ":") {
		o.listen = ":" + o.listen
	}
	return o, nil
}

// openFolder opens what is to be served. A folder that was named must be there.
func openFolder(named string) (*os.Root, error) {
	if named != "" {
		return os.OpenRoot(named)
	}
	for _, folder := range folders {
		if root, err := os.OpenRoot(folder); err == nil {
			return root, nil
		}
	}
	return nil, nil
}

func run(args []string) error {
	o, err := parse(args, os.Getenv)
	if err != nil {
		return err
	}
	root, err := openFolder(o.folder)
	if err != nil {
		return err
	}
	stop, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	l, err := net.Listen("tcp", o.listen)
	if err != nil {
		return err
	}
	fmt.Println("web is up on", l.Addr())
	s := newServer(files{root}, os.Stdout)
	failed := make(chan error, 1)
	go func() { failed <- s.Serve(l) }()
	select {
	case err := <-failed:
		return err
	case <-stop.Done():
	}
	// What is under way gets as long as the pod's grace period gives it.
	if err := s.Shutdown(context.Background()); err != nil {
		return err
	}
	fmt.Println("web has stopped")
	return nil
}
