// Package replicastatus lets each serving replica report its state: which presets it serves
// with, and whether it starts, serves or drains. A leader learns from it whether all replicas
// serve with the presets that it knows, and a draining replica whether it has a successor.
//
// Each replica has a Lease of its own, as API servers have. Annotations have the replica's phase
// and a hash of the generations of its presets. A replica is live while it renews the Lease.
package replicastatus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	applycoordinationv1 "k8s.io/client-go/applyconfigurations/coordination/v1"
	applymetav1 "k8s.io/client-go/applyconfigurations/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

// Label is on the Leases of replicas.
const Label = "virtwright.dev/replica"

const (
	// leaseDuration is how long a replica that renews nothing counts as live.
	leaseDuration = 15 * time.Second
	// renewPeriod is how often a Lease is renewed while nothing changes.
	renewPeriod = 5 * time.Second
	// lookPeriod is how often the state is compared with the reported one.
	lookPeriod = 50 * time.Millisecond
	// checkPeriod is how often a replica that is not ready is checked.
	checkPeriod = 500 * time.Millisecond
	// retryPeriod is between two attempts to report.
	retryPeriod = time.Second
	// callTimeout bounds an attempt for which a request waits.
	callTimeout = 2 * time.Second
	// fieldOwner is the manager of the fields of Leases.
	fieldOwner = "virtwright-replica"
)

// A Phase says whether requests may go to a replica.
type Phase string

// Phases.
const (
	// Starting is for a replica that is not ready.
	Starting Phase = "Starting"
	// Serving is for a replica that is ready.
	Serving Phase = "Serving"
	// Draining is for a replica that serves and was asked to stop.
	Draining Phase = "Draining"
)

// phaseOf returns the phase on a Lease. Versions that report none only report while they serve.
func phaseOf(lease *coordinationv1.Lease) Phase {
	return cmp.Or(Phase(lease.Annotations[v1alpha1.AnnotationReplicaPhase]), Serving)
}

// A Reporter reports the state of this replica. Run Start beside the servers.
type Reporter struct {
	// Client writes to API servers.
	Client client.Client
	// Namespace and Name are those of the replica, the name without a prefix.
	Namespace, Name string
	// PodUID is that of the Pod of this name, which owns the Lease; empty without a Pod.
	PodUID types.UID
	// Presets identifies the presets that are served with; empty while none are loaded.
	Presets func() string
	// Draining reports whether the replica was asked to stop.
	Draining func() bool
	// Check returns nil while the replica is ready.
	Check func() error

	mu       sync.Mutex
	reported time.Time // the last report; zero before the first
	lost     error     // why it cannot report, although API servers reach it
}

// NeedLeaderElection returns false: every replica reports.
func (*Reporter) NeedLeaderElection() bool { return false }

// Ready returns nil once the replica has reported, from when on the leader waits for it. It
// returns an error if API servers can reach the replica and it cannot reach them.
func (r *Reporter) Ready() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reported.IsZero() {
		return errors.New("the replica has not reported to the leader yet")
	}
	return r.lost
}

// Handler lets h answer only while the replica counts as live: without a report for so long,
// it may have missed presets that are Ready meanwhile. It tries to report before it refuses,
// since a replica that is called can probably reach an API server.
func (r *Reporter) Handler(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if err := r.catchUp(request.Context()); err != nil {
			w.Header().Set("Connection", "close") // to be sent to another replica
			http.Error(w, "this replica of virtwright cannot reach an API server, and may have missed presets; try again", http.StatusServiceUnavailable)
			return
		}
		h.ServeHTTP(w, request)
	})
}

// catchUp reports if that is overdue.
func (r *Reporter) catchUp(ctx context.Context) error {
	r.mu.Lock()
	overdue := !r.reported.IsZero() && time.Since(r.reported) >= leaseDuration
	r.mu.Unlock()
	if !overdue {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err := r.report(ctx, r.state(Serving))
	if err != nil {
		r.mu.Lock()
		r.lost = err
		r.mu.Unlock()
	}
	return err
}

// A state is what a replica reports.
type state struct {
	presets string
	phase   Phase
}

// state returns the state now. The caller says which phase was found recently: a replica that
// serves need not be checked again.
func (r *Reporter) state(recent Phase) state {
	is := state{r.Presets(), Starting}
	switch {
	case r.Draining():
		is.phase = Draining
	case recent == Serving || r.Check() == nil:
		is.phase = Serving
	}
	return is
}

// Start reports until the context ends, and then deletes the Lease.
func (r *Reporter) Start(ctx context.Context) error {
	log := logr.FromContextOrDiscard(ctx).WithName("replica-status")
	var was state
	failed := false
	for wait := lookPeriod; ; {
		select {
		case <-ctx.Done():
			return r.leave(context.WithoutCancel(ctx))
		case <-time.After(wait):
		}
		wait = lookPeriod
		due, recent := r.due(), was.phase
		if due {
			recent = ""
		}
		is := r.state(recent)
		if is.phase == Starting && was.phase == Starting {
			wait = checkPeriod
		}
		if is.presets == "" || is == was && !due {
			continue
		}
		if err := r.report(ctx, is); err != nil && ctx.Err() == nil {
			if wait = retryPeriod; !failed {
				log.Error(err, "Cannot report the state of this replica; trying again")
			}
			failed = true
			continue
		}
		was, failed = is, false
	}
}

func (r *Reporter) due() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Since(r.reported) >= renewPeriod
}

// report writes the Lease.
func (r *Reporter) report(ctx context.Context, is state) error {
	began := time.Now()
	lease := applycoordinationv1.Lease(leaseName(r.Name), r.Namespace).
		WithLabels(map[string]string{Label: ""}).
		WithAnnotations(map[string]string{v1alpha1.AnnotationServing: is.presets, v1alpha1.AnnotationReplicaPhase: string(is.phase)}).
		WithSpec(applycoordinationv1.LeaseSpec().
			WithHolderIdentity(r.Name).
			WithLeaseDurationSeconds(int32(leaseDuration / time.Second)).
			WithRenewTime(metav1.NowMicro()))
	if r.PodUID != "" {
		lease.WithOwnerReferences(applymetav1.OwnerReference().WithAPIVersion("v1").WithKind("Pod").WithName(r.Name).WithUID(r.PodUID))
	}
	ctx, cancel := context.WithTimeout(ctx, renewPeriod)
	defer cancel()
	if err := r.Client.Apply(ctx, lease, client.FieldOwner(fieldOwner), client.ForceOwnership); err != nil {
		return fmt.Errorf("cannot write Lease %s/%s: %w", r.Namespace, leaseName(r.Name), err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reported, r.lost = began, nil
	return nil
}

// leave deletes the Lease, so that the leader does not wait for this replica.
func (r *Reporter) leave(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, retryPeriod)
	defer cancel()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: leaseName(r.Name)}}
	if err := client.IgnoreNotFound(r.Client.Delete(ctx, lease)); err != nil {
		logr.FromContextOrDiscard(ctx).Info("Cannot delete a Lease, which will expire", "lease", lease.Name, "reason", err.Error())
	}
	return nil
}

// ignoreGone returns nil for an object that is gone, or is no longer as it was.
func ignoreGone(err error) error {
	if apierrors.IsConflict(err) {
		return nil
	}
	return client.IgnoreNotFound(err)
}

func leaseName(replica string) string { return "virtwright-replica-" + replica }
