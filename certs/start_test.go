package certs

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// counted counts how often a Store is read.
type counted struct {
	Memory
	loads atomic.Int64
}

// Load reads the Store.
func (s *counted) Load(ctx context.Context) (map[string][]byte, string, error) {
	s.loads.Add(1)
	return s.Memory.Load(ctx)
}

// started runs an Authority until the test ends.
func started(t *testing.T, a *Authority) {
	t.Helper()
	go func() { _ = a.Start(t.Context()) }()
	synctest.Wait()
}

// A certificate with a shorter lifetime than those of this process is renewed in time.
func TestStartWithAShortCertificate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &counted{}
		early := &Authority{Store: store, Names: names, Lifetimes: Lifetimes{Serving: 30 * time.Second}}
		refresh(t, early)
		a := &Authority{Store: store, Names: names}
		started(t, a)
		for range 60 {
			time.Sleep(time.Second)
			if err := a.Ready(); err != nil {
				t.Fatal(err)
			}
		}
		if n := store.loads.Load(); n > 10 {
			t.Errorf("%d reads in a minute", n)
		}
	})
}

// A certificate that expires while the host is suspended is renewed soon after.
func TestStartAfterASuspension(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, suspended := &counted{}, atomic.Int64{}
		a := &Authority{Store: store, Names: names, Now: func() time.Time { return time.Now().Add(time.Duration(suspended.Load())) }}
		started(t, a)
		time.Sleep(10 * time.Second)
		suspended.Store(int64(100 * 24 * time.Hour))
		if a.Ready() == nil {
			t.Fatal("the certificate must have expired")
		}
		time.Sleep(3 * time.Second)
		if err := a.Ready(); err != nil {
			t.Error(err)
		}
		if n := store.loads.Load(); n > 3 {
			t.Errorf("%d reads", n)
		}
	})
}
