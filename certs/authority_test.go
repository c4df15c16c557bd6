package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"maps"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var noon = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

var names = []string{"virtwright.virtwright-system.svc", "127.0.0.1"}

// clock is a time that tests set.
type clock struct{ time.Time }

func (c *clock) now() time.Time { return c.Time }

func authority(s Store, c *clock) *Authority {
	return &Authority{Store: s, Names: names, Now: c.now}
}

func refresh(t *testing.T, a *Authority) {
	t.Helper()
	if err := a.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// verify verifies a certificate as a client with a bundle does.
func verify(bundle []byte, cert *x509.Certificate, name string, at time.Time) error {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	_, err := cert.Verify(x509.VerifyOptions{Roots: roots, DNSName: name, CurrentTime: at})
	return err
}

func leaf(t *testing.T, a *Authority) *x509.Certificate {
	t.Helper()
	c, err := a.GetCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	return c.Leaf
}

func TestNothingBeforeRefresh(t *testing.T) {
	a := authority(&Memory{}, &clock{noon})
	if _, err := a.GetCertificate(nil); err == nil {
		t.Error("want no certificate")
	}
	if a.Ready() == nil || a.Bundle() != nil {
		t.Error("want neither readiness nor bundle")
	}
}

func TestHandshake(t *testing.T) {
	a := authority(&Memory{}, &clock{time.Now()})
	refresh(t, a)
	if err := a.Ready(); err != nil {
		t.Error(err)
	}
	for _, name := range names {
		server, client := net.Pipe()
		go func() {
			_ = tls.Server(server, &tls.Config{GetCertificate: a.GetCertificate, MinVersion: tls.VersionTLS13}).HandshakeContext(t.Context())
		}()
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(a.Bundle())
		conn := tls.Client(client, &tls.Config{RootCAs: roots, ServerName: name, MinVersion: tls.VersionTLS13})
		if err := conn.HandshakeContext(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A client with an old bundle and a replica with an old certificate keep working if they are no
// older than the overlap.
func TestRotationNeverBreaksAConnection(t *testing.T) {
	lifetimes := Lifetimes{CA: 40 * 24 * time.Hour, Serving: 10 * 24 * time.Hour, Overlap: 12 * time.Hour}
	const tick = 3 * time.Hour
	c := &clock{noon}
	a := authority(&Memory{}, c)
	a.Lifetimes = lifetimes
	type moment struct {
		bundle []byte
		leaf   *x509.Certificate
	}
	var past []moment
	serials := map[string]bool{}
	bundles := map[string]bool{}
	for c.Before(noon.Add(200 * 24 * time.Hour)) {
		refresh(t, a)
		now := moment{a.Bundle(), leaf(t, a)}
		past = append(past, now)
		for _, then := range past[max(0, len(past)-1-int(lifetimes.Overlap/tick)):] {
			if err := verify(then.bundle, now.leaf, names[0], c.Time); err != nil {
				t.Fatalf("%s: a client with an old bundle: %v", c, err)
			}
			if err := verify(now.bundle, then.leaf, names[0], c.Time); err != nil {
				t.Fatalf("%s: a replica with an old certificate: %v", c, err)
			}
		}
		if left := now.leaf.NotAfter.Sub(c.Time); left < 2*24*time.Hour {
			t.Fatalf("%s: certificate ends in %s", c, left)
		}
		serials[now.leaf.SerialNumber.String()], bundles[string(now.bundle)] = true, true
		c.Time = c.Add(tick)
	}
	if len(serials) < 20 || len(serials) > 40 || len(bundles) < 8 || len(bundles) > 20 {
		t.Errorf("want some 30 certificates and 14 bundles in 200 days, got %d and %d", len(serials), len(bundles))
	}
}

func TestNewAuthorityWaitsForTheOverlap(t *testing.T) {
	c := &clock{noon}
	a := authority(&Memory{}, c)
	refresh(t, a)
	first := decode(mustLoad(t, a.Store)).authorities[0].cert
	c.Time = noon.Add(365*24*time.Hour*2/3 + time.Hour)
	refresh(t, a)
	if got := decode(mustLoad(t, a.Store)); len(got.authorities) != 2 || !got.authorities[1].cert.Equal(first) {
		t.Fatalf("want a new authority before the old one, got %d", len(got.authorities))
	}
	if err := leaf(t, a).CheckSignatureFrom(first); err != nil {
		t.Errorf("the old authority must still sign: %v", err)
	}
	c.Time = c.Add(time.Hour)
	refresh(t, a)
	m := decode(mustLoad(t, a.Store))
	if err := leaf(t, a).CheckSignatureFrom(m.authorities[0].cert); err != nil {
		t.Errorf("the new authority must sign: %v", err)
	}
	if m.authorities[1].key != nil {
		t.Error("a key that no longer signs must not be kept")
	}
	c.Time = first.NotAfter
	refresh(t, a)
	if got := decode(mustLoad(t, a.Store)).authorities; len(got) != 1 || got[0].cert.Equal(first) {
		t.Errorf("an expired authority must leave the bundle; have %d", len(got))
	}
}

func mustLoad(t *testing.T, s Store) map[string][]byte {
	t.Helper()
	data, _, err := s.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestRefresh(t *testing.T) {
	cases := map[string]struct {
		reason string
		// damage changes the stored data, or the Authority.
		damage   func(data map[string][]byte, a *Authority)
		sameLeaf bool
		sameCA   bool
	}{
		"Nothing":        {"valid certificates are kept", func(map[string][]byte, *Authority) {}, true, true},
		"OrderOfNames":   {"names are a set", func(_ map[string][]byte, a *Authority) { a.Names = []string{names[1], names[0], names[1]} }, true, true},
		"NewName":        {"the certificate must have every name", func(_ map[string][]byte, a *Authority) { a.Names = append([]string{"more.example.com"}, names...) }, false, true},
		"LostName":       {"the certificate must have no other name", func(_ map[string][]byte, a *Authority) { a.Names = names[:1] }, false, true},
		"LostServing":    {"a missing certificate is created", func(d map[string][]byte, _ *Authority) { delete(d, keyCertificate) }, false, true},
		"DamagedKey":     {"a damaged certificate is created again", func(d map[string][]byte, _ *Authority) { d[keyPrivateKey] = []byte("x") }, false, true},
		"LostCAKey":      {"without a key a new authority is created", func(d map[string][]byte, _ *Authority) { delete(d, keyCAKey) }, false, false},
		"OtherCAKey":     {"the key of another authority does not sign", func(d map[string][]byte, _ *Authority) { d[keyCAKey] = d[keyPrivateKey] }, false, false},
		"LostEverything": {"an empty store starts over", func(d map[string][]byte, _ *Authority) { clear(d) }, false, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			first := authority(&Memory{}, &clock{noon})
			refresh(t, first)
			data := maps.Clone(mustLoad(t, first.Store))
			second := authority(&Memory{}, &clock{noon.Add(time.Minute)})
			tc.damage(data, second)
			if err := second.Store.Save(t.Context(), data, ""); err != nil {
				t.Fatal(err)
			}
			refresh(t, second)
			if got := leaf(t, second).Equal(leaf(t, first)); got != tc.sameLeaf {
				t.Errorf("%s: same certificate: want %t, got %t", tc.reason, tc.sameLeaf, got)
			}
			ca := decode(mustLoad(t, second.Store)).authorities[0].cert
			if got := ca.Equal(decode(mustLoad(t, first.Store)).authorities[0].cert); got != tc.sameCA {
				t.Errorf("%s: same authority: want %t, got %t", tc.reason, tc.sameCA, got)
			}
			for _, n := range second.Names {
				if err := verify(second.Bundle(), leaf(t, second), n, noon.Add(time.Minute)); err != nil {
					t.Errorf("%s: %v", tc.reason, err)
				}
			}
		})
	}
}

func TestNotReadyAfterExpiry(t *testing.T) {
	c := &clock{noon}
	a := authority(&Memory{}, c)
	refresh(t, a)
	c.Time = leaf(t, a).NotAfter
	if a.Ready() == nil {
		t.Error("want not ready with an expired certificate")
	}
}

// Replicas that start at once agree on one certificate.
func TestReplicasAgree(t *testing.T) {
	stores := map[string]Store{"Memory": &Memory{}}
	for name, s := range stores {
		t.Run(name, func(t *testing.T) {
			replicas := make([]*Authority, 4)
			var wg sync.WaitGroup
			for i := range replicas {
				replicas[i] = authority(s, &clock{noon})
				wg.Go(func() {
					if err := replicas[i].Refresh(t.Context()); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			for _, r := range replicas[1:] {
				if diff := cmp.Diff(replicas[0].Bundle(), r.Bundle()); diff != "" {
					t.Errorf("bundles differ:\n%s", diff)
				}
				if !leaf(t, replicas[0]).Equal(leaf(t, r)) {
					t.Error("certificates differ")
				}
			}
		})
	}
}

type unreachable struct{ Store }

var errUnreachable = errors.New("unreachable")

func (unreachable) Load(context.Context) (map[string][]byte, string, error) {
	return nil, "", errUnreachable
}

func TestServesWithoutItsStore(t *testing.T) {
	a := authority(&Memory{}, &clock{noon})
	refresh(t, a)
	a.Store = unreachable{}
	if err := a.Refresh(t.Context()); !errors.Is(err, errUnreachable) {
		t.Errorf("want %v, got %v", errUnreachable, err)
	}
	if err := a.Ready(); err != nil {
		t.Error(err)
	}
}

func TestDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "when", "needed")
	a := authority(Directory(dir), &clock{noon})
	refresh(t, a)
	again := authority(Directory(dir), &clock{noon.Add(time.Hour)})
	refresh(t, again)
	if !leaf(t, a).Equal(leaf(t, again)) {
		t.Error("want the stored certificate again")
	}
	for _, key := range storedKeys {
		info, err := os.Stat(filepath.Join(dir, key))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s: want mode 600, got %o", key, info.Mode().Perm())
		}
	}
	if err := Directory(dir).Save(t.Context(), mustLoad(t, again.Store), "other"); !errors.Is(err, errChanged) {
		t.Errorf("want %v, got %v", errChanged, err)
	}
}

// Replicas keep trusting each other when the stored data is lost, and the bundle stays bounded.
func TestLostStore(t *testing.T) {
	c, store := &clock{noon}, &Memory{}
	a, b := authority(store, c), authority(store, c)
	c.Time = noon.Add(2 * time.Hour)
	refresh(t, a)
	refresh(t, b)
	for range 2 * maxAuthorities {
		c.Time = c.Add(30 * time.Minute)
		lost := mustLoad(t, store)
		if err := store.Save(t.Context(), nil, digest(lost)); err != nil {
			t.Fatal(err)
		}
		before := a.Bundle()
		refresh(t, a)
		for name, err := range map[string]error{
			"the replica that has not seen it": verify(a.Bundle(), leaf(t, b), names[0], c.Time),
			"a client with the old bundle":     verify(before, leaf(t, a), names[0], c.Time),
		} {
			if err != nil {
				t.Fatalf("%s, %s: %v", c, name, err)
			}
		}
		if string(a.Bundle()) == string(before) {
			t.Fatal("want a new authority")
		}
		refresh(t, b)
	}
	if n := len(parseCertificates(a.Bundle())); n > maxAuthorities {
		t.Errorf("%d authorities", n)
	}
	c.Time = c.AddDate(1, 0, 0)
	if err := store.Save(t.Context(), nil, digest(mustLoad(t, store))); err != nil {
		t.Fatal(err)
	}
	refresh(t, a)
	if n := len(parseCertificates(a.Bundle())); n != 1 {
		t.Errorf("expired authorities are kept: %d", n)
	}
}
