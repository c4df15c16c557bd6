package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
)

// clientCertificates says which clients of the webhooks are accepted; the zero value accepts all.
type clientCertificates struct {
	authorities *x509.CertPool
	// names are the common names that certificates may have; empty for any.
	names []string
}

func (c *clientCertificates) declare(flags *flag.FlagSet) {
	flags.Func("webhook-client-ca", "PEM certificates of the authority of API servers' client certificates, or a file with them; the webhooks reject all other clients (default: accept all)", c.trust)
	flags.Func("webhook-client-name", "with --webhook-client-ca: common name that a client certificate must have; may be repeated (default: any)", appendFlag(&c.names))
}

func (c *clientCertificates) trust(value string) error {
	pem := []byte(value)
	if !strings.Contains(value, "-----BEGIN ") {
		var err error
		if pem, err = os.ReadFile(value); err != nil {
			return fmt.Errorf("cannot read the certificates: %w", err)
		}
	}
	c.authorities = x509.NewCertPool()
	if !c.authorities.AppendCertsFromPEM(pem) {
		return errors.New("must hold at least one PEM certificate, between -----BEGIN CERTIFICATE----- and -----END CERTIFICATE-----")
	}
	return nil
}

// require makes a server reject other clients in the TLS handshake.
func (c *clientCertificates) require(config *tls.Config) {
	if c.authorities == nil {
		return
	}
	config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, c.authorities
	config.VerifyConnection = func(state tls.ConnectionState) error {
		name := state.PeerCertificates[0].Subject.CommonName
		if len(c.names) > 0 && !slices.Contains(c.names, name) {
			return fmt.Errorf("client certificate of %q: --webhook-client-name requires one of %q", name, c.names)
		}
		return nil
	}
}
