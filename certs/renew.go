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
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
)

// skew is how far the clocks of clients may be behind ours.
const skew = 5 * time.Minute

// maxAuthorities bounds the bundle of a Store that loses its data again and again.
const maxAuthorities = 8

// renew creates certificates that are due at a time, and reports whether there are any. If no
// authority can sign, those of the last known material do until the overlap is over, so that
// clients and other replicas keep working after the Store has lost its data.
func (m material) renew(now time.Time, names []string, l Lifetimes, last material) (material, bool, error) {
	changed := false
	if m.authorityDue(now, l) {
		made, err := newAuthority(now, l.CA)
		if err != nil {
			return m, false, fmt.Errorf("cannot create a certificate authority: %w", err)
		}
		if !slices.ContainsFunc(m.authorities, pair.signs) {
			m = m.withLost(last)
		}
		m.authorities = append([]pair{made}, m.authorities...)
		m.authorities = m.authorities[:min(len(m.authorities), maxAuthorities)]
		changed = true
	}
	if m.servingDue(now, names, l) {
		made, err := m.signer(now, l).issue(now, l.Serving, names)
		if err != nil {
			return m, false, fmt.Errorf("cannot create a serving certificate: %w", err)
		}
		m.serving = made
		changed = true
	}
	return m.prune(now, l), changed, nil
}

// authorityDue reports whether a new authority is due: a third of the lifetime of the newest one is
// left, or a certificate that it signs now would expire too early.
func (m material) authorityDue(now time.Time, l Lifetimes) bool {
	newest := slices.IndexFunc(m.authorities, pair.signs)
	return newest < 0 || m.authorities[newest].cert.NotAfter.Sub(now) < max(l.CA/3, l.Serving+l.Overlap)
}

// servingDue reports whether a new serving certificate is due: a third of its lifetime is left, or
// it has other names or another signer.
func (m material) servingDue(now time.Time, names []string, l Lifetimes) bool {
	cert := m.serving.cert
	if cert == nil || !hasNames(cert, names) {
		return true
	}
	signer := m.signer(now, l)
	if cert.CheckSignatureFrom(signer.cert) != nil {
		return true
	}
	life := cert.NotAfter.Sub(cert.NotBefore.Add(skew))
	// The same signer cannot sign for longer than its own lifetime.
	return cert.NotAfter.Sub(now) < life/3 && cert.NotAfter.Before(signer.cert.NotAfter)
}

// withLost adds the authorities of the last known material, and its serving certificate if there is
// none.
func (m material) withLost(last material) material {
	out := material{authorities: slices.Clone(last.authorities), serving: m.serving}
	for _, ca := range m.authorities {
		if !slices.ContainsFunc(last.authorities, func(known pair) bool { return known.cert.Equal(ca.cert) }) {
			out.authorities = append(out.authorities, ca)
		}
	}
	if out.serving.cert == nil {
		out.serving = last.serving
	}
	return out
}

// prune drops authorities that have expired, and the keys of those that a newer one has replaced as
// signer.
func (m material) prune(now time.Time, l Lifetimes) material {
	out := material{serving: m.serving}
	for _, ca := range m.authorities {
		if now.Before(ca.cert.NotAfter) {
			out.authorities = append(out.authorities, ca)
		}
	}
	if at := out.signerIndex(now, l); at >= 0 {
		for i := at + 1; i < len(out.authorities); i++ {
			out.authorities[i].key = nil
		}
	}
	return out
}

// signer returns the authority that signs serving certificates at a time: the newest one that has
// been in the bundle for the overlap, or else the oldest one.
func (m material) signer(now time.Time, l Lifetimes) pair {
	return m.authorities[m.signerIndex(now, l)]
}

func (m material) signerIndex(now time.Time, l Lifetimes) int {
	oldest := -1
	for at, ca := range m.authorities {
		if ca.key == nil {
			continue
		}
		if !now.Before(ca.cert.NotBefore.Add(skew + l.Overlap)) {
			return at
		}
		oldest = at
	}
	return oldest
}

// hasNames reports whether a certificate is valid for exactly these DNS names and IP addresses.
func hasNames(cert *x509.Certificate, names []string) bool {
	have, want := sets.New(cert.DNSNames...), sets.New[string]()
	for _, ip := range cert.IPAddresses {
		have.Insert(ip.String())
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			name = ip.String()
		}
		want.Insert(name)
	}
	return have.Equal(want)
}

func newAuthority(now time.Time, life time.Duration) (pair, error) {
	template := &x509.Certificate{
		NotBefore: now.Add(-skew), NotAfter: now.Add(life),
		Subject: pkix.Name{CommonName: "virtwright CA of " + now.UTC().Format(time.RFC3339)},
		IsCA:    true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	return sign(template, nil)
}

// issue creates a serving certificate that expires no later than its signer.
func (p pair) issue(now time.Time, life time.Duration, names []string) (pair, error) {
	end := now.Add(life)
	if end.After(p.cert.NotAfter) {
		end = p.cert.NotAfter
	}
	template := &x509.Certificate{
		NotBefore: now.Add(-skew), NotAfter: end, Subject: pkix.Name{CommonName: "virtwright"},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	return sign(template, &p)
}

// sign creates a key and a certificate for it; without a signer the certificate signs itself.
func sign(template *x509.Certificate, signer *pair) (pair, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return pair{}, fmt.Errorf("cannot choose a serial number: %w", err)
	}
	template.SerialNumber = serial
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair{}, fmt.Errorf("cannot generate a key: %w", err)
	}
	if signer == nil {
		signer = &pair{template, key}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, signer.cert, &key.PublicKey, signer.key)
	if err != nil {
		return pair{}, fmt.Errorf("cannot sign: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return pair{}, fmt.Errorf("cannot parse the signed certificate: %w", err)
	}
	return pair{cert, key}, nil
}

// Lifetimes sets how long certificates are valid. Zero fields have defaults.
type Lifetimes struct {
	CA      time.Duration // the lifetime of a certificate authority; one year by default
	Serving time.Duration // the lifetime of a serving certificate; 90 days by default
	// Overlap is how long clients may take to trust a new authority and replicas to serve a new
	// certificate. One hour by default.
	Overlap time.Duration
}

// minOverlap is the time that API servers, injectors and replicas need at least.
const minOverlap = 4 * time.Second

func (l Lifetimes) withDefaults() Lifetimes {
	if l.CA == 0 {
		l.CA = 365 * 24 * time.Hour
	}
	if l.Serving == 0 {
		l.Serving = 90 * 24 * time.Hour
	}
	if l.Overlap == 0 {
		l.Overlap = time.Hour
	}
	// A certificate must expire well before its signer.
	l.Serving = min(l.Serving, l.CA/2)
	l.Overlap = min(l.Overlap, l.Serving/4)
	return l
}

// Check returns nil if the lifetimes are possible. Zero fields are.
func (l Lifetimes) Check() error {
	switch d := l.withDefaults(); {
	case l.CA < 0 || l.Serving < 0 || l.Overlap < 0:
		return fmt.Errorf("must not be negative: %s, %s, %s", l.CA, l.Serving, l.Overlap)
	case l.Serving > d.Serving:
		return fmt.Errorf("the lifetime of the serving certificate must be at most half of the CA's, %s, not %s", d.CA/2, l.Serving)
	case l.Overlap > d.Overlap:
		return fmt.Errorf("the overlap must be at most a quarter of the lifetime of the serving certificate, %s, not %s", d.Serving/4, l.Overlap)
	case d.Overlap < minOverlap:
		return fmt.Errorf("the overlap must be at least %s, not %s: the serving certificate must live for at least %s", minOverlap, d.Overlap, 4*minOverlap)
	}
	return nil
}

// Interval returns how often to check for changes, so that they spread within the overlap.
func (l Lifetimes) Interval() time.Duration {
	return min(time.Minute, l.withDefaults().Overlap/8)
}
