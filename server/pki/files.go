package pki

import (
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// WriteFile writes a file for its owner alone (mode 0600), whole or not at all: a temporary file, synced, then renamed.
func WriteFile(path string, data []byte) error {
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name())
	_, err = temp.Write(data)
	if err == nil {
		err = temp.Sync()
	}
	if closeErr := temp.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// ClientFiles returns the client certificate and key of a user that lie in the folder as NAME.crt and NAME.key, signing
// new ones where they are missing or due for renewal.
func (a *Authority) ClientFiles(dir, name, user string, groups []string, now time.Time) (certPEM, keyPEM []byte, err error) {
	certFile, keyFile := filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
	certPEM, certErr := os.ReadFile(certFile)
	keyPEM, keyErr := os.ReadFile(keyFile)
	if certErr == nil && keyErr == nil && !a.Stale(certPEM, now) {
		if _, err := tls.X509KeyPair(certPEM, keyPEM); err == nil {
			return certPEM, keyPEM, nil
		}
	}
	certPEM, keyPEM, err = a.Client(user, groups, now)
	if err != nil {
		return nil, nil, err
	}
	if err := WriteFile(keyFile, keyPEM); err != nil {
		return nil, nil, err
	}
	return certPEM, keyPEM, WriteFile(certFile, certPEM)
}

// Renewing hands out a certificate and renews it when it is due. Its methods fit the fields of tls.Config.
type Renewing struct {
	issue   func(now time.Time) (*tls.Certificate, error)
	mu      sync.Mutex
	current *tls.Certificate
}

// NewServing returns a server's certificate for the names and addresses.
func NewServing(a *Authority, hosts []string) *Renewing {
	hosts = slices.Clone(hosts)
	return &Renewing{issue: func(now time.Time) (*tls.Certificate, error) { return a.Server(hosts, now) }}
}

// NewClient returns a user's client certificate.
func NewClient(a *Authority, user string, groups ...string) *Renewing {
	return &Renewing{issue: func(now time.Time) (*tls.Certificate, error) {
		certPEM, keyPEM, err := a.Client(user, groups, now)
		if err != nil {
			return nil, err
		}
		pair, err := tls.X509KeyPair(certPEM, keyPEM)
		return &pair, err
	}}
}

// ForClient fits tls.Config.GetCertificate.
func (r *Renewing) ForClient(*tls.ClientHelloInfo) (*tls.Certificate, error) { return r.Certificate() }

// ForServer fits tls.Config.GetClientCertificate.
func (r *Renewing) ForServer(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	return r.Certificate()
}

// Certificate returns the present certificate, a new one where the last is due for renewal.
func (r *Renewing) Certificate() (*tls.Certificate, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if r.current != nil && !due(r.current.Leaf, now) {
		return r.current, nil
	}
	cert, err := r.issue(now)
	if err != nil {
		return nil, err
	}
	r.current = cert
	return cert, nil
}
