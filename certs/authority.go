package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
)

// attempts is how often Ensure yields to a faster replica.
const attempts = 5

// An Authority keeps a serving certificate and the certificate authority that
// signs it. Run Start beside the server; the other methods may be called at any
// time.
type Authority struct {
	// Store holds keys and certificates.
	Store Store
	// Names are the DNS names and IP addresses to serve under.
	Names []string
	// Lifetimes of certificates.
	Lifetimes Lifetimes
	// Interval between two looks at Store; that of Lifetimes by default. It must
	// be well below Lifetimes.Overlap.
	Interval time.Duration
	// Now is the clock; nil means time.Now.
	Now func() time.Time

	current atomic.Pointer[published]
}

// published is what requests see.
type published struct {
	material
	certificate *tls.Certificate
	bundle      []byte
}

// Ensure looks at the Store once, renews what is due there, and serves with
// what is there then.
func (a *Authority) Ensure(ctx context.Context) error {
	for range attempts {
		err := a.ensure(ctx)
		if !errors.Is(err, ErrChanged) {
			return err
		}
	}
	return fmt.Errorf("cannot renew certificates: %w %d times in a row", ErrChanged, attempts)
}

func (a *Authority) ensure(ctx context.Context) error {
	data, version, err := a.Store.Load(ctx)
	if err != nil {
		return err
	}
	now, lifetimes := a.now().Truncate(time.Second), a.Lifetimes.withDefaults()
	m := decode(data).prune(now, lifetimes)
	steps := m.due(now, a.Names, lifetimes)
	for _, s := range steps {
		if m, err = m.take(s, now, a.Names, lifetimes); err != nil {
			return err
		}
	}
	if len(steps) > 0 {
		if err := a.save(ctx, m.prune(now, lifetimes), version); err != nil {
			return err
		}
	}
	before := a.current.Swap(&published{material: m, certificate: m.certificate(), bundle: m.bundle()})
	logChanges(ctx, before, m)
	return nil
}

// logChanges says what is new in the material, no matter which replica issued it.
func logChanges(ctx context.Context, before *published, m material) {
	log := logr.FromContextOrDiscard(ctx).WithName("certs")
	known := func(cert *x509.Certificate) bool {
		return before != nil && (cert.Equal(before.serving.cert) || slices.ContainsFunc(before.issuers, func(i issuer) bool { return cert.Equal(i.cert) }))
	}
	for _, i := range m.issuers {
		if !known(i.cert) {
			log.Info("Using a certificate authority", "serial", i.cert.SerialNumber.String(), "issued", i.cert.NotBefore, "expires", i.cert.NotAfter)
		}
	}
	if cert := m.serving.cert; cert != nil && !known(cert) {
		log.Info("Serving with a certificate", "serial", cert.SerialNumber.String(), "issued", cert.NotBefore, "expires", cert.NotAfter, "rotated", before != nil)
	}
}

func (a *Authority) save(ctx context.Context, m material, version string) error {
	data, err := m.encode()
	if err != nil {
		return err
	}
	return a.Store.Save(ctx, data, version)
}

// Start keeps certificates fresh until the context ends. What it cannot do now
// it tries again; meanwhile the server goes on with what it has.
func (a *Authority) Start(ctx context.Context) error {
	log := logr.FromContextOrDiscard(ctx).WithName("certs")
	for {
		wait := a.interval()
		if err := a.Ensure(ctx); err != nil && ctx.Err() == nil {
			log.Error(err, "Cannot keep certificates fresh; trying again", "ready", a.Ready() == nil)
			wait = min(wait, 2*time.Second)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

// NeedLeaderElection says that every replica runs its Authority.
func (*Authority) NeedLeaderElection() bool { return false }

// GetCertificate is for tls.Config: it returns the newest serving certificate.
func (a *Authority) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	current := a.current.Load()
	if current == nil {
		return nil, errors.New("there is no serving certificate yet")
	}
	return current.certificate, nil
}

// Bundle is what clients must trust, in PEM; nil as long as there is nothing.
func (a *Authority) Bundle() []byte {
	current := a.current.Load()
	if current == nil {
		return nil
	}
	return current.bundle
}

// Ready is nil when there is a certificate to serve with.
func (a *Authority) Ready() error {
	current := a.current.Load()
	if current == nil {
		return errors.New("there is no serving certificate yet")
	}
	return current.complete(a.now())
}

func (a *Authority) now() time.Time {
	if a.Now == nil {
		return time.Now()
	}
	return a.Now()
}

func (a *Authority) interval() time.Duration {
	if a.Interval == 0 {
		return a.Lifetimes.Interval()
	}
	return a.Interval
}
