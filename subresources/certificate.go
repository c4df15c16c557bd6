package subresources

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"k8s.io/apiserver/pkg/server/dynamiccertificates"
)

const certificatePeriod = time.Second

// A certificate provides a certificate for tls.Config to the generic server, and notifies it of
// changes. By itself the server checks only once a minute.
type certificate struct {
	current func(*tls.ClientHelloInfo) (*tls.Certificate, error)

	mu        sync.Mutex
	listeners []dynamiccertificates.Listener
}

var (
	_ dynamiccertificates.CertKeyContentProvider = (*certificate)(nil)
	_ dynamiccertificates.ControllerRunner       = (*certificate)(nil)
)

func (*certificate) Name() string { return "serving-certificate" }

func (c *certificate) AddListener(l dynamiccertificates.Listener) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listeners = append(c.listeners, l)
}

// RunOnce does nothing: the server reads the certificate when it starts.
func (*certificate) RunOnce(context.Context) error { return nil }

func (c *certificate) Run(ctx context.Context, _ int) {
	was := c.leaf()
	wait.UntilWithContext(ctx, func(context.Context) {
		is := c.leaf()
		if is == nil || bytes.Equal(is, was) {
			return
		}
		was = is
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, l := range c.listeners {
			l.Enqueue()
		}
	}, certificatePeriod)
}

// leaf returns the certificate in DER; nil if there is none.
func (c *certificate) leaf() []byte {
	current, err := c.current(nil)
	if err != nil {
		return nil
	}
	return current.Certificate[0]
}

// CurrentCertKeyContent returns the certificate and its key in PEM; nil if there is none.
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
		_ = pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: one}) // a buffer does not fail
	}
	return out.Bytes(), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}
