package api

import (
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"edgepod/server/registry"
)

// chunk gathers small writes into large ones: each write to an HTTP/2 stream is a talk between two goroutines.
type chunk struct {
	to  sink
	buf []byte
}

const chunkSize = 128 << 10

var chunks = sync.Pool{New: func() any { return &chunk{buf: make([]byte, 0, chunkSize)} }}

func (c *chunk) reset(to sink) { c.to, c.buf = to, c.buf[:0] }

func (c *chunk) Write(p []byte) (int, error) {
	if len(c.buf)+len(p) > cap(c.buf) {
		c.flush()
	}
	if len(p) > cap(c.buf) {
		return c.to.Write(p)
	}
	c.buf = append(c.buf, p...)
	return len(p), nil
}

func (c *chunk) flush() {
	if len(c.buf) > 0 {
		c.to.Write(c.buf)
		c.buf = c.buf[:0]
	}
}

// inChunks makes large writes of those of write.
func inChunks(write func(w sink)) func(w sink) {
	return func(w sink) {
		c := chunks.Get().(*chunk)
		defer chunks.Put(c)
		c.reset(w)
		write(c)
		c.flush()
		c.to = nil
	}
}

// listKind is the kind of a resource's lists.
func listKind(res *registry.Resource) schema.GroupVersionKind {
	return res.Kind.GroupVersion().WithKind(res.Kind.Kind + "List")
}
