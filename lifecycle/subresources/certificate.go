package subresources

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"

	"k8s.io/apiserver/pkg/server/dynamiccertificates"
)

// certificate hands a certificate for tls.Config to the generic server, which
// looks at it every minute.
type certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)

var _ dynamiccertificates.CertKeyContentProvider = certificate(nil)

// Name is for logs.
func (certificate) Name() string { return "serving-certificate" }

// AddListener does nothing: nobody tells of changes.
func (certificate) AddListener(dynamiccertificates.Listener) {}

// CurrentCertKeyContent returns the certificate and its key in PEM; nothing
// where there are none.
func (c certificate) CurrentCertKeyContent() (certificates, key []byte) {
	current, err := c(nil)
	if err != nil {
		return nil, nil
	}
	der, err := x509.MarshalPKCS8PrivateKey(current.PrivateKey)
	if err != nil {
		return nil, nil
	}
	var out bytes.Buffer
	for _, one := range current.Certificate {
		_ = pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: one}) // a buffer takes everything
	}
	return out.Bytes(), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}
