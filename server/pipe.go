package server

import (
	"context"
	"net"
	"net/http"
	"sync"
)

// pipe is a listener whose connections stay in the process: what the agent of `edgepod up` speaks to the API over, and the
// API to that agent, so that one machine runs the same lines as a hundred.
type pipe struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipe() *pipe {
	return &pipe{conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (p *pipe) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipe) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipe) Addr() net.Addr { return pipeAddr{} }

// dial connects to whoever accepts. The network and the address do not matter.
func (p *pipe) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case p.conns <- far:
		return near, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// transport returns an HTTP client's transport over the pipe. Its idle connections are few: each costs two goroutines.
func (p *pipe) transport() *http.Transport {
	return &http.Transport{DialContext: p.dial, MaxIdleConnsPerHost: 8, DisableCompression: true}
}

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "pipe" }
