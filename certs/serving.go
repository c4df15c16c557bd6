package certs

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
)

var errNoCertificate = errors.New("no serving certificate yet")

// A credential is a serving certificate with the CA bundle that verifies it.
type credential struct {
	certificate *tls.Certificate
	bundle      []byte // PEM
}

// serving holds the credential that is in use. Its methods may be called at any time.
type serving struct {
	current atomic.Pointer[credential]
}

// GetCertificate returns the newest serving certificate, for tls.Config.
func (s *serving) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if current := s.current.Load(); current != nil {
		return current.certificate, nil
	}
	return nil, errNoCertificate
}

// Bundle returns the certificate authorities that clients must trust, in PEM; nil before the first
// certificate.
func (s *serving) Bundle() []byte {
	if current := s.current.Load(); current != nil {
		return current.bundle
	}
	return nil
}

func (s *serving) valid(now time.Time) error {
	certificate, err := s.GetCertificate(nil)
	if err == nil && !now.Before(certificate.Leaf.NotAfter) {
		err = fmt.Errorf("the serving certificate expired at %s", certificate.Leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	return err
}

// serve replaces the credential, logs a new certificate, and returns the previous credential.
func (s *serving) serve(ctx context.Context, c *credential) *credential {
	before := s.current.Swap(c)
	if leaf := c.certificate.Leaf; before == nil || !leaf.Equal(before.certificate.Leaf) {
		logger(ctx).Info("Serving with a certificate", "serial", leaf.SerialNumber.String(),
			"issued", leaf.NotBefore, "expires", leaf.NotAfter, "rotated", before != nil)
	}
	return before
}

// Collectors returns the metrics of the certificate and of its authority.
func (s *serving) Collectors() []prometheus.Collector {
	var out []prometheus.Collector
	for kind, expiry := range map[string]func(*credential) time.Time{
		"serving": func(c *credential) time.Time { return c.certificate.Leaf.NotAfter }, "ca": bundleExpiry,
	} {
		out = append(out, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "virtwright_certificate_expiry_timestamp_seconds",
			Help: "When a certificate of the webhook server expires, in seconds since 1970: the serving certificate, " +
				"and the CA with the latest expiry. 0: there is none. Certificates are renewed when a third of their lifetime is left.",
			ConstLabels: prometheus.Labels{"certificate": kind},
		}, func() float64 {
			if current := s.current.Load(); current != nil {
				return float64(expiry(current).Unix())
			}
			return 0
		}))
	}
	return out
}

func bundleExpiry(c *credential) time.Time {
	var last time.Time
	for _, ca := range parseCertificates(c.bundle) {
		if ca.NotAfter.After(last) {
			last = ca.NotAfter
		}
	}
	return last
}

// poll calls step until the context ends, each time after the delay that step returned.
func poll(ctx context.Context, step func(context.Context) time.Duration) {
	for ctx.Err() == nil {
		delay := step(ctx)
		select {
		case <-ctx.Done():
		case <-time.After(delay):
		}
	}
}

func logger(ctx context.Context) logr.Logger { return logr.FromContextOrDiscard(ctx).WithName("certs") }

func timeOf(clock func() time.Time) time.Time {
	if clock == nil {
		return time.Now()
	}
	return clock()
}
