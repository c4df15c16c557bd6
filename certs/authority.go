// Package certs provides the serving certificate of the manager and makes API servers trust it.
//
// An [Authority] creates a certificate authority and a serving certificate in a [Store] that all
// replicas share, and renews both before they expire. A [Provided] certificate is read from a
// Secret that another program writes. Both serve a renewed certificate without a restart. An
// [Injector] writes the CA bundle into webhook configurations, CRDs and APIServices, and an
// [Inspector] reports whether API servers can verify the certificate.
//
// Rotation never breaks a connection: a new certificate authority is in the bundle for
// Lifetimes.Overlap before it signs, and an old one stays in the bundle until it expires.
package certs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// maxAttempts is how often Refresh retries after a write of another replica.
const maxAttempts = 5

// An Authority creates and renews a serving certificate and the certificate authority that signs
// it. Run Start beside the server; the other methods may be called at any time.
type Authority struct {
	Store     Store
	Names     []string // the DNS names and IP addresses of the server
	Lifetimes Lifetimes
	Now       func() time.Time // the clock; nil means time.Now

	serving
	mu   sync.Mutex // held by Refresh, so that no older material replaces a newer one
	last material
}

// Refresh reads the Store once, creates certificates that are due, and serves the result.
func (a *Authority) Refresh(ctx context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for range maxAttempts {
		err := a.ensure(ctx)
		if !errors.Is(err, errChanged) {
			return err
		}
	}
	return fmt.Errorf("cannot renew certificates: %w %d times in a row", errChanged, maxAttempts)
}

func (a *Authority) ensure(ctx context.Context) error {
	data, version, err := a.Store.Load(ctx)
	if err != nil {
		return err
	}
	now, lifetimes := timeOf(a.Now).Truncate(time.Second), a.Lifetimes.withDefaults()
	m := decode(data).prune(now, lifetimes)
	m, changed, err := m.renew(now, a.Names, lifetimes, a.last.prune(now, lifetimes))
	if err != nil {
		return err
	}
	if changed {
		data, err := m.encode()
		if err != nil {
			return err
		}
		if err := a.Store.Save(ctx, data, version); err != nil {
			return err
		}
	}
	a.last = m
	before := a.serve(ctx, &credential{m.certificate(), m.bundle()})
	for _, ca := range m.authorities {
		if before == nil || !bytes.Contains(before.bundle, encodePEM(blockCertificate, ca.cert.Raw)) {
			logger(ctx).Info("Using a certificate authority", "serial", ca.cert.SerialNumber.String(),
				"issued", ca.cert.NotBefore, "expires", ca.cert.NotAfter)
		}
	}
	return nil
}

// retryTime is how long to wait after a failure, and at least between checks of a certificate that
// expires soon.
const retryTime = 2 * time.Second

// Start renews certificates until the context ends. If that fails it retries, and the server keeps
// its certificate.
func (a *Authority) Start(ctx context.Context) error {
	var next time.Time
	poll(ctx, func(ctx context.Context) time.Duration {
		interval := a.Lifetimes.Interval()
		tick := min(interval, retryTime)
		// After a suspension of the host, the certificate may expire before the next regular check.
		if time.Now().Before(next) && a.Ready() == nil {
			return tick
		}
		wait := tick
		if err := a.Refresh(ctx); err == nil {
			wait = min(interval, max(tick, a.left()/2)) // its lifetime may be shorter than ours
		} else if ctx.Err() == nil {
			logger(ctx).Error(err, "Cannot renew certificates; trying again", "ready", a.Ready() == nil)
		}
		next = time.Now().Add(wait)
		return tick
	})
	return nil
}

// left returns how long the certificate is still valid.
func (a *Authority) left() time.Duration {
	return a.current.Load().certificate.Leaf.NotAfter.Sub(timeOf(a.Now))
}

// Ready returns nil if there is a valid certificate.
func (a *Authority) Ready() error { return a.valid(timeOf(a.Now)) }
