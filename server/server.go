// Package server puts the control plane together: store, registry, API and controllers, over one data folder.
package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"edgepod/server/api"
	"edgepod/server/controller"
	"edgepod/server/oci"
	"edgepod/server/pki"
	"edgepod/server/registry"
	"edgepod/server/store"
)

// shutdownGrace is how long requests under way may take when the server stops; watches are cut.
const shutdownGrace = 300 * time.Millisecond

// historyBytes bounds the memory that watches are replayed from: some 5,000 changes, hours of a small cluster.
const historyBytes = 8 << 20

// imagesDir is the folder of the image registry in the data folder.
const imagesDir = "registry"

// Server is a control plane. New opens it, Run runs it, and Close lets go of it where Run was not called.
type Server struct {
	config   Config
	creds    *credentials
	store    *store.Bolt
	registry *registry.Registry
	images   *oci.Registry
	api      *api.API
	nodes    *nodes
	listener net.Listener
	url      string

	ready     chan struct{}
	closeOnce sync.Once
	closeErr  error

	mu     sync.Mutex
	locals []*local
	serve  func(*local) // set while Run runs
}

// local is an HTTP server on a pipe.
type local struct {
	pipe   *pipe
	server *http.Server
}

// New opens the data folder, takes its lock and the port, and writes the kubeconfig. It serves nothing yet.
func New(config Config) (*Server, error) {
	if err := config.validate(); err != nil {
		return nil, err
	}
	if err := makeDataDir(config.DataDir); err != nil {
		return nil, err
	}
	s := &Server{config: config, ready: make(chan struct{})}
	if err := s.open(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Server) open() (err error) {
	s.store, err = store.Open(store.Config{
		Path: filepath.Join(s.config.DataDir, "edgepod.db"), HistoryBytes: historyBytes, Log: s.config.Log,
	})
	if err != nil {
		return err
	}
	if s.creds, err = openCredentials(s.config.DataDir, time.Now()); err != nil {
		return fmt.Errorf("credentials: %w", err)
	}
	if s.registry, err = registry.New(registry.Config{Store: s.store, Log: s.config.Log}); err != nil {
		return err
	}
	if s.images, err = oci.New(s.imagesConfig()); err != nil {
		return err
	}
	if s.listener, err = listen(s.config.Listen); err != nil {
		return err
	}
	s.nodes = newNodes(s.registry, s.creds.authority)
	hosts := append(serverHosts(s.listener.Addr()), s.config.Hosts...)
	if s.api, err = api.New(s.apiConfig(hosts)); err != nil {
		return err
	}
	s.listener = tls.NewListener(s.listener, s.tlsConfig(hosts))
	s.url = "https://" + clientAddress(s.listener.Addr())
	return s.creds.writeKubeconfig(s.KubeconfigPath(), s.url)
}

func (s *Server) apiConfig(hosts []string) api.Config {
	authenticator := api.NewCredentials(s.creds.authority.Pool())
	authenticator.AddToken(s.creds.adminToken, registry.Caller{Name: "admin", Groups: []string{"system:masters"}})
	metrics := prometheus.NewRegistry()
	metrics.MustRegister(figures[store.Stats]{storeFigures, s.store.Stats}, figures[oci.Stats]{imageFigures, s.images.Stats})
	return api.Config{
		Registry: s.registry, Authenticator: authenticator, Nodes: s.nodes, Ready: s.checkReady,
		Images: s.images, Metrics: metrics, Hosts: hosts, Log: s.config.Log,
	}
}

func (s *Server) imagesConfig() oci.Config {
	return oci.Config{
		Dir: filepath.Join(s.config.DataDir, imagesDir), Objects: s.registry, Quota: s.config.ImageQuota, Log: s.config.Log,
		Allowed: func(ctx context.Context, verb oci.Verb, _ string) bool {
			return api.MayUseImages(api.CallerFrom(ctx), verb != oci.Pull)
		},
	}
}

func (s *Server) tlsConfig(hosts []string) *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: pki.NewServing(s.creds.authority, hosts).ForClient,
		ClientAuth:     tls.VerifyClientCertIfGiven,
		ClientCAs:      s.creds.authority.Pool(),
		NextProtos:     []string{"h2", "http/1.1"},
	}
}

// URL is where clients reach the API.
func (s *Server) URL() string { return s.url }

// KubeconfigPath is the administrator's kubeconfig.
func (s *Server) KubeconfigPath() string { return filepath.Join(s.config.DataDir, KubeconfigFile) }

// Ready is closed when requests are answered.
func (s *Server) Ready() <-chan struct{} { return s.ready }

func (s *Server) checkReady() error {
	select {
	case <-s.ready:
		return nil
	default:
		return errors.New("the server is starting")
	}
}

// Registry is the door to the objects, for loops in this process.
func (s *Server) Registry() registry.Verbs { return s.registry }

// AgentConfig returns how the agent of the node, in this process, speaks to the API: over memory, as the node's user. It may
// be called before Run.
func (s *Server) AgentConfig(node string) *rest.Config {
	caller := registry.Caller{Name: "system:node:" + node, Groups: []string{"system:nodes"}}
	server := api.HTTPServer(s.api, s.config.Log)
	server.BaseContext = func(net.Listener) context.Context { return api.WithCaller(context.Background(), caller) }
	l := s.addLocal(server)
	return &rest.Config{Host: "http://localhost", Transport: l.pipe.transport()}
}

// Attach lets the API reach the agent of the node, in this process, through its handler.
func (s *Server) Attach(node string, handler http.Handler) {
	l := s.addLocal(&http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second})
	s.nodes.attach(node, l.pipe.transport())
}

func (s *Server) addLocal(server *http.Server) *local {
	l := &local{pipe: newPipe(), server: server}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.locals = append(s.locals, l)
	if s.serve != nil {
		s.serve(l)
	}
	return l
}

// Run serves until ctx ends, then lets go of the data folder. It returns nil after a stop that ctx asked for.
func (s *Server) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wait sync.WaitGroup
	start := func(what string, run func() error) {
		wait.Go(func() {
			if err := run(); err != nil && !errors.Is(err, http.ErrServerClosed) && ctx.Err() == nil {
				cancel(fmt.Errorf("%s: %w", what, err))
			}
		})
	}
	public := api.HTTPServer(s.api, s.config.Log)
	start("API", func() error { return public.Serve(s.listener) })
	s.mu.Lock()
	s.serve = func(l *local) { start("in-process API", func() error { return l.server.Serve(l.pipe) }) }
	for _, l := range s.locals {
		s.serve(l)
	}
	s.mu.Unlock()
	start("image registry", func() error { return s.images.Run(ctx) })
	for _, loop := range controller.All(controller.Config{Verbs: s.registry, Release: s.images.Release, Log: s.config.Log}) {
		start("controller", func() error { return loop.Run(ctx) })
	}
	close(s.ready)
	<-ctx.Done()
	s.shutdown(public)
	wait.Wait()
	err := s.Close()
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return errors.Join(cause, err)
	}
	return err
}

// shutdown lets short requests end and cuts the rest.
func (s *Server) shutdown(public *http.Server) {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownGrace)
	defer cancel()
	s.mu.Lock()
	servers := []*http.Server{public}
	for _, l := range s.locals {
		servers = append(servers, l.server)
	}
	s.serve = nil
	s.mu.Unlock()
	var wait sync.WaitGroup
	for _, server := range servers {
		wait.Go(func() {
			if server.Shutdown(ctx) != nil {
				server.Close()
			}
		})
	}
	wait.Wait()
}

// Close lets go of the port and the data folder. Calling it again is no error.
func (s *Server) Close() error {
	s.closeOnce.Do(func() {
		if s.listener != nil {
			s.listener.Close()
		}
		if s.store != nil {
			s.closeErr = s.store.Close()
		}
	})
	return s.closeErr
}

func listen(address string) (net.Listener, error) {
	listener, err := net.Listen("tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("address %s is already in use by another program: stop it, or choose another with --listen HOST:PORT", address)
	case errors.Is(err, os.ErrPermission):
		return nil, fmt.Errorf("address %s may not be used by this user: choose a port above 1023 with --listen HOST:PORT", address)
	case err != nil:
		return nil, fmt.Errorf("listen on %s: %w (choose another address with --listen HOST:PORT)", address, err)
	}
	return listener, nil
}
