// Package pki makes the certificates of a cluster: one authority, made at the first start, and the short-lived
// certificates that it signs.
package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// The life of an authority and of what it signs. A certificate is renewed when a third of its life is left.
const (
	authorityLife = 10 * 365 * 24 * time.Hour
	leafLife      = 90 * 24 * time.Hour
	// backdate lets machines whose clocks run a little behind accept a new certificate.
	backdate = 5 * time.Minute
)

// Authority signs the certificates of one cluster. It may be used by several goroutines.
type Authority struct {
	cert *x509.Certificate
	key  crypto.Signer
	pem  []byte
}

// OpenAuthority reads the authority's ca.crt and ca.key from the folder, or makes them where both are missing. One
// without the other is an error: clients trust the old certificate, so a new one must not appear unasked.
func OpenAuthority(dir string, now time.Time) (*Authority, error) {
	certFile, keyFile := filepath.Join(dir, "ca.crt"), filepath.Join(dir, "ca.key")
	certPEM, certErr := os.ReadFile(certFile)
	keyPEM, keyErr := os.ReadFile(keyFile)
	if errors.Is(certErr, fs.ErrNotExist) && errors.Is(keyErr, fs.ErrNotExist) {
		return makeAuthority(dir, now)
	}
	if err := errors.Join(certErr, keyErr); err != nil {
		return nil, fmt.Errorf("cluster authority: %w", err)
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("cluster authority in %s: %w", dir, err)
	}
	key, ok := pair.PrivateKey.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("cluster authority in %s: its key cannot sign", dir)
	}
	return &Authority{cert: pair.Leaf, key: key, pem: certPEM}, nil
}

func makeAuthority(dir string, now time.Time) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          serial(),
		Subject:               pkix.Name{CommonName: "edgepod-ca"},
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(authorityLife),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	keyPEM, err := encodeKey(key)
	if err != nil {
		return nil, err
	}
	a := &Authority{cert: cert, key: key, pem: encodeCert(der)}
	// The key goes first: a certificate without its key is what OpenAuthority refuses loudest.
	if err := WriteFile(filepath.Join(dir, "ca.key"), keyPEM); err != nil {
		return nil, err
	}
	return a, WriteFile(filepath.Join(dir, "ca.crt"), a.pem)
}

// PEM returns the authority's certificate as clients put it into their list of trusted ones.
func (a *Authority) PEM() []byte { return a.pem }

// Pool returns a list of trusted certificates that holds the authority alone.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// Client signs a certificate for a user: its name is the common name, its groups the organisations, as Kubernetes reads
// them. The key pair is returned in PEM, the certificate first.
func (a *Authority) Client(user string, groups []string, now time.Time) (certPEM, keyPEM []byte, err error) {
	return a.sign(&x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, now)
}

// Server signs a certificate for a server that answers under the names and addresses.
func (a *Authority) Server(hosts []string, now time.Time) (*tls.Certificate, error) {
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: "edgepod"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
			continue
		}
		template.DNSNames = append(template.DNSNames, host)
	}
	certPEM, keyPEM, err := a.sign(template, now)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	return &pair, err
}

func (a *Authority) sign(template *x509.Certificate, now time.Time) (certPEM, keyPEM []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template.SerialNumber = serial()
	template.NotBefore = now.Add(-backdate)
	template.NotAfter = now.Add(leafLife)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, nil, err
	}
	keyPEM, err = encodeKey(key)
	return encodeCert(der), keyPEM, err
}

// Stale tells that a certificate in PEM is unreadable, not signed by the authority, or due for renewal.
func (a *Authority) Stale(certPEM []byte, now time.Time) bool {
	block, _ := pem.Decode(certPEM)
	if block == nil {
		return true
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil || cert.CheckSignatureFrom(a.cert) != nil {
		return true
	}
	return due(cert, now)
}

func due(cert *x509.Certificate, now time.Time) bool {
	life := cert.NotAfter.Sub(cert.NotBefore)
	return now.Before(cert.NotBefore) || now.After(cert.NotAfter.Add(-life/3))
}

func serial() *big.Int {
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		panic("the system's source of randomness is broken: " + err.Error())
	}
	return n
}

func encodeCert(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}
