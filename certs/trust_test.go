package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"testing"
	"time"
)

// An authority that is renewed with the same key is younger than the certificates that it signed.
func TestRenewedAuthority(t *testing.T) {
	key, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	ca := func(from time.Time) (*x509.Certificate, []byte) {
		template := &x509.Certificate{SerialNumber: big.NewInt(from.Unix()), Subject: pkix.Name{CommonName: "ca"}, NotBefore: from, NotAfter: from.AddDate(10, 0, 0), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
		der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		c, _ := x509.ParseCertificate(der)
		return c, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	}
	now := time.Now()
	old, _ := ca(now.AddDate(-9, 0, 0))
	_, renewed := ca(now.Add(-time.Hour))
	leafKey, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	template := &x509.Certificate{SerialNumber: big.NewInt(7), NotBefore: now.AddDate(0, -1, 0), NotAfter: now.AddDate(0, 2, 0), DNSNames: []string{"x.y.svc"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, old, leafKey.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	encoded, _ := x509.MarshalPKCS8PrivateKey(leafKey)
	crt := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	kpem := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded})
	given, err := parse(map[string][]byte{keyCertificate: crt, keyPrivateKey: kpem, keyCA: renewed}, []string{"x.y.svc"}, now)
	if err != nil {
		t.Fatal("a provided certificate is rejected:", err)
	}
	if !verifies(given.bundle, given.certificate) {
		t.Error("a renewed authority must verify a certificate that it signed before")
	}
}
