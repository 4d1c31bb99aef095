package redistest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Authority is a certificate authority that no system trusts.
type Authority struct {
	tb   testing.TB
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

// NewAuthority makes an authority for a test.
func NewAuthority(tb testing.TB) *Authority {
	tb.Helper()
	a := &Authority{tb: tb}
	a.key, a.cert = a.sign("an authority", func(c *x509.Certificate) {
		c.IsCA, c.BasicConstraintsValid, c.KeyUsage = true, true, x509.KeyUsageCertSign
	})
	return a
}

// sign makes a key and a certificate for it. The authority signs the certificate; its first
// certificate is its own.
func (a *Authority) sign(name string, mutate func(*x509.Certificate)) (*ecdsa.PrivateKey, *x509.Certificate) {
	a.tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	a.must(err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	mutate(template)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	a.must(err)
	cert, err := x509.ParseCertificate(der)
	a.must(err)
	return key, cert
}

// Client returns the configuration of a client that trusts this authority alone. With a name, the
// client shows a certificate of its own.
func (a *Authority) Client(name string) *tls.Config {
	a.tb.Helper()
	config := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	config.RootCAs.AddCert(a.cert)
	if name != "" {
		key, cert := a.sign(name, func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} })
		config.Certificates = []tls.Certificate{{Certificate: [][]byte{cert.Raw}, PrivateKey: key}}
	}
	return config
}

// TLSServer is a server that speaks TLS on a port of its own.
type TLSServer struct {
	*Server
	TLSAddr string
	// The certificate of the authority, and the server's own with its key. A client may use the
	// latter two as well.
	CAFile, CertFile, KeyFile string
}

// StartTLS is Start for a server with the authority's certificate for 127.0.0.1. The server also
// accepts clients without a certificate, unless args say otherwise. Its other port, which Client
// uses, works as usual.
func StartTLS(tb testing.TB, a *Authority, args ...string) *TLSServer {
	tb.Helper()
	findBinary(tb)
	key, cert := a.sign("a server", func(c *x509.Certificate) {
		c.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
		c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	})
	der, err := x509.MarshalECPrivateKey(key)
	a.must(err)
	dir := tb.TempDir()
	file := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		a.must(os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
		return path
	}
	port := freePort(tb)
	s := &TLSServer{
		TLSAddr: local(port),
		CAFile:  file("ca.pem", "CERTIFICATE", a.cert.Raw), CertFile: file("cert.pem", "CERTIFICATE", cert.Raw), KeyFile: file("key.pem", "EC PRIVATE KEY", der),
	}
	s.Server = Start(tb, append([]string{
		"--tls-port", strconv.Itoa(port), "--tls-auth-clients", "optional",
		"--tls-ca-cert-file", s.CAFile, "--tls-cert-file", s.CertFile, "--tls-key-file", s.KeyFile,
	}, args...)...)
	return s
}

// Over returns the options for a client of the TLS port.
func (s *TLSServer) Over(config *tls.Config) *redis.Options {
	return &redis.Options{Addr: s.TLSAddr, Password: s.auth, TLSConfig: config}
}

func (a *Authority) must(err error) {
	a.tb.Helper()
	if err != nil {
		a.tb.Fatal(err)
	}
}
