package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"syscall"
	"time"
)

// attempts is how often a request is made at most, patience how long a registry may ask us to stay away.
const (
	attempts = 4
	patience = time.Minute
)

// retrier repeats requests that a registry could not answer just then: with the wait that it asks for, or one that doubles.
type retrier struct {
	inner http.RoundTripper
	pause time.Duration
}

// RoundTrip implements http.RoundTripper.
func (r *retrier) RoundTrip(req *http.Request) (*http.Response, error) {
	for n := 1; ; n++ {
		resp, err := r.inner.RoundTrip(req)
		wait, again := r.wait(n, resp, err)
		if !again || n == attempts || req.Body != nil && req.GetBody == nil {
			return resp, err
		}
		if resp != nil {
			discard(resp)
		}
		if err := sleep(req.Context(), wait); err != nil {
			return nil, err
		}
		if req.Body != nil {
			body, err := req.GetBody()
			if err != nil {
				return nil, err
			}
			req = req.Clone(req.Context())
			req.Body = body
		}
	}
}

// wait tells whether a request is worth repeating, and after how long.
func (r *retrier) wait(n int, resp *http.Response, err error) (time.Duration, bool) {
	pause := r.pause << (n - 1)
	pause += rand.N(pause/2 + 1)
	if err != nil { // whoever asked comes again: this is for a registry that restarts, or that closed an old connection
		return pause, n < attempts/2 && (errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF))
	}
	switch resp.StatusCode {
	case http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
	default:
		return 0, false
	}
	if asked := retryAfter(resp.Header.Get("Retry-After"), time.Now()); asked > 0 {
		return asked, asked <= patience
	}
	return pause, true
}

// retryAfter reads the header of that name, which holds seconds or a date; 0 where it says nothing.
func retryAfter(value string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// discard lets the connection be used again, if not much is left of the answer.
func discard(resp *http.Response) {
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10) // what comes of it does not matter
	_ = resp.Body.Close()
}

// watchman ends requests to a registry that sends nothing, be it the answer's header or more of its body.
type watchman struct {
	inner http.RoundTripper
	stall time.Duration
}

// RoundTrip implements http.RoundTripper.
func (w *watchman) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	stalled := fmt.Errorf("%s has sent nothing for %v", req.URL.Host, w.stall)
	timer := time.AfterFunc(w.stall, func() { cancel(stalled) })
	resp, err := w.inner.RoundTrip(req.WithContext(ctx))
	timer.Stop()
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		cancel(nil)
		return nil, err
	}
	resp.Body = &watched{inner: resp.Body, ctx: ctx, cancel: cancel, timer: timer, stall: w.stall}
	return resp, nil
}

// watched is a body; the time between two reads does not count.
type watched struct {
	inner  io.ReadCloser
	ctx    context.Context // the request's own, which lasts as long as the body
	cancel context.CancelCauseFunc
	timer  *time.Timer
	stall  time.Duration
}

func (w *watched) Read(p []byte) (int, error) {
	w.timer.Reset(w.stall)
	n, err := w.inner.Read(p)
	w.timer.Stop()
	if err != nil && err != io.EOF {
		if cause := context.Cause(w.ctx); cause != nil {
			err = cause
		}
	}
	return n, err
}

func (w *watched) Close() error {
	w.timer.Stop()
	w.cancel(nil)
	return w.inner.Close()
}
