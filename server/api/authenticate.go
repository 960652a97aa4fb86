package api

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	"errors"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"edgepod/server/registry"
)

// Authenticator tells who sent a request. A caller without a name is anonymous; an error is answered with 401.
type Authenticator interface {
	Authenticate(r *http.Request) (registry.Caller, error)
}

// Groups and users that Kubernetes' rules know by name.
const (
	groupAuthenticated   = "system:authenticated"
	groupUnauthenticated = "system:unauthenticated"
	groupMasters         = "system:masters"
	groupNodes           = "system:nodes"
	userAnonymous        = "system:anonymous"
	userNodePrefix       = "system:node:"
)

type callerKey struct{}

// WithCaller returns a context whose requests are the caller's, whatever else they carry: for listeners inside the process,
// through http.Server's BaseContext or ConnContext.
func WithCaller(ctx context.Context, caller registry.Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, caller)
}

func (a *API) authenticate(r *request) (registry.Caller, error) {
	caller, ok := r.Request().Context().Value(callerKey{}).(registry.Caller)
	if !ok {
		var err error
		if caller, err = a.Authenticator.Authenticate(r.Request()); err != nil {
			return registry.Caller{}, apierrors.NewUnauthorized("Unauthorized")
		}
	}
	if caller.Name == "" {
		return registry.Caller{Name: userAnonymous, Groups: []string{groupUnauthenticated}}, nil
	}
	caller.Groups = append(caller.Groups[:len(caller.Groups):len(caller.Groups)], groupAuthenticated)
	return caller, nil
}

// Credentials is an Authenticator of client certificates and bearer tokens. It may be used by several goroutines; Add
// comes before.
type Credentials struct {
	roots  *x509.CertPool
	tokens []token
}

type token struct {
	hash   [sha256.Size]byte
	caller registry.Caller
}

// NewCredentials returns an authenticator that trusts client certificates of the authorities given, which may be nil.
func NewCredentials(roots *x509.CertPool) *Credentials {
	return &Credentials{roots: roots}
}

// AddToken lets whoever sends the bearer token be the caller. Only the token's hash is kept.
func (c *Credentials) AddToken(secret string, caller registry.Caller) {
	c.tokens = append(c.tokens, token{hash: sha256.Sum256([]byte(secret)), caller: caller})
}

var (
	errToken       = errors.New("the bearer token is not known")
	errCertificate = errors.New("the client certificate is not of this cluster")
)

// Authenticate takes a certificate's common name as user and its organizations as groups. A token that is not known is an
// error, even where a certificate is good.
func (c *Credentials) Authenticate(r *http.Request) (registry.Caller, error) {
	if header := r.Header.Get("Authorization"); header != "" {
		return c.bearer(header)
	}
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return registry.Caller{}, nil
	}
	return c.certificate(r.TLS.PeerCertificates, len(r.TLS.VerifiedChains) > 0)
}

func (c *Credentials) bearer(header string) (registry.Caller, error) {
	scheme, secret, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return registry.Caller{}, errToken
	}
	hash := sha256.Sum256([]byte(strings.TrimSpace(secret)))
	found := -1
	for i := range c.tokens {
		if subtle.ConstantTimeCompare(c.tokens[i].hash[:], hash[:]) == 1 {
			found = i
		}
	}
	if found < 0 {
		return registry.Caller{}, errToken
	}
	return c.tokens[found].caller, nil
}

// certificate verifies the chain unless the handshake has done so, which is when the server asks for VerifyClientCertIfGiven
// with the same authorities.
func (c *Credentials) certificate(chain []*x509.Certificate, verified bool) (registry.Caller, error) {
	leaf := chain[0]
	if !verified {
		if c.roots == nil {
			return registry.Caller{}, errCertificate
		}
		options := x509.VerifyOptions{Roots: c.roots, Intermediates: x509.NewCertPool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
		for _, cert := range chain[1:] {
			options.Intermediates.AddCert(cert)
		}
		if _, err := leaf.Verify(options); err != nil {
			return registry.Caller{}, errCertificate
		}
	}
	return registry.Caller{Name: leaf.Subject.CommonName, Groups: leaf.Subject.Organization}, nil
}
