package certs

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"time"
)

// Keys of what a Store holds, as in a Secret of type kubernetes.io/tls.
const (
	// KeyCA has the certificate authorities in PEM, newest first.
	KeyCA = "ca.crt"
	// KeyCAKey has the private keys of those authorities that may still sign.
	KeyCAKey = "ca.key"
	// KeyCertificate has the serving certificate.
	KeyCertificate = "tls.crt"
	// KeyPrivateKey has the private key of the serving certificate.
	KeyPrivateKey = "tls.key"
)

// PEM block types.
const (
	blockCertificate = "CERTIFICATE"
	blockKey         = "EC PRIVATE KEY"
)

// An issuer is one certificate authority.
type issuer struct {
	cert *x509.Certificate
	// key is nil when the issuer signs no more.
	key *ecdsa.PrivateKey
}

// A pair is a certificate with its private key.
type pair struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// material is everything a Store holds, decoded. It is never changed in place.
type material struct {
	// issuers, newest first.
	issuers []issuer
	// serving is the zero pair when there is none.
	serving pair
}

// bundle is what clients must trust, in PEM.
func (m material) bundle() []byte {
	var out []byte
	for _, i := range m.issuers {
		out = append(out, encode(blockCertificate, i.cert.Raw)...)
	}
	return out
}

// certificate is what the server presents.
func (m material) certificate() *tls.Certificate {
	return &tls.Certificate{Certificate: [][]byte{m.serving.cert.Raw}, PrivateKey: m.serving.key, Leaf: m.serving.cert}
}

// complete reports whether there is something to serve with at a time.
func (m material) complete(now time.Time) error {
	switch {
	case m.serving.cert == nil:
		return errors.New("there is no serving certificate yet")
	case !now.Before(m.serving.cert.NotAfter):
		return fmt.Errorf("the serving certificate expired at %s", m.serving.cert.NotAfter.Format(time.RFC3339))
	}
	return nil
}

func (m material) encode() (map[string][]byte, error) {
	var keys []byte
	for _, i := range m.issuers {
		if i.key == nil {
			continue
		}
		der, err := x509.MarshalECPrivateKey(i.key)
		if err != nil {
			return nil, fmt.Errorf("cannot encode the key of a certificate authority: %w", err)
		}
		keys = append(keys, encode(blockKey, der)...)
	}
	der, err := x509.MarshalECPrivateKey(m.serving.key)
	if err != nil {
		return nil, fmt.Errorf("cannot encode the serving key: %w", err)
	}
	return map[string][]byte{
		KeyCA: m.bundle(), KeyCAKey: keys,
		KeyCertificate: encode(blockCertificate, m.serving.cert.Raw), KeyPrivateKey: encode(blockKey, der),
	}, nil
}

// decode reads what encode wrote. Whatever does not fit together is left out,
// so that what a Store lost or somebody damaged is made anew.
func decode(data map[string][]byte) material {
	var m material
	keys := privateKeys(data[KeyCAKey])
	for _, cert := range certificates(data[KeyCA]) {
		i := issuer{cert: cert}
		for _, key := range keys {
			if key.PublicKey.Equal(cert.PublicKey) {
				i.key = key
			}
		}
		if cert.IsCA {
			m.issuers = append(m.issuers, i)
		}
	}
	leaves, leafKeys := certificates(data[KeyCertificate]), privateKeys(data[KeyPrivateKey])
	if len(leaves) == 1 && len(leafKeys) == 1 && leafKeys[0].PublicKey.Equal(leaves[0].PublicKey) {
		m.serving = pair{leaves[0], leafKeys[0]}
	}
	return m
}

func certificates(data []byte) []*x509.Certificate {
	var out []*x509.Certificate
	for _, block := range blocks(data, blockCertificate) {
		if cert, err := x509.ParseCertificate(block); err == nil {
			out = append(out, cert)
		}
	}
	return out
}

func privateKeys(data []byte) []*ecdsa.PrivateKey {
	var out []*ecdsa.PrivateKey
	for _, block := range blocks(data, blockKey) {
		if key, err := x509.ParseECPrivateKey(block); err == nil {
			out = append(out, key)
		}
	}
	return out
}

func blocks(data []byte, kind string) [][]byte {
	var out [][]byte
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == kind {
			out = append(out, block.Bytes)
		}
	}
	return out
}

func encode(kind string, der []byte) []byte {
	return bytes.Clone(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}
