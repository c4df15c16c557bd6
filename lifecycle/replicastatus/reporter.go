// Package replicastatus lets serving replicas report which presets they use, and whether they
// start, serve or drain. The leader waits until all replicas use a preset, and a draining replica
// waits for a successor.
//
// Each replica has a Lease, like API servers do, with annotations for its phase and a hash of the
// generations of its presets. A replica is live while it renews the Lease.
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
	leaseDuration = 15 * time.Second      // how long a replica counts as live without a renewal
	renewPeriod   = 5 * time.Second       // the time between two renewals while nothing changes
	comparePeriod = 50 * time.Millisecond // the time between two comparisons of the state with the reported one
	checkPeriod   = 500 * time.Millisecond
	retryPeriod   = time.Second
	callTimeout   = 2 * time.Second // limits a report that a request waits for
	fieldOwner    = "virtwright-replica"
)

// A Phase says whether requests may be sent to a replica.
type Phase string

const (
	// Starting replicas are not ready.
	Starting Phase = "Starting"
	// Serving replicas are ready.
	Serving Phase = "Serving"
	// Draining replicas serve until they have a successor.
	Draining Phase = "Draining"
)

// phaseOf returns the phase on a Lease. Earlier versions report no phase, and only while they
// serve.
func phaseOf(lease *coordinationv1.Lease) Phase {
	return cmp.Or(Phase(lease.Annotations[v1alpha1.AnnotationReplicaPhase]), Serving)
}

// A Reporter reports the state of this replica while Start runs.
type Reporter struct {
	Client          client.Client
	Namespace, Name string        // of the replica
	PodUID          types.UID     // the UID of its Pod, which owns the Lease; empty without a Pod
	Presets         func() string // returns a hash of the presets in use; empty before they are loaded
	Draining        func() bool   // whether the replica was asked to stop
	Check           func() error  // returns nil while the replica is ready

	mu       sync.Mutex
	reported time.Time // the time of the last report; zero before the first
	lost     error     // why a report failed during a request
}

// Ready returns nil once the replica has reported, because the leader waits for it from then on. It
// returns an error if the replica receives requests but cannot reach API servers.
func (r *Reporter) Ready() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reported.IsZero() {
		return errors.New("the replica has not reported to the leader yet")
	}
	return r.lost
}

// Handler rejects requests once the replica does not count as live: it may have missed presets that
// became Ready. It tries to report first, because a replica that receives requests can probably
// reach an API server.
func (r *Reporter) Handler(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if err := r.catchUp(request.Context()); err != nil {
			w.Header().Set("Connection", "close") // the client then connects to another replica
			http.Error(w, "this replica of virtwright cannot reach an API server, and may have missed presets; try again", http.StatusServiceUnavailable)
			return
		}
		h.ServeHTTP(w, request)
	})
}

// catchUp reports if a report is overdue.
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

type state struct {
	presets string
	phase   Phase
}

// state returns the current state. A replica with the recent phase Serving is not checked again.
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
	for wait := comparePeriod; ; {
		select {
		case <-ctx.Done():
			return r.leave(context.WithoutCancel(ctx))
		case <-time.After(wait):
		}
		wait = comparePeriod
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

func (r *Reporter) report(ctx context.Context, is state) error {
	start := time.Now()
	lease := applycoordinationv1.Lease(leaseName(r.Name), r.Namespace).
		WithLabels(map[string]string{Label: ""}).
		WithAnnotations(map[string]string{v1alpha1.AnnotationServedPresets: is.presets, v1alpha1.AnnotationReplicaPhase: string(is.phase)}).
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
	r.reported, r.lost = start, nil
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

func leaseName(replica string) string { return "virtwright-replica-" + replica }
