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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// How long a lease lasts, how long its holder tries to renew it, and how often.
const (
	LeaseDuration = 15 * time.Second
	RenewDeadline = 10 * time.Second
	RetryPeriod   = 2 * time.Second
)

// ErrDeposed says that this process is not, or may be no longer, the leader.
var ErrDeposed = errors.New("not the leader, or not for certain")

// A Lock is the lease that leaders hold. It remembers when it was renewed, and
// counts terms: the times between which another process may have held it.
type Lock struct {
	resourcelock.Interface

	mu       sync.Mutex
	renewed  time.Time // zero while it is not held
	mine     bool      // whether it was this process's when it was last seen
	acquired acquisition
	term     uint64
	writes   sync.WaitGroup // writes under way; none begins while the lease is not held
}

// An acquisition is that of a lease, by which its renewals are known.
type acquisition struct {
	second      int64
	transitions int
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

// Get reads the lease. Whoever sees that it is another's, or gone, holds it no more.
func (l *Lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	switch {
	case apierrors.IsNotFound(err):
		l.see(false)
	case err == nil:
		l.see(record.HolderIdentity == l.Identity())
	}
	return record, raw, err
}

func (l *Lock) see(mine bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mine = mine; !mine {
		l.renewed = time.Time{}
	}
}

// Create takes a lease that is not there yet.
func (l *Lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, record, l.Interface.Create)
}

// Update takes, renews or gives back the lease. An elector that was cut off for
// long believes that it leads still, and would give back what is its successor's.
func (l *Lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if record.HolderIdentity == "" && !l.was() {
		return fmt.Errorf("cannot give back the lease: %w", ErrDeposed)
	}
	return l.write(ctx, record, l.Interface.Update)
}

func (l *Lock) write(ctx context.Context, record resourcelock.LeaderElectionRecord, write func(context.Context, resourcelock.LeaderElectionRecord) error) error {
	began := time.Now() // nobody else counts from an earlier time
	mine := record.HolderIdentity == l.Identity()
	if !mine {
		l.drop() // before others can see it
		l.writes.Wait()
	}
	if err := write(ctx, record); err != nil {
		return err
	}
	if mine {
		l.hold(began, acquisition{record.AcquireTime.Unix(), record.LeaderTransitions})
	}
	return nil
}

// hold remembers a renewal, which begins a term if the lease was acquired anew.
func (l *Lock) hold(renewed time.Time, acquired acquisition) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mine = true
	if l.renewed = renewed; l.term == 0 || l.acquired != acquired {
		l.acquired = acquired
		l.term++
	}
}

// was reports whether the lease was this process's when it was last seen.
func (l *Lock) was() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mine
}

func (l *Lock) drop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.renewed = time.Time{}
}

// A hold is how long a process may write, and in which term. The zero hold is none.
type hold struct {
	until time.Time
	term  uint64
}

// held is what this process has of the lease now. It leads for certain while there
// is time for what is sent last to arrive.
func (l *Lock) held() (h hold, certain bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.holds()
}

// begin counts a write if this process may write what a context was begun for.
func (l *Lock) begin(ctx context.Context) (hold, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h, leads := l.holds()
	if term, known := ctx.Value(termKey{}).(uint64); !leads || known && term != h.term {
		return h, false
	}
	l.writes.Add(1)
	return h, true
}

func (l *Lock) holds() (h hold, certain bool) {
	if l.renewed.IsZero() {
		return hold{term: l.term}, false
	}
	return hold{l.renewed.Add(LeaseDuration), l.term}, before(time.Now(), l.renewed.Add(RenewDeadline))
}

// Leads reports whether this process leads for certain. A nil Lock is no election.
func (l *Lock) Leads() bool {
	if l == nil {
		return true
	}
	_, certain := l.held()
	return certain
}

// patience is between two looks whether this process leads.
const patience = 100 * time.Millisecond

// While has requests wait until this process leads. What was begun in a term
// cannot write in another one, in which it may know less than was done between
// them. A nil Lock is no election.
func (l *Lock) While(r reconcile.Reconciler) reconcile.Reconciler {
	if l == nil {
		return r
	}
	return reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
		for {
			if h, leads := l.held(); leads {
				return r.Reconcile(context.WithValue(ctx, termKey{}, h.term), req)
			}
			select {
			case <-ctx.Done():
				return reconcile.Result{}, nil
			case <-time.After(patience):
			}
		}
	})
}

// termKey is of the term in which the work of a context was begun.
type termKey struct{}

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
	h, begun := f.lock.begin(r.Context())
	if !begun {
		if r.Body != nil {
			_ = r.Body.Close() // as a RoundTripper must
		}
		return nil, fmt.Errorf("cannot %s %s: %w", r.Method, r.URL.Path, ErrDeposed)
	}
	defer f.lock.writes.Done()
	ctx, cancel := context.WithDeadline(r.Context(), h.until)
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
