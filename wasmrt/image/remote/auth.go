package remote

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"golang.org/x/net/publicsuffix"

	"edgepod/wasmrt/sandbox"
)

// tokenError says why a credential gave no token.
type tokenError struct{ err error }

func (e *tokenError) Error() string { return e.err.Error() }
func (e *tokenError) Unwrap() error { return e.err }

// Is makes it an error about authorization.
func (e *tokenError) Is(target error) bool { return target == ErrUnauthorized }

// authorize returns the Authorization header for the chosen credential, and which one that is. One request at a time finds it
// out; the others wait for it.
func (e *endpoint) authorize(ctx context.Context) (header string, n int, err error) {
	if header, n, ok := e.authorized(); ok {
		return header, n, nil
	}
	select {
	case e.turn <- struct{}{}:
		defer func() { <-e.turn }()
	case <-ctx.Done():
		return "", 0, context.Cause(ctx)
	}
	if header, n, ok := e.authorized(); ok {
		return header, n, nil
	}
	e.mu.Lock()
	n, challenge := e.chosen, e.challenge
	e.mu.Unlock()
	if challenge == nil {
		if challenge, err = e.ping(ctx); err != nil {
			return "", n, err
		}
	}
	if header, err = e.authorization(ctx, e.credentials[n], challenge); err != nil {
		return "", n, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.chosen == n {
		e.header, e.ready = header, true
	}
	return header, n, nil
}

// authorized returns what is known already.
func (e *endpoint) authorized() (header string, n int, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.header, e.chosen, e.direct || e.ready
}

// ping finds out whether the host is spoken to with or without TLS and how it wants to know who asks.
func (e *endpoint) ping(ctx context.Context) (*transport.Challenge, error) {
	registry, err := e.registry()
	if err != nil {
		return nil, err
	}
	challenge, err := transport.Ping(ctx, registry, &brief{inner: e.transport})
	if err != nil {
		return nil, fmt.Errorf("reach the registry %s: %w", e.host, plainly(e.host, err))
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.challenge, e.scheme = challenge, "https"
	if challenge.Insecure {
		e.scheme = "http"
	}
	return challenge, nil
}

// brief cuts answers off whose content nobody wants, and which the library would read to their end.
type brief struct{ inner http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b *brief) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := b.inner.RoundTrip(req)
	if err == nil {
		const most = 64 << 10
		resp.Body = &cutBody{Reader: io.LimitReader(resp.Body, most), Closer: resp.Body}
	}
	return resp, err
}

type cutBody struct {
	io.Reader
	io.Closer
}

func (e *endpoint) registry() (name.Registry, error) {
	if e.plain {
		return name.NewRegistry(e.host, name.Insecure)
	}
	return name.NewRegistry(e.host)
}

// authorization turns a credential into what the registry asked for.
func (e *endpoint) authorization(ctx context.Context, c sandbox.Credential, challenge *transport.Challenge) (string, error) {
	switch {
	case c.RegistryToken != "":
		return "Bearer " + c.RegistryToken, nil
	case strings.EqualFold(challenge.Scheme, "bearer"):
		return e.token(ctx, c, challenge)
	case c.Username == "" && c.Password == "":
		return "", nil
	}
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(c.Username+":"+c.Password)), nil
}

// token exchanges a credential, or none, for a token that allows to pull from the repository.
func (e *endpoint) token(ctx context.Context, c sandbox.Credential, challenge *transport.Challenge) (string, error) {
	realm, err := url.Parse(challenge.Parameters["realm"])
	if err != nil || realm.Host == "" {
		return "", fmt.Errorf("%s names no issuer of its tokens", e.host)
	}
	anonymous := c == sandbox.Credential{}
	if !anonymous && !e.trusts(realm.Host) {
		return "", &tokenError{fmt.Errorf("%s wants the credentials sent to %s, which is not of its own domain: they stay here "+
			"(tokenHosts in the node's configuration of registries allows it)", e.host, realm.Host)}
	}
	auth := authn.Anonymous
	if !anonymous {
		auth = authn.FromConfig(authn.AuthConfig{Username: c.Username, Password: c.Password, IdentityToken: c.IdentityToken})
	}
	registry, err := e.registry()
	if err != nil {
		return "", err
	}
	scope := registry.Repo(e.repo).Scope(transport.PullScope)
	if !strings.HasSuffix(scope, ":"+e.repo+":"+transport.PullScope) {
		scope = "repository:" + e.repo + ":" + transport.PullScope
	}
	got, err := transport.Exchange(ctx, registry, auth, &pinned{inner: e.transport, host: realm.Host}, []string{scope}, challenge)
	if err != nil {
		return "", &tokenError{fmt.Errorf("get a token for %s from %s: %w", e.host, realm.Host, plainly(realm.Host, err))}
	}
	if got.AccessToken != "" {
		return "Bearer " + got.AccessToken, nil
	}
	return "Bearer " + got.Token, nil
}

// trusts tells whether credentials for the registry may be sent to a host: itself, one of its own domain, or one that the
// configuration names.
func (e *endpoint) trusts(host string) bool {
	return host == e.host || slices.Contains(e.tokenHosts, host) || sameDomain(hostname(host), hostname(e.host))
}

func sameDomain(a, b string) bool {
	if net.ParseIP(a) != nil || net.ParseIP(b) != nil {
		return false
	}
	domain, err := publicsuffix.EffectiveTLDPlusOne(a)
	if err != nil {
		return false
	}
	other, err := publicsuffix.EffectiveTLDPlusOne(b)
	return err == nil && domain == other
}

// pinned keeps requests that may carry a credential from being redirected to another host.
type pinned struct {
	inner http.RoundTripper
	host  string
}

// RoundTrip implements http.RoundTripper.
func (p *pinned) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Host != p.host {
		return nil, fmt.Errorf("it redirected to %s, another host", req.URL.Host)
	}
	return p.inner.RoundTrip(req)
}

// plainly makes an error of the library one of this package: of a registry's refusal what it says, of others what is beneath
// the URL that package net/http puts before them, which says nothing to the user and may be long.
func plainly(host string, err error) error {
	var untrusted *tls.CertificateVerificationError
	if errors.As(err, &untrusted) { // rather than what came of asking without encryption
		return untrusted
	}
	var refused *transport.Error
	if errors.As(err, &refused) {
		out := &StatusError{Host: host, Code: refused.StatusCode}
		if len(refused.Errors) > 0 {
			out.Text = printable(string(refused.Errors[0].Code) + " " + refused.Errors[0].Message)
		}
		return out
	}
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		return wrapped.Err
	}
	return err
}
