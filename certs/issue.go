package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"time"
)

// take makes what a step asks for.
func (m material) take(s step, now time.Time, names []string, l Lifetimes) (material, error) {
	switch s {
	case addIssuer:
		made, err := newIssuer(now, l.CA)
		if err != nil {
			return m, fmt.Errorf("cannot make a certificate authority: %w", err)
		}
		return material{issuers: append([]issuer{made}, m.issuers...), serving: m.serving}, nil
	default:
		made, err := m.signer(now, l).issue(now, l.Serving, names)
		if err != nil {
			return m, fmt.Errorf("cannot make a serving certificate: %w", err)
		}
		return material{issuers: m.issuers, serving: made}, nil
	}
}

func newIssuer(now time.Time, life time.Duration) (issuer, error) {
	template, err := template(now, now.Add(life))
	if err != nil {
		return issuer{}, err
	}
	template.Subject = pkix.Name{CommonName: "virtwright CA of " + now.UTC().Format(time.RFC3339)}
	template.IsCA, template.BasicConstraintsValid = true, true
	template.MaxPathLenZero = true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	made, err := sign(template, nil)
	return issuer(made), err
}

// issue makes a serving certificate that ends no later than its signer.
func (i issuer) issue(now time.Time, life time.Duration, names []string) (pair, error) {
	end := now.Add(life)
	if end.After(i.cert.NotAfter) {
		end = i.cert.NotAfter
	}
	template, err := template(now, end)
	if err != nil {
		return pair{}, err
	}
	template.Subject = pkix.Name{CommonName: "virtwright"}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	return sign(template, &i)
}

func template(now, end time.Time) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("cannot choose a serial number: %w", err)
	}
	return &x509.Certificate{SerialNumber: serial, NotBefore: now.Add(-skew), NotAfter: end}, nil
}

// sign makes a key and a certificate for it; without an issuer it signs itself.
func sign(template *x509.Certificate, by *issuer) (pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair{}, fmt.Errorf("cannot generate a key: %w", err)
	}
	parent, parentKey := template, key
	if by != nil {
		parent, parentKey = by.cert, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, parentKey)
	if err != nil {
		return pair{}, fmt.Errorf("cannot sign: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return pair{}, fmt.Errorf("cannot read back what was signed: %w", err)
	}
	return pair{cert, key}, nil
}
