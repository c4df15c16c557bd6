package subresources

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/server/dynamiccertificates"
)

// certificatePeriod is how often it is asked whether there is another certificate.
const certificatePeriod = time.Second

// certificate hands a certificate for tls.Config to the generic server, and
// tells it when there is another one: by itself it looks once a minute only.
type certificate struct {
	current func(*tls.ClientHelloInfo) (*tls.Certificate, error)

	mu        sync.Mutex
	listeners []dynamiccertificates.Listener
}

var (
	_ dynamiccertificates.CertKeyContentProvider = (*certificate)(nil)
	_ dynamiccertificates.ControllerRunner       = (*certificate)(nil)
)

// Name is for logs.
func (*certificate) Name() string { return "serving-certificate" }

// AddListener remembers who wants to know of another certificate.
func (c *certificate) AddListener(l dynamiccertificates.Listener) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listeners = append(c.listeners, l)
}

// RunOnce does nothing: the server looks for itself when it starts.
func (*certificate) RunOnce(context.Context) error { return nil }

// Run tells listeners of each new certificate until the context ends.
func (c *certificate) Run(ctx context.Context, _ int) {
	was := c.leaf()
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(certificatePeriod):
		}
		if is := c.leaf(); is != nil && !bytes.Equal(is, was) {
			was = is
			c.tell()
		}
	}
}

// leaf is the certificate itself, in DER; nil where there is none.
func (c *certificate) leaf() []byte {
	current, err := c.current(nil)
	if err != nil {
		return nil
	}
	return current.Certificate[0]
}

func (c *certificate) tell() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range c.listeners {
		l.Enqueue()
	}
}

// CurrentCertKeyContent returns the certificate and its key in PEM; nothing
// where there are none.
func (c *certificate) CurrentCertKeyContent() (certificates, key []byte) {
	current, err := c.current(nil)
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
