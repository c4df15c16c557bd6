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

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A Provided certificate is in a Secret that somebody else writes: cert-manager,
// or an administrator. It is read again and again; one that cannot be served
// with does not replace one that can. Run Start beside the server; the other
// methods may be called at any time.
type Provided struct {
	// Client reads from API servers, not from a cache.
	Client client.Reader
	// Secret of type kubernetes.io/tls, with KeyCA beside.
	Secret types.NamespacedName
	// Names are DNS names that the certificate must be for.
	Names []string
	// Explain says why there is no certificate, by what its writer tells; "" where
	// it tells nothing. It may be nil.
	Explain func(context.Context) string
	// Interval between two looks; ten seconds by default.
	Interval time.Duration
	// Now is the clock; nil means time.Now.
	Now func() time.Time

	current atomic.Pointer[given]
	problem atomic.Pointer[string]
}

// given is what requests see.
type given struct {
	certificate *tls.Certificate
	bundle      []byte
}

// NeedLeaderElection says that every replica reads.
func (*Provided) NeedLeaderElection() bool { return false }

// Start reads until the context ends. What it finds is for an Inspector to tell.
func (p *Provided) Start(ctx context.Context) error {
	for ctx.Err() == nil {
		_ = p.Read(ctx) // which Problem remembers
		wait := p.interval()
		if p.current.Load() == nil {
			wait = min(wait, time.Second)
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
	return nil
}

// Read looks at the Secret once, and serves with what is there if it can be
// served with. The error is what Problem says, too.
func (p *Provided) Read(ctx context.Context) error {
	found, err := p.read(ctx)
	if err == nil {
		logProvided(ctx, p.current.Swap(found), found)
		err = p.running()
	}
	said := ""
	if err != nil {
		said = err.Error()
		if p.Explain != nil {
			if why := p.Explain(ctx); why != "" {
				said += ": " + why
			}
		}
		err = errors.New(said)
	}
	p.problem.Store(&said)
	return err
}

// logProvided says that another certificate is served from now on.
func logProvided(ctx context.Context, before, now *given) {
	if leaf := now.certificate.Leaf; before == nil || !leaf.Equal(before.certificate.Leaf) {
		logr.FromContextOrDiscard(ctx).WithName("certs").Info("Serving with a certificate",
			"serial", leaf.SerialNumber.String(), "issued", leaf.NotBefore, "expires", leaf.NotAfter, "rotated", before != nil)
	}
}

func (p *Provided) read(ctx context.Context) (*given, error) {
	var secret corev1.Secret
	err := p.Client.Get(ctx, p.Secret, &secret)
	switch {
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("there is no Secret %s with a certificate", p.Secret)
	case err != nil:
		return nil, fmt.Errorf("cannot read Secret %s: %w", p.Secret, err)
	}
	found, err := parse(secret.Data, p.Names, p.now())
	if err != nil {
		return nil, fmt.Errorf("Secret %s: %w", p.Secret, err)
	}
	return found, nil
}

// parse is what can be served with under names at a time.
func parse(data map[string][]byte, names []string, now time.Time) (*given, error) {
	for _, key := range []string{KeyCertificate, KeyPrivateKey, KeyCA} {
		if len(data[key]) == 0 {
			return nil, fmt.Errorf("%s is missing", key)
		}
	}
	pair, err := tls.X509KeyPair(data[KeyCertificate], data[KeyPrivateKey])
	if err != nil {
		return nil, fmt.Errorf("%s and %s: %w", KeyCertificate, KeyPrivateKey, err)
	}
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	if !roots.AppendCertsFromPEM(data[KeyCA]) {
		return nil, fmt.Errorf("%s has no certificate in PEM", KeyCA)
	}
	between.AppendCertsFromPEM(data[KeyCertificate])
	for _, name := range names {
		if err := pair.Leaf.VerifyHostname(name); err != nil {
			return nil, fmt.Errorf("%s is for %s, and must be for %s, too", KeyCertificate, strings.Join(pair.Leaf.DNSNames, ", "), name)
		}
	}
	if now.After(pair.Leaf.NotAfter) {
		return nil, fmt.Errorf("%s expired at %s", KeyCertificate, pair.Leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, CurrentTime: now}); err != nil {
		return nil, fmt.Errorf("%s does not come from the certificate authority in %s: %w", KeyCertificate, KeyCA, err)
	}
	return &given{&pair, bytes.Clone(data[KeyCA])}, nil
}

// GetCertificate is for tls.Config: it returns the newest serving certificate.
func (p *Provided) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	current := p.current.Load()
	if current == nil {
		return nil, errors.New("there is no serving certificate yet")
	}
	return current.certificate, nil
}

// Bundle is what clients must trust, in PEM; nil as long as there is nothing.
func (p *Provided) Bundle() []byte {
	current := p.current.Load()
	if current == nil {
		return nil
	}
	return current.bundle
}

// Ready is nil when there is a certificate to serve with.
func (p *Provided) Ready() error {
	err := p.running()
	if err == nil {
		return nil
	}
	if why := p.Problem(); why != "" {
		return errors.New(why)
	}
	return err
}

// Problem is what is wrong with what is provided, and "" where nothing is:
// also while something older still serves.
func (p *Provided) Problem() string {
	if said := p.problem.Load(); said != nil {
		return *said
	}
	return ""
}

// running is nil while what is served with has not expired.
func (p *Provided) running() error {
	current := p.current.Load()
	switch {
	case current == nil:
		return errors.New("there is no serving certificate yet")
	case p.now().After(current.certificate.Leaf.NotAfter):
		return fmt.Errorf("the serving certificate expired at %s", current.certificate.Leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	return nil
}

// Collectors are the metrics of the certificate.
func (p *Provided) Collectors() []prometheus.Collector {
	return expiries(func(kind string) time.Time {
		current := p.current.Load()
		if current == nil {
			return time.Time{}
		}
		if kind == servingCertificate {
			return current.certificate.Leaf.NotAfter
		}
		var last time.Time
		for _, ca := range certificates(current.bundle) {
			if ca.NotAfter.After(last) {
				last = ca.NotAfter
			}
		}
		return last
	})
}

func (p *Provided) now() time.Time {
	if p.Now == nil {
		return time.Now()
	}
	return p.Now()
}

func (p *Provided) interval() time.Duration {
	if p.Interval == 0 {
		return 10 * time.Second
	}
	return p.Interval
}
