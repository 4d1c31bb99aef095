package server

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"

	"github.com/fairlock/locks/cmd/fairlock/internal/exit"
)

// TLSFiles are the files of certificates and of the key for a TLS connection. A URL has no place
// for them.
type TLSFiles struct {
	CA   string `group:"server" name:"tls-ca" placeholder:"FILE" env:"FAIRLOCK_TLS_CA" complete:"file" help:"With rediss://, trust the authorities in this PEM file instead of the system's (${env})."`
	Cert string `group:"server" name:"tls-cert" placeholder:"FILE" env:"FAIRLOCK_TLS_CERT" complete:"file" help:"The certificate to show to the server, in PEM (${env})."`
	Key  string `group:"server" name:"tls-key" placeholder:"FILE" env:"FAIRLOCK_TLS_KEY" complete:"file" help:"Its key (${env})."`
}

// configure puts them into config. A nil config means no TLS.
func (f *TLSFiles) configure(config *tls.Config) error {
	switch {
	case *f == TLSFiles{}:
		return nil
	case config == nil:
		return exit.Errorf(exit.Usage, "--tls-ca, --tls-cert and --tls-key are of use with rediss:// only")
	case (f.Cert == "") != (f.Key == ""):
		return exit.Errorf(exit.Usage, "--tls-cert and --tls-key need each other")
	}
	if f.CA != "" {
		text, err := os.ReadFile(f.CA)
		if err != nil {
			return exit.Errorf(exit.Usage, "--tls-ca: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return exit.Errorf(exit.Usage, "--tls-ca: %w", errors.New(f.CA+" has no certificate in PEM"))
		}
	}
	if f.Cert != "" {
		pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
		if err != nil {
			return exit.Errorf(exit.Usage, "--tls-cert and --tls-key: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return nil
}
