package remote

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func answer(status int, header ...string) *http.Response {
	h := http.Header{}
	for i := 0; i+1 < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader("body"))}
}

func TestRequestsAreRepeatedWithPatienceButNotForEver(t *testing.T) {
	date := func(in time.Duration) string { return time.Now().Add(in).UTC().Format(http.TimeFormat) }
	for name, tt := range map[string]struct {
		answers  func() []*http.Response // nil is a connection that is reset
		status   int                     // 0: an error
		attempts int
		min, max time.Duration
	}{
		"good":            {func() []*http.Response { return []*http.Response{answer(200)} }, 200, 1, 0, 0},
		"not found":       {func() []*http.Response { return []*http.Response{answer(404)} }, 404, 1, 0, 0},
		"busy, then good": {func() []*http.Response { return []*http.Response{answer(503), answer(502), answer(200)} }, 200, 3, 1500 * time.Millisecond, 2300 * time.Millisecond},
		"busy for ever": {func() []*http.Response {
			return []*http.Response{answer(503), answer(503), answer(503), answer(503), answer(503)}
		}, 503, 4, 3500 * time.Millisecond, 6 * time.Second},
		"asked to wait": {func() []*http.Response { return []*http.Response{answer(429, "Retry-After", "7"), answer(200)} }, 200, 2, 7 * time.Second, 7 * time.Second},
		"until a date": {func() []*http.Response {
			return []*http.Response{answer(429, "Retry-After", date(9*time.Second)), answer(200)}
		}, 200, 2, 8 * time.Second, 9 * time.Second},
		"asked too much":   {func() []*http.Response { return []*http.Response{answer(429, "Retry-After", "3600"), answer(200)} }, 429, 1, 0, 0},
		"asked nonsense":   {func() []*http.Response { return []*http.Response{answer(429, "Retry-After", "soon"), answer(200)} }, 200, 2, 500 * time.Millisecond, time.Second},
		"reset, then good": {func() []*http.Response { return []*http.Response{nil, answer(200)} }, 200, 2, 500 * time.Millisecond, time.Second},
		"reset for ever":   {func() []*http.Response { return []*http.Response{nil, nil, nil, nil, nil} }, 0, 2, 500 * time.Millisecond, time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			answers, attempts := tt.answers(), 0
			r := &retrier{pause: time.Second / 2, inner: transportFunc(func(*http.Request) (*http.Response, error) {
				next := answers[attempts]
				attempts++
				if next == nil {
					return nil, syscall.ECONNRESET
				}
				return next, nil
			})}
			began := time.Now()
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://r.example/", nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := r.RoundTrip(req)
			took := time.Since(began)
			status := 0
			if err == nil {
				status = resp.StatusCode
				_ = resp.Body.Close()
			}
			if status != tt.status || attempts != tt.attempts || took < tt.min || took > tt.max {
				t.Errorf("%s: %d (%v) after %d attempts in %v; want %d after %d in %v to %v", name, status, err, attempts, took, tt.status, tt.attempts, tt.min, tt.max)
			}
		})
	}
}

func TestWaitingEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r := &retrier{pause: time.Minute, inner: transportFunc(func(*http.Request) (*http.Response, error) { return answer(503), nil })}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://r.example/", nil)
		if err != nil {
			t.Fatal(err)
		}
		if resp, err := r.RoundTrip(req); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, %v", resp, err)
		}
	})
}

// hanging is a body that sends a byte and then nothing until its request ends.
type hanging struct {
	ctx  context.Context
	sent bool
}

func (h *hanging) Read(p []byte) (int, error) {
	if !h.sent {
		h.sent = true
		return copy(p, "x"), nil
	}
	<-h.ctx.Done()
	return 0, h.ctx.Err()
}

func (h *hanging) Close() error { return nil }

func TestARegistryThatSendsNothingIsGivenUp(t *testing.T) {
	request := func(t *testing.T) *http.Request {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://r.example/", nil)
		if err != nil {
			t.Fatal(err)
		}
		return req
	}
	synctest.Test(t, func(t *testing.T) {
		w := &watchman{stall: time.Minute, inner: transportFunc(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})}
		if resp, err := w.RoundTrip(request(t)); err == nil || !strings.Contains(err.Error(), "r.example has sent nothing for 1m0s") {
			t.Errorf("without a header: %v, %v", resp, err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		w := &watchman{stall: time.Minute, inner: transportFunc(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Body: &hanging{ctx: r.Context()}}, nil
		})}
		resp, err := w.RoundTrip(request(t))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		<-time.After(time.Hour) // what the reader takes for itself does not count
		if text, err := io.ReadAll(resp.Body); string(text) != "x" || err == nil || !strings.Contains(err.Error(), "has sent nothing for") {
			t.Errorf("in the middle: %q, %v", text, err)
		}
	})
}
