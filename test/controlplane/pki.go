package controlplane

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Files of the data folder that kube-apiserver and kube-controller-manager read.
const (
	caFile            = "ca.crt"
	servingFile       = "apiserver.crt"
	servingKeyFile    = "apiserver.key"
	frontProxyCAFile  = "front-proxy-ca.crt"
	frontProxyFile    = "front-proxy-client.crt"
	frontProxyKeyFile = "front-proxy-client.key"
	accountKeyFile    = "service-accounts.key"
)

// frontProxyUser is the name that aggregated API servers trust to tell them who makes a request.
const frontProxyUser = "front-proxy-client"

// lifetime of all certificates; a control plane lives shorter.
const lifetime = 365 * 24 * time.Hour

// pki holds what the control plane signs with.
type pki struct{ ca *authority }

// authority is a certificate authority.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

// keyPair is a certificate and its key, PEM encoded.
type keyPair struct{ cert, key []byte }

// newPKI makes two authorities, one for servers and users and one for the front proxy, and writes
// the files that the programs read into dir.
func newPKI(dir string) (*pki, error) {
	ca, err := newAuthority("virtwright-test-ca")
	if err != nil {
		return nil, err
	}
	frontProxyCA, err := newAuthority("virtwright-test-front-proxy-ca")
	if err != nil {
		return nil, err
	}
	serving, err := ca.issue(serverTemplate())
	if err != nil {
		return nil, err
	}
	frontProxy, err := frontProxyCA.issue(clientTemplate(frontProxyUser, nil))
	if err != nil {
		return nil, err
	}
	accountKey, err := newKey()
	if err != nil {
		return nil, err
	}
	accountPEM, err := encodeKey(accountKey)
	if err != nil {
		return nil, err
	}
	for name, content := range map[string][]byte{
		caFile: ca.pem, servingFile: serving.cert, servingKeyFile: serving.key,
		frontProxyCAFile: frontProxyCA.pem, frontProxyFile: frontProxy.cert, frontProxyKeyFile: frontProxy.key,
		accountKeyFile: accountPEM,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return nil, fmt.Errorf("cannot write %s: %w", name, err)
		}
	}
	return &pki{ca: ca}, nil
}

func newAuthority(name string) (*authority, error) {
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		Subject:  pkix.Name{CommonName: name},
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		IsCA:     true, BasicConstraintsValid: true,
	}
	self := &authority{cert: template, key: key}
	der, err := self.sign(template, key)
	if err != nil {
		return nil, err
	}
	if self.cert, err = x509.ParseCertificate(der); err != nil {
		return nil, fmt.Errorf("cannot parse the certificate of %s: %w", name, err)
	}
	self.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return self, nil
}

// serverTemplate is a certificate for every name that leads to kube-apiserver.
func serverTemplate() *x509.Certificate {
	return &x509.Certificate{
		Subject:     pkix.Name{CommonName: "kube-apiserver"},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(10, 0, 0, 1)},
	}
}

// clientTemplate is a certificate for a user: Kubernetes reads the user name from the common name
// and the groups from the organizations.
func clientTemplate(user string, groups []string) *x509.Certificate {
	return &x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
}

// issue signs the template for a new key.
func (a *authority) issue(template *x509.Certificate) (*keyPair, error) {
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	der, err := a.sign(template, key)
	if err != nil {
		return nil, err
	}
	keyPEM, err := encodeKey(key)
	if err != nil {
		return nil, err
	}
	return &keyPair{cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), key: keyPEM}, nil
}

func (a *authority) sign(template *x509.Certificate, key *ecdsa.PrivateKey) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("cannot choose a serial number: %w", err)
	}
	template.SerialNumber = serial
	template.NotBefore = time.Now().Add(-time.Hour)
	template.NotAfter = time.Now().Add(lifetime)
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, fmt.Errorf("cannot sign a certificate for %s: %w", template.Subject.CommonName, err)
	}
	return der, nil
}

func newKey() (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("cannot make a key: %w", err)
	}
	return key, nil
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("cannot encode a key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}
