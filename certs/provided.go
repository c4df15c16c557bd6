package certs

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A Provided certificate is read from a Secret that cert-manager or an administrator writes. A
// certificate that is missing or invalid does not replace the one in use. Run Start beside the
// server; the other methods may be called at any time.
type Provided struct {
	Client client.Reader        // reads from API servers, not from a cache
	Secret types.NamespacedName // of type kubernetes.io/tls, with ca.crt
	Names  []string             // DNS names that the certificate must be valid for
	// Explain returns why there is no certificate or why it is not renewed; "" if unknown. It may
	// be nil.
	Explain func(context.Context) string
	Now     func() time.Time // the clock; nil means time.Now

	serving
	problem atomic.Pointer[string]
}

// Start reads the Secret until the context ends. An Inspector reports problems.
func (p *Provided) Start(ctx context.Context) error {
	poll(ctx, func(ctx context.Context) time.Duration {
		_ = p.Refresh(ctx) // Check returns the error
		if p.current.Load() == nil {
			return time.Second
		}
		return 10 * time.Second
	})
	return nil
}

// Refresh reads the Secret once, and serves its certificate if it is valid.
func (p *Provided) Refresh(ctx context.Context) error {
	found, err := p.read(ctx)
	if err == nil {
		p.serve(ctx, found)
		err = p.valid(timeOf(p.Now))
	}
	message := ""
	if err != nil {
		message = err.Error()
		if reason := p.explain(ctx); reason != "" {
			message += ": " + reason
		}
		err = errors.New(message)
	}
	p.problem.Store(&message)
	return err
}

func (p *Provided) read(ctx context.Context) (*credential, error) {
	var secret corev1.Secret
	err := p.Client.Get(ctx, p.Secret, &secret)
	switch {
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("Secret %s with the serving certificate not found", p.Secret)
	case err != nil:
		return nil, fmt.Errorf("cannot read Secret %s: %w", p.Secret, err)
	}
	found, err := parse(secret.Data, p.Names, timeOf(p.Now))
	if err != nil {
		return nil, fmt.Errorf("Secret %s: %w", p.Secret, err)
	}
	return found, nil
}

func parse(data map[string][]byte, names []string, now time.Time) (*credential, error) {
	for _, key := range []string{keyCertificate, keyPrivateKey, keyCA} {
		if len(data[key]) == 0 {
			return nil, fmt.Errorf("%s is missing", key)
		}
	}
	certificate, err := tls.X509KeyPair(data[keyCertificate], data[keyPrivateKey])
	if err != nil {
		return nil, fmt.Errorf("%s and %s: %w", keyCertificate, keyPrivateKey, err)
	}
	roots, intermediates := x509.NewCertPool(), x509.NewCertPool()
	if !roots.AppendCertsFromPEM(data[keyCA]) {
		return nil, fmt.Errorf("%s has no certificate in PEM", keyCA)
	}
	intermediates.AppendCertsFromPEM(data[keyCertificate])
	leaf := certificate.Leaf
	for _, name := range names {
		if leaf.VerifyHostname(name) != nil {
			return nil, fmt.Errorf("%s is valid for %s, but not for %s", keyCertificate, strings.Join(leaf.DNSNames, ", "), name)
		}
	}
	if now.Before(leaf.NotBefore) {
		return nil, fmt.Errorf("%s is not valid before %s; check the clocks", keyCertificate, leaf.NotBefore.UTC().Format(time.RFC3339))
	}
	if now.After(leaf.NotAfter) {
		return nil, fmt.Errorf("%s expired at %s", keyCertificate, leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: intermediates, CurrentTime: now}); err != nil {
		return nil, fmt.Errorf("%s is not signed by an authority in %s: %w", keyCertificate, keyCA, err)
	}
	return &credential{&certificate, bytes.Clone(data[keyCA])}, nil
}

// Ready returns nil if there is a valid certificate, even if the Secret has a problem since.
func (p *Provided) Ready() error {
	err := p.valid(timeOf(p.Now))
	if message := p.lastProblem(); err != nil && message != "" {
		return errors.New(message)
	}
	return err
}

// Check returns the problem that the last read found, or that prevents a renewal. It serves as
// Inspector.Certificate.
func (p *Provided) Check(ctx context.Context) error {
	if message := p.lastProblem(); message != "" {
		return errors.New(message)
	}
	if err := p.Ready(); err != nil {
		return err
	}
	if reason := p.explain(ctx); reason != "" {
		return errors.New(reason)
	}
	return nil
}

func (p *Provided) lastProblem() string {
	if message := p.problem.Load(); message != nil {
		return *message
	}
	return ""
}

func (p *Provided) explain(ctx context.Context) string {
	if p.Explain == nil {
		return ""
	}
	return p.Explain(ctx)
}
