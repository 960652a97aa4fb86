package api

import (
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"edgepod/server/registry"
)

// chunkSize is how large the writes of long answers are: each write to an HTTP/2 stream is a talk between two goroutines.
const chunkSize = 128 << 10

var chunks = sync.Pool{New: func() any {
	buf := make([]byte, 0, chunkSize)
	return &buf
}}

// inChunks makes large writes of the small ones of write.
func inChunks(write func(w sink)) func(w sink) {
	return func(w sink) {
		kept := chunks.Get().(*[]byte)
		defer chunks.Put(kept)
		buf := (*kept)[:0]
		write(func(part []byte) {
			if len(buf)+len(part) > cap(buf) {
				w(buf)
				buf = buf[:0]
			}
			if len(part) > cap(buf) {
				w(part)
				return
			}
			buf = append(buf, part...)
		})
		w(buf)
	}
}

// listKind is the kind of a resource's lists.
func listKind(res *registry.Resource) schema.GroupVersionKind {
	return res.Kind.GroupVersion().WithKind(res.Kind.Kind + "List")
}
