package certs

import (
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// Keys of the data in a Store, as in a Secret of type kubernetes.io/tls.
const (
	keyCA          = corev1.ServiceAccountRootCAKey // holds the certificate authorities in PEM, newest first
	keyCAKey       = "ca.key"                       // holds the private keys of the authorities that may still sign
	keyCertificate = corev1.TLSCertKey
	keyPrivateKey  = corev1.TLSPrivateKeyKey
)

// PEM block types.
const (
	blockCertificate = "CERTIFICATE"
	blockKey         = "EC PRIVATE KEY"
)

type pair struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey // nil for an authority that no longer signs
}

func (p pair) signs() bool { return p.key != nil }

// material is the decoded content of a Store. It is never changed in place.
type material struct {
	// authorities, newest first.
	authorities []pair
	serving     pair // the zero pair if there is none
}

func (m material) bundle() []byte {
	var out []byte
	for _, ca := range m.authorities {
		out = append(out, encodePEM(blockCertificate, ca.cert.Raw)...)
	}
	return out
}

func (m material) certificate() *tls.Certificate {
	return &tls.Certificate{Certificate: [][]byte{m.serving.cert.Raw}, PrivateKey: m.serving.key, Leaf: m.serving.cert}
}

func (m material) encode() (map[string][]byte, error) {
	var caKeys []byte
	for _, ca := range m.authorities {
		if ca.key == nil {
			continue
		}
		encoded, err := encodeKey(ca.key)
		if err != nil {
			return nil, err
		}
		caKeys = append(caKeys, encoded...)
	}
	key, err := encodeKey(m.serving.key)
	if err != nil {
		return nil, err
	}
	return map[string][]byte{
		keyCA: m.bundle(), keyCAKey: caKeys,
		keyCertificate: encodePEM(blockCertificate, m.serving.cert.Raw), keyPrivateKey: key,
	}, nil
}

// decode parses what encode returned. It leaves out missing, damaged and mismatched parts, which
// are then created again.
func decode(data map[string][]byte) material {
	var m material
	keys := parseKeys(data[keyCAKey])
	for _, cert := range parseCertificates(data[keyCA]) {
		if !cert.IsCA {
			continue
		}
		ca := pair{cert: cert}
		for _, key := range keys {
			if key.PublicKey.Equal(cert.PublicKey) {
				ca.key = key
			}
		}
		m.authorities = append(m.authorities, ca)
	}
	leaves, leafKeys := parseCertificates(data[keyCertificate]), parseKeys(data[keyPrivateKey])
	if len(leaves) == 1 && len(leafKeys) == 1 && leafKeys[0].PublicKey.Equal(leaves[0].PublicKey) {
		m.serving = pair{leaves[0], leafKeys[0]}
	}
	return m
}

func parseCertificates(data []byte) []*x509.Certificate {
	return parseBlocks(data, blockCertificate, x509.ParseCertificate)
}

func parseKeys(data []byte) []*ecdsa.PrivateKey {
	return parseBlocks(data, blockKey, x509.ParseECPrivateKey)
}

// parseBlocks parses the PEM blocks of a type and skips those that cannot be parsed.
func parseBlocks[T any](data []byte, kind string, parse func([]byte) (T, error)) []T {
	var out []T
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != kind {
			continue
		}
		if parsed, err := parse(block.Bytes); err == nil {
			out = append(out, parsed)
		}
	}
	return out
}

func encodePEM(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("cannot encode a private key: %w", err)
	}
	return encodePEM(blockKey, der), nil
}
