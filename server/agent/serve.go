package agent

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"edgepod/server/pki"
)

// Serve lets remote servers reach Handler on the listener, over TLS, until ctx ends. The certificate is the agent's own: the
// node's object tells its hash. Clients must show a certificate of Config.ClientCA with the server's name.
func (a *Agent) Serve(ctx context.Context, listener net.Listener) error {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(a.ClientCA) {
		return errors.New("agent: the cluster's authority is needed to serve, and none was given")
	}
	server := &http.Server{
		Handler:           a.Handler(),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(a.Log.Handler(), slog.LevelDebug),
		BaseContext:       func(net.Listener) context.Context { return ctx },
	}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	err := server.Serve(tls.NewListener(listener, &tls.Config{
		MinVersion:       tls.VersionTLS13,
		Certificates:     []tls.Certificate{a.serving.pair},
		ClientAuth:       tls.RequireAndVerifyClientCert,
		ClientCAs:        pool,
		VerifyConnection: onlyServer,
	}))
	if errors.Is(err, http.ErrServerClosed) && ctx.Err() != nil {
		return nil
	}
	return err
}

func onlyServer(state tls.ConnectionState) error {
	if len(state.PeerCertificates) == 0 || state.PeerCertificates[0].Subject.CommonName != pki.AgentClient {
		return errors.New("only the cluster's server may ask an agent")
	}
	return nil
}

// servingCert is the certificate of the agent's own port.
type servingCert struct {
	pair   tls.Certificate
	sha256 string
}

// openServingCert reads the certificate from the data folder. It makes one where there is none, or where it ends soon.
func openServingCert(dir, node string) (*servingCert, error) {
	path := filepath.Join(dir, "serving.pem")
	pair, err := tls.LoadX509KeyPair(path, path)
	if err == nil && time.Until(pair.Leaf.NotAfter) > 30*24*time.Hour {
		return newServingCert(pair), nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("serving certificate %s: %w (remove the file to have another one made)", path, err)
	}
	data, err := makeServingCert(node, time.Now())
	if err != nil {
		return nil, fmt.Errorf("make a serving certificate: %w", err)
	}
	if err := pki.WriteFile(path, data); err != nil {
		return nil, err
	}
	if pair, err = tls.X509KeyPair(data, data); err != nil {
		return nil, err
	}
	return newServingCert(pair), nil
}

func newServingCert(pair tls.Certificate) *servingCert {
	sum := sha256.Sum256(pair.Certificate[0])
	return &servingCert{pair: pair, sha256: hex.EncodeToString(sum[:])}
}

func makeServingCert(node string, now time.Time) ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "edgepod-agent:" + node}, DNSNames: []string{node},
		NotBefore: now.Add(-5 * time.Minute), NotAfter: now.AddDate(1, 0, 0),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})...), nil
}
