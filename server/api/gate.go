package api

import (
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// gate lets in as many requests as the server serves at once, and sends the others away to come back.
type gate struct {
	mutating, reading chan struct{}

	perUser int
	mu      sync.Mutex
	streams map[string]int
}

func newGate(l Limits) *gate {
	return &gate{
		mutating: make(chan struct{}, l.Mutating), reading: make(chan struct{}, l.Reading),
		perUser: l.Streams, streams: map[string]int{},
	}
}

// enter counts the request until release is called.
func (g *gate) enter(r *request) (release func(), err error) {
	if r.following {
		return g.follow(r.caller.Name)
	}
	room := g.reading
	if r.mutates() {
		room = g.mutating
	}
	select {
	case room <- struct{}{}:
		return func() { <-room }, nil
	default:
		return nil, apierrors.NewTooManyRequests("The server is serving as many requests as it can, please try again later", 1)
	}
}

func (g *gate) follow(user string) (release func(), err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.streams[user] >= g.perUser {
		return nil, apierrors.NewTooManyRequests("You have as many watches open as one user may, please end some first", 10)
	}
	g.streams[user]++
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.streams[user]--; g.streams[user] == 0 {
			delete(g.streams, user)
		}
	}, nil
}
