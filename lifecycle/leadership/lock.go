// Package leadership elects a leader, and rejects the writes of a replica that has not renewed its
// lease for ten seconds. A leader that was paused or cut off for longer than its lease would
// otherwise write at the same time as its successor.
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

	"github.com/go-logr/logr"
	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
)

var errNotLeader = errors.New("not the leader, or the lease may have expired")

// A Lock is the lease that the leader holds. It counts terms: another process may have held the
// lease between two of them.
type Lock struct {
	resourcelock.Interface

	mu       sync.Mutex
	renewed  time.Time // zero while the lease is not held
	mine     bool      // whether this process held the lease when it was last read
	acquired acquisition
	term     uint64
	writes   sync.WaitGroup // writes in progress; none starts while the lease is not held
}

// An acquisition identifies the term of a record of the lease.
type acquisition struct {
	second      int64
	transitions int
}

// NewLock returns the lock of a lease, with an identity for this process.
func NewLock(config *rest.Config, lease types.NamespacedName) (*Lock, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("cannot read the host name: %w", err)
	}
	identity := resourcelock.ResourceLockConfig{Identity: host + "_" + uuid.NewString()}
	inner, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, lease.Namespace, lease.Name, identity, config, renewDeadline)
	if err != nil {
		return nil, fmt.Errorf("cannot create the lock of lease %s: %w", lease, err)
	}
	return &Lock{Interface: inner}, nil
}

// Get reads the lease, and notes whether this process still holds it.
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

// Create creates and acquires the lease.
func (l *Lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, record, l.Interface.Create)
}

// Update acquires, renews or releases the lease. It does not release the lease of a successor,
// which an elector would do after it was cut off.
func (l *Lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if record.HolderIdentity == "" && !l.isMine() {
		return fmt.Errorf("cannot release the lease: %w", errNotLeader)
	}
	return l.write(ctx, record, l.Interface.Update)
}

func (l *Lock) write(ctx context.Context, record resourcelock.LeaderElectionRecord, write func(context.Context, resourcelock.LeaderElectionRecord) error) error {
	start := time.Now() // other processes count from this time or later
	mine := record.HolderIdentity == l.Identity()
	if !mine {
		l.drop() // before other processes can acquire it
		l.writes.Wait()
	}
	if err := write(ctx, record); err != nil {
		return err
	}
	if mine {
		l.hold(start, acquisition{record.AcquireTime.Unix(), record.LeaderTransitions})
	}
	return nil
}

// hold records a renewal. A renewal of another acquisition starts a new term.
func (l *Lock) hold(renewed time.Time, acquired acquisition) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mine = true
	if l.renewed = renewed; l.term == 0 || l.acquired != acquired {
		l.acquired = acquired
		l.term++
	}
}

func (l *Lock) isMine() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mine
}

func (l *Lock) drop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.renewed = time.Time{}
}

// A hold is the permission to write until a time, in a term.
type hold struct {
	until time.Time
	term  uint64
}

// held returns the hold of this process, and whether it may start writes: the rest of the lease
// must be long enough for them to arrive.
func (l *Lock) held() (h hold, leads bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.holds()
}

// begin starts a write if this process leads, in the term of the context.
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

// holds requires the lock.
func (l *Lock) holds() (h hold, leads bool) {
	if l.renewed.IsZero() {
		return hold{term: l.term}, false
	}
	return hold{l.renewed.Add(leaseDuration), l.term}, before(time.Now(), l.renewed.Add(renewDeadline))
}

// Leads reports whether this process may write. It is true for a nil Lock: without an election.
func (l *Lock) Leads() bool {
	if l == nil {
		return true
	}
	_, leads := l.held()
	return leads
}

const pollPeriod = 100 * time.Millisecond

// While delays reconciliations until this process leads. A reconciliation of an earlier term cannot
// write, because another leader may have changed the cluster since. A nil Lock delays nothing.
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
			case <-time.After(pollPeriod):
			}
		}
	})
}

type termKey struct{}

// Fence wraps a transport. Writes fail unless this process leads, and are cancelled when its lease
// expires. Reads pass.
func (l *Lock) Fence(inner http.RoundTripper) http.RoundTripper { return &fence{l, inner} }

type fence struct {
	lock  *Lock
	inner http.RoundTripper
}

func (f *fence) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return f.inner.RoundTrip(r)
	}
	h, allowed := f.lock.begin(r.Context())
	if !allowed {
		if r.Body != nil {
			_ = r.Body.Close() // required of a RoundTripper
		}
		return nil, fmt.Errorf("cannot %s %s: %w", r.Method, r.URL.Path, errNotLeader)
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

// before compares times by both clocks: the monotonic clock stops while the host sleeps, and the
// wall clock may be set back.
func before(one, other time.Time) bool {
	return one.Before(other) && one.Round(0).Before(other.Round(0))
}

// A body cancels the deadline of its request when it is closed.
type body struct {
	io.ReadCloser

	cancel context.CancelFunc
}

func (b *body) Close() error {
	b.cancel()
	return b.ReadCloser.Close()
}

// A Campaign tries to acquire the lease, and again after it was lost. Controllers keep running in
// between: Fence and While keep them from writing.
type Campaign struct {
	elected, ended chan struct{}
	stop           context.CancelFunc
}

// Campaign starts a campaign, which lasts until End.
func (l *Lock) Campaign(ctx context.Context) (*Campaign, error) {
	c := &Campaign{elected: make(chan struct{}), ended: make(chan struct{})}
	log := logr.FromContextOrDiscard(ctx).WithName("leadership")
	first := sync.OnceFunc(func() { close(c.elected) })
	// End ends it, after writes in progress, and not the end of the process.
	ctx, c.stop = context.WithCancel(context.WithoutCancel(ctx))
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: l, Name: l.Describe(), ReleaseOnCancel: true,
		LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) {
				log.Info("Acquired the lease; the controllers of this replica write", "lease", l.Describe())
				first()
			},
			OnStoppedLeading: func() {
				if ctx.Err() == nil {
					log.Info("Lost the lease; nothing is written until it is acquired again", "lease", l.Describe())
				} else {
					log.Info("Released the lease", "lease", l.Describe())
				}
			},
		},
	})
	if err != nil {
		c.stop()
		return nil, fmt.Errorf("cannot acquire the lease %s: %w", l.Describe(), err)
	}
	go func() {
		defer close(c.ended)
		for ctx.Err() == nil {
			elector.Run(ctx)
		}
	}()
	return c, nil
}

// Elected returns a channel that is closed when this process leads for the first time.
func (c *Campaign) Elected() <-chan struct{} { return c.elected }

// End releases the lease, if it is held, after writes in progress. No write starts afterwards, even
// if controllers still run.
func (c *Campaign) End() {
	c.stop()
	<-c.ended
}

// ManyObjects returns the options of a controller of thousands of objects: 16 workers, and retries
// of each object after 20 ms to one minute.
func ManyObjects() controller.Options {
	return controller.Options{
		MaxConcurrentReconciles: 16,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](20*time.Millisecond, time.Minute),
	}
}
