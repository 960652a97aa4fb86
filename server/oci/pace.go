package oci

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

// stride is how much must come or go within the pace.
const stride = 64 << 10

// pacedBody is a request's body that must come at a certain pace, however much of it there is: who sends a byte now and
// then is cut off.
type pacedBody struct {
	body    io.Reader
	control *http.ResponseController
	pace    time.Duration
	left    int // until the time is set anew

	mu       sync.Mutex // guards the deadline and what is below
	stopped  bool
	finished bool
}

func newPacedBody(w http.ResponseWriter, r *http.Request, pace time.Duration) *pacedBody {
	return &pacedBody{body: r.Body, control: http.NewResponseController(w), pace: pace}
}

// Read implements io.Reader.
func (b *pacedBody) Read(p []byte) (int, error) {
	if err := b.extend(); err != nil {
		return 0, err
	}
	n, err := b.body.Read(p[:min(len(p), stride)])
	b.left -= n
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil && b.stopped && !errors.Is(err, io.EOF) {
		err = errTakenOver
	}
	return n, err
}

// extend gives the sender time for the next stride.
func (b *pacedBody) extend() error {
	if b.left > 0 {
		return nil
	}
	b.left = stride
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stopped {
		return errTakenOver
	}
	return supported(b.control.SetReadDeadline(time.Now().Add(b.pace)))
}

// stop makes Read return soon. It may be called from any goroutine.
func (b *pacedBody) stop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stopped || b.finished {
		return
	}
	b.stopped = true
	// A connection without deadlines is one in memory, whose sender does not hang.
	_ = b.control.SetReadDeadline(time.Now())
}

// done lets the connection take its time again, unless it was cut off.
func (b *pacedBody) done() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.finished = true
	if !b.stopped {
		_ = b.control.SetReadDeadline(time.Time{}) // as above
	}
}

// supported forgives connections that have no deadlines.
func supported(err error) error {
	if errors.Is(err, http.ErrNotSupported) {
		return nil
	}
	return err
}

// pacedWriter is an answer that its reader must take at a certain pace.
type pacedWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	pace    time.Duration
	left    int
}

func newPacedWriter(w http.ResponseWriter, pace time.Duration) *pacedWriter {
	return &pacedWriter{ResponseWriter: w, control: http.NewResponseController(w), pace: pace}
}

// Write implements io.Writer.
func (w *pacedWriter) Write(p []byte) (int, error) {
	if w.left <= 0 {
		w.left = stride
		if err := supported(w.control.SetWriteDeadline(time.Now().Add(w.pace))); err != nil {
			return 0, err
		}
	}
	n, err := w.ResponseWriter.Write(p)
	w.left -= n
	return n, err
}

// Unwrap lets http.ResponseController reach the connection.
func (w *pacedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *pacedWriter) done() {
	_ = w.control.SetWriteDeadline(time.Time{}) // a connection without deadlines keeps having none
}
