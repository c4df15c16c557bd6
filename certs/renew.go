package certs

import (
	"crypto/x509"
	"fmt"
	"net"
	"slices"
	"time"
)

// Lifetimes says how long certificates live. Zero fields have good defaults.
type Lifetimes struct {
	// CA is the life of a certificate authority; one year by default.
	CA time.Duration
	// Serving is the life of a serving certificate; 90 days by default.
	Serving time.Duration
	// Overlap is how long everybody may take to learn of a change: clients of a
	// new bundle, replicas of a new certificate. One hour by default.
	Overlap time.Duration
}

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
	// What is signed must live shorter than the signer, with time to spare.
	l.Serving = min(l.Serving, l.CA/2)
	l.Overlap = min(l.Overlap, l.Serving/4)
	return l
}

// Check is nil when certificates can live that long. Zero is fine.
func (l Lifetimes) Check() error {
	switch d := l.withDefaults(); {
	case l.CA < 0 || l.Serving < 0 || l.Overlap < 0:
		return fmt.Errorf("a certificate must live, not for %s, %s or an overlap of %s", l.CA, l.Serving, l.Overlap)
	case l.Serving > d.Serving:
		return fmt.Errorf("a serving certificate may live for half as long as its authority, %s, not for %s", d.CA/2, l.Serving)
	case l.Overlap > d.Overlap:
		return fmt.Errorf("the overlap may take a quarter of the life of a serving certificate, %s, not %s", d.Serving/4, l.Overlap)
	case d.Overlap < minOverlap:
		return fmt.Errorf("certificates must live long enough for everybody to learn of a change: an overlap of %s at least, not %s", minOverlap, d.Overlap)
	}
	return nil
}

// minOverlap is what API servers, injectors and replicas need at the very least.
const minOverlap = 4 * time.Second

// Interval is how often to look, so that nobody learns of a change too late.
func (l Lifetimes) Interval() time.Duration {
	return min(time.Minute, l.withDefaults().Overlap/8)
}

// skew is how far clocks of clients may be behind ours.
const skew = 5 * time.Minute

// A step is one thing that renewal finds due.
type step int

const (
	// addIssuer makes a new certificate authority.
	addIssuer step = iota
	// issueServing makes a new serving certificate with the current signer.
	issueServing
)

// due says what must be made at a time, in this order, after the issuers that
// prune drops. It does not make anything.
//
// An issuer is renewed when a third of its life is left, or when what it signs
// now would live shorter than it should. A serving certificate is renewed when a
// third of its life is left, when its names or its signer are not the wanted ones.
func (m material) due(now time.Time, names []string, l Lifetimes) []step {
	newest, have := m.newest()
	if !have {
		return []step{addIssuer, issueServing}
	}
	var steps []step
	if left := newest.cert.NotAfter.Sub(now); left < max(l.CA/3, l.Serving+l.Overlap) {
		steps = append(steps, addIssuer)
	}
	if m.servingDue(now, names, l) {
		steps = append(steps, issueServing)
	}
	return steps
}

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
	// What ends with its signer cannot be bettered by the same signer.
	return cert.NotAfter.Sub(now) < life/3 && cert.NotAfter.Before(signer.cert.NotAfter)
}

// prune drops issuers that have expired, and the keys of those that a newer
// one has replaced as signer.
func (m material) prune(now time.Time, l Lifetimes) material {
	out := material{serving: m.serving}
	for _, i := range m.issuers {
		if now.Before(i.cert.NotAfter) {
			out.issuers = append(out.issuers, i)
		}
	}
	at := out.signerIndex(now, l)
	if at < 0 { // nobody holds a key: start afresh, but trust what is out there
		return out
	}
	for i := at + 1; i < len(out.issuers); i++ {
		out.issuers[i].key = nil
	}
	return out
}

// newest is the newest issuer that can sign, now or later.
func (m material) newest() (issuer, bool) {
	for _, i := range m.issuers {
		if i.key != nil {
			return i, true
		}
	}
	return issuer{}, false
}

// signer signs serving certificates at a time: the newest issuer that has been
// in the bundle for the overlap, or the oldest where none has.
func (m material) signer(now time.Time, l Lifetimes) issuer {
	return m.issuers[m.signerIndex(now, l)]
}

func (m material) signerIndex(now time.Time, l Lifetimes) int {
	oldest := -1
	for at, i := range m.issuers {
		if i.key == nil {
			continue
		}
		if !now.Before(i.cert.NotBefore.Add(skew + l.Overlap)) {
			return at
		}
		oldest = at
	}
	return oldest
}

// hasNames reports whether a certificate is for exactly these DNS names and IP addresses.
func hasNames(cert *x509.Certificate, names []string) bool {
	var have []string
	have = append(have, cert.DNSNames...)
	for _, ip := range cert.IPAddresses {
		have = append(have, ip.String())
	}
	want := make([]string, len(names))
	for i, name := range names {
		if want[i] = name; net.ParseIP(name) != nil {
			want[i] = net.ParseIP(name).String()
		}
	}
	slices.Sort(have)
	slices.Sort(want)
	return slices.Equal(slices.Compact(have), slices.Compact(want))
}
