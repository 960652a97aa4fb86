package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"edgepod/wasmrt/sandbox"
)

// endpoint is a repository on one host: on a mirror, or where it belongs. Which credential it takes is found out with the
// first request.
type endpoint struct {
	host, repo  string
	plain       bool
	direct      bool
	tokenHosts  []string
	transport   http.RoundTripper
	credentials []sandbox.Credential // the last one is empty

	// turn is held by the request that finds out how to authorize.
	turn chan struct{}

	mu        sync.Mutex
	scheme    string
	challenge *transport.Challenge
	chosen    int    // index into credentials
	header    string // Authorization for the chosen one
	ready     bool   // whether header is made
	proven    bool   // whether an answer came with it
}

// get asks for a path below the repository. The caller closes the body of the answer, whose status is one of want.
func (e *endpoint) get(ctx context.Context, path string, header http.Header, want ...int) (*http.Response, error) {
	var first error // what the best credential brought
	best := -1
	for {
		authorization, n, err := e.authorize(ctx)
		if err == nil {
			var resp *http.Response
			resp, err = e.send(ctx, path, header, authorization)
			if err != nil {
				return nil, fmt.Errorf("ask %s: %w", e.host, plainly(e.host, err))
			}
			if slices.Contains(want, resp.StatusCode) {
				e.prove(n)
				return resp, nil
			}
			err = e.refusal(resp)
		}
		if best < 0 || best == n {
			first, best = err, n
		}
		if !e.next(n, authorization, err) {
			return nil, e.outcome(first)
		}
	}
}

// outcome tells an error that is about the credentials from that of a registry which was asked without.
func (e *endpoint) outcome(err error) error {
	if len(e.credentials) > 1 && errors.Is(err, ErrUnauthorized) {
		return &refusedError{e.host, err}
	}
	return err
}

// refusedError says that all the credentials for a registry were refused.
type refusedError struct {
	host string
	err  error
}

func (e *refusedError) Error() string {
	return fmt.Sprintf("the credentials given for %s were refused: %v", e.host, e.err)
}
func (e *refusedError) Unwrap() error { return e.err }

// Is makes it of the kind ErrRefused.
func (e *refusedError) Is(target error) bool { return target == ErrRefused }

// send makes one request; redirects to other hosts carry no authorization.
func (e *endpoint) send(ctx context.Context, path string, header http.Header, authorization string) (*http.Response, error) {
	e.mu.Lock()
	scheme := e.scheme
	e.mu.Unlock()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+e.host+"/v2/"+e.repo+"/"+path, nil)
	if err != nil {
		return nil, err
	}
	for key, values := range header {
		req.Header[key] = values
	}
	req.Header.Set("User-Agent", userAgent)
	// Otherwise the transport might unpack what is to be checked as it is.
	req.Header.Set("Accept-Encoding", "identity")
	client := http.Client{Transport: &authorizer{inner: e.transport, scheme: scheme, host: e.host, value: authorization}, CheckRedirect: redirects}
	if e.direct {
		client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	}
	return client.Do(req)
}

const userAgent = "edgepod"

// authorizer authorizes the requests that go to the registry itself.
type authorizer struct {
	inner               http.RoundTripper
	scheme, host, value string
}

// RoundTrip implements http.RoundTripper.
func (a *authorizer) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Del("Authorization")
	if a.value != "" && req.URL.Scheme == a.scheme && req.URL.Host == a.host {
		req.Header.Set("Authorization", a.value)
	}
	return a.inner.RoundTrip(req)
}

// prove remembers that a credential was taken.
func (e *endpoint) prove(n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.chosen == n {
		e.proven = true
	}
}

// next tells whether to ask again after an error with the credential n: with a new token where the old one may have run
// out, else with the next credential where the registry did not like this one.
func (e *endpoint) next(n int, authorization string, err error) bool {
	var status *StatusError
	refused := errors.As(err, &status) && (status.Code == http.StatusUnauthorized || status.Code == http.StatusForbidden || status.Code == http.StatusNotFound)
	var token *tokenError
	if e.direct || !refused && !errors.As(err, &token) {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.chosen != n || e.ready && e.header != authorization:
		return true // another request has found it out meanwhile
	case e.proven && refused && status.Code == http.StatusUnauthorized:
		e.ready, e.proven = false, false
		return true
	case e.proven || n+1 >= len(e.credentials):
		return false
	}
	e.chosen, e.ready = n+1, false
	return true
}

// StatusError is a registry's refusal.
type StatusError struct {
	Host string
	Code int
	// Text is what the registry said, as far as it can be printed.
	Text string
}

func (e *StatusError) Error() string {
	text := fmt.Sprintf("%s answered %d %s", e.Host, e.Code, http.StatusText(e.Code))
	if e.Text != "" {
		text += ": " + e.Text
	}
	return text
}

// Is makes NotFound and Unauthorized the kinds of such an error.
func (e *StatusError) Is(target error) bool {
	return target == ErrNotFound && e.Code == http.StatusNotFound ||
		target == ErrUnauthorized && (e.Code == http.StatusUnauthorized || e.Code == http.StatusForbidden)
}

// What an error of a Repository may be about.
var (
	ErrNotFound     = errors.New("not found")
	ErrUnauthorized = errors.New("not authorized")
	ErrRefused      = errors.New("credentials refused")
)

// refusal reads the error that an answer holds, and closes it.
func (e *endpoint) refusal(resp *http.Response) error {
	defer discard(resp)
	const most = 8 << 10
	data, err := io.ReadAll(io.LimitReader(resp.Body, most))
	if err != nil {
		data = nil // the status is known
	}
	var body struct {
		Errors []struct{ Code, Message string }
	}
	out := &StatusError{Host: resp.Request.URL.Host, Code: resp.StatusCode}
	if json.Unmarshal(data, &body) == nil && len(body.Errors) > 0 {
		out.Text = printable(body.Errors[0].Code + " " + body.Errors[0].Message)
	}
	if after := resp.Header.Get("Retry-After"); resp.StatusCode == http.StatusTooManyRequests && after != "" {
		out.Text = strings.TrimSpace(out.Text + " (it asks to come back after " + printable(after) + " s)")
	}
	return out
}

// printable is foreign text that can be shown: short, and without control characters.
func printable(text string) string {
	const most = 200
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, ""))
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return strings.TrimSpace(text)
}
