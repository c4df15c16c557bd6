// Package replicastatus lets replicas that serve tell which presets they serve with,
// and a leader ask whether all of them do so with the presets that it knows.
//
// Each replica has a Lease of its own, as API servers have, with a hash of the
// generations of its presets in an annotation. It is live as long as it renews the Lease.
package replicastatus

import (
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
	// leaseDuration is how long a replica that tells nothing is taken for live.
	leaseDuration = 15 * time.Second
	// renewPeriod is how often a Lease is renewed while nothing changes.
	renewPeriod = 5 * time.Second
	// lookPeriod is how often it is looked whether something has changed.
	lookPeriod = 50 * time.Millisecond
	// retryPeriod is between two attempts to tell.
	retryPeriod = time.Second
	// callTimeout bounds an attempt for which a request waits.
	callTimeout = 2 * time.Second
	// fieldOwner is who writes Leases.
	fieldOwner = "virtwright-replica"
)

// A Reporter tells what it serves with. Run Start beside what serves.
type Reporter struct {
	// Client writes to API servers.
	Client client.Client
	// Namespace and Name are those of the replica, the name without a prefix.
	Namespace, Name string
	// PodUID is of the pod of that name, with which its Lease goes; empty for none.
	PodUID types.UID
	// Presets identifies the presets that are served with; empty where none are
	// loaded yet.
	Presets func() string

	mu   sync.Mutex
	told time.Time // when it told last; zero for never
	lost error     // why it cannot tell, though API servers call it
}

// NeedLeaderElection says that every replica tells.
func (*Reporter) NeedLeaderElection() bool { return false }

// Ready is nil once the replica has told what it serves with, from when on the
// leader counts on it, unless API servers can reach it and it cannot reach them.
func (r *Reporter) Ready() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.told.IsZero() {
		return errors.New("it has not told the leader yet that it serves")
	}
	return r.lost
}

// Handler has h answer only as long as nobody takes the replica for dead: who has
// not told for so long may have missed presets that are Ready meanwhile. It tries
// to tell before it refuses, since whoever is called could reach an API server.
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

// catchUp tells where that is overdue.
func (r *Reporter) catchUp(ctx context.Context) error {
	r.mu.Lock()
	overdue := !r.told.IsZero() && time.Since(r.told) >= leaseDuration
	r.mu.Unlock()
	if !overdue {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err := r.tell(ctx, r.Presets())
	if err != nil {
		r.mu.Lock()
		r.lost = err
		r.mu.Unlock()
	}
	return err
}

// Start tells until the context ends, and then takes the Lease back.
func (r *Reporter) Start(ctx context.Context) error {
	log := logr.FromContextOrDiscard(ctx).WithName("replica-status")
	was, failed := "", false
	for wait := lookPeriod; ; {
		select {
		case <-ctx.Done():
			return r.leave(context.WithoutCancel(ctx))
		case <-time.After(wait):
		}
		wait = lookPeriod
		is := r.Presets()
		if is == "" || is == was && !r.due() {
			continue
		}
		if err := r.tell(ctx, is); err != nil && ctx.Err() == nil {
			if wait = retryPeriod; !failed {
				log.Error(err, "Cannot tell the leader which presets are served with; trying again")
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
	return time.Since(r.told) >= renewPeriod
}

// tell writes the Lease.
func (r *Reporter) tell(ctx context.Context, presets string) error {
	began := time.Now()
	lease := applycoordinationv1.Lease(leaseName(r.Name), r.Namespace).
		WithLabels(map[string]string{Label: ""}).
		WithAnnotations(map[string]string{v1alpha1.AnnotationServing: presets}).
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
	r.told, r.lost = began, nil
	return nil
}

// leave deletes the Lease, so that nobody waits for who is gone.
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
