// Package rollcall lets replicas that serve tell which presets they serve with,
// and a leader ask whether all of them do so with the presets that it knows.
//
// Each replica has a Lease of its own, as API servers have, with the hash of its
// snapshot in an annotation. It is live as long as it renews the Lease.
package rollcall

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
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
	// fieldOwner is who writes Leases.
	fieldOwner = "virtwright-replica"
)

// A Replica tells what it serves with. Run Start beside what serves.
type Replica struct {
	// Client writes to API servers.
	Client client.Client
	// Namespace and Name are those of the replica, the name without a prefix.
	Namespace, Name string
	// PodUID is of the pod of that name, with which its Lease goes; empty for none.
	PodUID types.UID
	// Snapshot is the hash of the presets that are served with; empty where none
	// are loaded yet.
	Snapshot func() string

	told atomic.Bool
}

// NeedLeaderElection says that every replica tells.
func (*Replica) NeedLeaderElection() bool { return false }

// Ready is nil once the replica has told what it serves with for the first time:
// from then on the leader counts on it.
func (r *Replica) Ready() error {
	if !r.told.Load() {
		return errors.New("it has not told the leader yet that it serves")
	}
	return nil
}

// Start tells until the context ends, and then takes the Lease back.
func (r *Replica) Start(ctx context.Context) error {
	log := logr.FromContextOrDiscard(ctx).WithName("rollcall")
	was, renewed, failed := "", time.Time{}, false
	for wait := lookPeriod; ; {
		select {
		case <-ctx.Done():
			return r.leave(context.WithoutCancel(ctx))
		case <-time.After(wait):
		}
		wait = lookPeriod
		is := r.Snapshot()
		if is == "" || is == was && time.Since(renewed) < renewPeriod {
			continue
		}
		began := time.Now()
		if err := r.tell(ctx, is); err != nil && ctx.Err() == nil {
			if wait = retryPeriod; !failed {
				log.Error(err, "Cannot tell the leader which presets are served with; trying again")
			}
			failed = true
			continue
		}
		was, renewed, failed = is, began, false
		r.told.Store(true)
	}
}

// tell writes the Lease.
func (r *Replica) tell(ctx context.Context, snapshot string) error {
	lease := applycoordinationv1.Lease(leaseName(r.Name), r.Namespace).
		WithLabels(map[string]string{Label: ""}).
		WithAnnotations(map[string]string{v1alpha1.AnnotationSnapshot: snapshot}).
		WithSpec(applycoordinationv1.LeaseSpec().
			WithHolderIdentity(r.Name).
			WithLeaseDurationSeconds(int32(leaseDuration / time.Second)).
			WithRenewTime(metav1.NowMicro()))
	if r.PodUID != "" {
		lease.WithOwnerReferences(applymetav1.OwnerReference().WithAPIVersion("v1").WithKind("Pod").WithName(r.Name).WithUID(r.PodUID))
	}
	ctx, cancel := context.WithTimeout(ctx, renewPeriod)
	defer cancel()
	if err := r.Client.Apply(ctx, lease, client.FieldOwner(fieldOwner)); err != nil {
		return fmt.Errorf("cannot write Lease %s/%s: %w", r.Namespace, leaseName(r.Name), err)
	}
	return nil
}

// leave deletes the Lease, so that nobody waits for who is gone.
func (r *Replica) leave(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, retryPeriod)
	defer cancel()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: leaseName(r.Name)}}
	if err := client.IgnoreNotFound(r.Client.Delete(ctx, lease)); err != nil {
		logr.FromContextOrDiscard(ctx).Info("Cannot delete a Lease, which will expire", "lease", lease.Name, "reason", err.Error())
	}
	return nil
}

func leaseName(replica string) string { return "virtwright-replica-" + replica }
