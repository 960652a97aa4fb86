package pki

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

func open(t *testing.T, dir string, now time.Time) *Authority {
	t.Helper()
	a, err := OpenAuthority(dir, now)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestAuthorityIsMadeOnceAndKept(t *testing.T) {
	dir := t.TempDir()
	now := time.Now()
	first, second := open(t, dir, now), open(t, dir, now)
	if string(first.PEM()) != string(second.PEM()) {
		t.Error("the second opening made another authority")
	}
	for _, name := range []string{"ca.crt", "ca.key"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v, want 0600", name, info.Mode())
		}
	}
}

func TestHalfAnAuthorityIsRefused(t *testing.T) {
	for _, lost := range []string{"ca.crt", "ca.key"} {
		dir := t.TempDir()
		open(t, dir, time.Now())
		if err := os.Remove(filepath.Join(dir, lost)); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenAuthority(dir, time.Now()); err == nil {
			t.Errorf("opened without %s", lost)
		}
	}
}

func TestClientFilesAreRenewedWhenDue(t *testing.T) {
	dir := t.TempDir()
	now := time.Now()
	a := open(t, dir, now)
	get := func(at time.Time) string {
		cert, _, err := a.ClientFiles(dir, "admin", "admin", []string{"system:masters"}, at)
		if err != nil {
			t.Fatal(err)
		}
		return string(cert)
	}
	first := get(now)
	if again := get(now.Add(24 * time.Hour)); again != first {
		t.Error("renewed after one day")
	}
	if late := get(now.Add(70 * 24 * time.Hour)); late == first {
		t.Error("not renewed with 20 of 90 days left")
	}
	block, _ := pem.Decode([]byte(first))
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if cert.Subject.CommonName != "admin" || !slices.Equal(cert.Subject.Organization, []string{"system:masters"}) {
		t.Errorf("subject is %v", cert.Subject)
	}
}

func TestServingCertificateIsTrustedUnderItsHosts(t *testing.T) {
	a := open(t, t.TempDir(), time.Now())
	serving := NewServing(a, []string{"localhost", "127.0.0.1"})
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{GetCertificate: serving.ForClient})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			io.Copy(io.Discard, conn)
			conn.Close()
		}
	}()
	for host, trusted := range map[string]bool{"localhost": true, "127.0.0.1": true, "example.com": false} {
		conn, err := tls.Dial("tcp", listener.Addr().(*net.TCPAddr).String(), &tls.Config{RootCAs: a.Pool(), ServerName: host})
		if (err == nil) != trusted {
			t.Errorf("%s: trusted %v, want %v (%v)", host, err == nil, trusted, err)
		}
		if err == nil {
			conn.Close()
		}
	}
}
