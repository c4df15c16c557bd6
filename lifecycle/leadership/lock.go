// Package leadership lets nobody write who may have been deposed: a leader that
// was paused, or cut off, for longer than its lease learns of its successor too
// late, and its requests would mix with the successor's.
package leadership

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// How long a lease lasts, how long its holder tries to renew it, and how often.
const (
	LeaseDuration = 15 * time.Second
	RenewDeadline = 10 * time.Second
	RetryPeriod   = 2 * time.Second
)

// ErrDeposed says that this process is not, or may be no longer, the leader.
var ErrDeposed = errors.New("not the leader, or not for certain")

// A Lock is the lease that leaders hold. It remembers when it was renewed.
type Lock struct {
	resourcelock.Interface

	mu      sync.Mutex
	renewed time.Time // zero while it is not held
}

// NewLock returns the lock of a lease, for a process of its own identity.
func NewLock(config *rest.Config, lease types.NamespacedName) (*Lock, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("cannot name this process: %w", err)
	}
	identity := resourcelock.ResourceLockConfig{Identity: host + "_" + uuid.NewString()}
	inner, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, lease.Namespace, lease.Name, identity, config, RenewDeadline)
	if err != nil {
		return nil, fmt.Errorf("cannot make the lock of lease %s: %w", lease, err)
	}
	return &Lock{Interface: inner}, nil
}

// Create takes a lease that is not there yet.
func (l *Lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, record, l.Interface.Create)
}

// Update takes, renews or gives back the lease.
func (l *Lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, record, l.Interface.Update)
}

func (l *Lock) write(ctx context.Context, record resourcelock.LeaderElectionRecord, write func(context.Context, resourcelock.LeaderElectionRecord) error) error {
	began := time.Now() // nobody else counts from an earlier time
	mine := record.HolderIdentity == l.Identity()
	if !mine {
		l.set(time.Time{}) // before anybody can see it
	}
	if err := write(ctx, record); err != nil {
		return err
	}
	if mine {
		l.set(began)
	}
	return nil
}

func (l *Lock) set(renewed time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.renewed = renewed
}

// Until is how long this process may write. Zero means not at all.
func (l *Lock) Until() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.renewed.IsZero() {
		return time.Time{}
	}
	return l.renewed.Add(LeaseDuration)
}

// Fence wraps a transport: writes fail with ErrDeposed unless the lease is held
// for certain, and are given up when it may be another's. Reads pass.
func (l *Lock) Fence(inner http.RoundTripper) http.RoundTripper { return &fence{l, inner} }

type fence struct {
	lock  *Lock
	inner http.RoundTripper
}

// RoundTrip sends a request if this process may.
func (f *fence) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return f.inner.RoundTrip(r)
	}
	// What is sent last has some time to arrive.
	until := f.lock.Until().Add(RenewDeadline - LeaseDuration)
	if !before(time.Now(), until) {
		if r.Body != nil {
			_ = r.Body.Close() // as a RoundTripper must
		}
		return nil, fmt.Errorf("cannot %s %s: %w", r.Method, r.URL.Path, ErrDeposed)
	}
	ctx, cancel := context.WithDeadline(r.Context(), f.lock.Until())
	response, err := f.inner.RoundTrip(r.WithContext(ctx))
	if err != nil {
		cancel()
		return nil, err
	}
	response.Body = &body{response.Body, cancel}
	return response, nil
}

// before reports whether one time is before another by both clocks: the
// monotonic one stands still while a machine sleeps, and the other may be set back.
func before(one, other time.Time) bool {
	return one.Before(other) && one.Round(0).Before(other.Round(0))
}

// A body ends its request's deadline when it has been read.
type body struct {
	io.ReadCloser

	cancel context.CancelFunc
}

// Close closes the body.
func (b *body) Close() error {
	b.cancel()
	return b.ReadCloser.Close()
}
