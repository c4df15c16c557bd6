package replicastatus

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

const (
	// observePeriod is the time between two looks at the Leases.
	observePeriod = time.Second
	// renewalTimeout is the time within which a replica renews its Lease unless something is wrong.
	renewalTimeout = renewPeriod + callTimeout
	// expiredLongAgo is the age of a renewTime that no renewal that is merely late has.
	expiredLongAgo = 4 * leaseDuration
)

// Replicas observes which replicas are live. Start must run on every replica, so that a new
// leader knows since when each Lease has not changed. A nil Replicas is for a single process.
//
// A replica is live until its Lease has not changed for leaseDuration by the observer's clock.
// The clocks of replicas may be wrong, so renewTime alone proves nothing. There is one shortcut:
// a Lease that the first look found already counts as expired after renewalTimeout without a
// change if its renewTime is also older than expiredLongAgo. Without it, the first preset after
// a restart waits for replicas that ended long ago. A live replica is misjudged only if its
// clock is slow by more than a minute and it misses a renewal while the observer starts.
type Replicas struct {
	// Reader reads Leases, from a cache.
	Reader client.Reader
	// Live reads from API servers, since a cache may lag, and deletes Leases.
	Live client.Client
	// Namespace of the replicas.
	Namespace string
	// Now is the clock; nil means time.Now.
	Now func() time.Time

	mu   sync.Mutex
	seen map[types.UID]observation // nil before the first look
}

// An observation is what is known of one Lease.
type observation struct {
	version string
	changed time.Time // when the Lease was last seen to change
	old     bool      // found by the first look, and unchanged since
	phase   Phase
	since   time.Time // when the phase was first seen
}

// NeedLeaderElection returns false: every replica observes.
func (*Replicas) NeedLeaderElection() bool { return false }

// Start observes Leases until the context ends. It deletes those that expired, unless a Pod owns
// the Lease: then the garbage collector does. A replica that goes on creates its Lease again.
func (r *Replicas) Start(ctx context.Context) error {
	log := logr.FromContextOrDiscard(ctx).WithName("replica-status")
	for {
		leases, err := r.list(ctx, r.Reader)
		if err == nil {
			err = r.remove(ctx, r.abandoned(leases))
		}
		if err != nil && ctx.Err() == nil {
			log.Error(err, "Cannot observe the Leases of replicas; trying again")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(observePeriod):
		}
	}
}

// Without returns the names of live replicas that do not serve with these presets, sorted.
func (r *Replicas) Without(ctx context.Context, presets string) ([]string, error) {
	if r == nil {
		return nil, nil
	}
	leases, err := r.list(ctx, r.Reader)
	if err != nil {
		return nil, err
	}
	out, expired := r.without(leases, presets)
	if len(out) > 0 || expired == 0 {
		return out, nil
	}
	if leases, err = r.list(ctx, r.Live); err != nil {
		return nil, err
	}
	out, _ = r.without(leases, presets)
	return out, nil
}

// Others returns the phases of all live replicas but the named one, as the cache has them.
func (r *Replicas) Others(ctx context.Context, name string) ([]Other, error) {
	leases, err := r.list(ctx, r.Reader)
	if err != nil {
		return nil, err
	}
	return r.others(leases, name), nil
}

func (r *Replicas) list(ctx context.Context, from client.Reader) ([]coordinationv1.Lease, error) {
	var leases coordinationv1.LeaseList
	if err := from.List(ctx, &leases, client.InNamespace(r.Namespace), client.HasLabels{Label}); err != nil {
		return nil, fmt.Errorf("cannot list the Leases of replicas: %w", err)
	}
	return leases.Items, nil
}

// without returns the live replicas that differ, and how many expired ones differ.
func (r *Replicas) without(leases []coordinationv1.Lease, presets string) (out []string, expired int) {
	now, seen := r.observe(leases)
	for i := range leases {
		lease := &leases[i]
		switch {
		case lease.Annotations[v1alpha1.AnnotationServing] == presets || lease.Spec.HolderIdentity == nil:
		case seen[lease.UID].live(lease, now):
			out = append(out, *lease.Spec.HolderIdentity)
		default:
			expired++
		}
	}
	slices.Sort(out)
	return out, expired
}

func (r *Replicas) others(leases []coordinationv1.Lease, name string) (out []Other) {
	now, seen := r.observe(leases)
	for i := range leases {
		lease := &leases[i]
		if o := seen[lease.UID]; lease.Name != leaseName(name) && o.live(lease, now) {
			out = append(out, Other{Phase: o.phase, Since: now.Sub(o.since), Renewed: !o.old})
		}
	}
	return out
}

// abandoned returns the expired Leases that nothing else removes.
func (r *Replicas) abandoned(leases []coordinationv1.Lease) (out []*coordinationv1.Lease) {
	now, seen := r.observe(leases)
	for i := range leases {
		lease := &leases[i]
		if len(lease.OwnerReferences) == 0 && !seen[lease.UID].live(lease, now) {
			out = append(out, lease)
		}
	}
	return out
}

// remove deletes Leases, except those that were renewed meanwhile.
func (r *Replicas) remove(ctx context.Context, leases []*coordinationv1.Lease) error {
	for _, lease := range leases {
		err := r.Live.Delete(ctx, lease, client.Preconditions{UID: &lease.UID, ResourceVersion: &lease.ResourceVersion})
		if ignoreGone(err) != nil {
			return fmt.Errorf("cannot delete the expired Lease %s/%s: %w", lease.Namespace, lease.Name, err)
		}
	}
	return nil
}

// observe compares Leases with what was seen before, and returns what is known now.
func (r *Replicas) observe(leases []coordinationv1.Lease) (time.Time, map[types.UID]observation) {
	now := time.Now()
	if r.Now != nil {
		now = r.Now()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	first, seen := r.seen == nil, map[types.UID]observation{}
	for i := range leases {
		lease := &leases[i]
		o, known := r.seen[lease.UID]
		if !known || o.version != lease.ResourceVersion {
			o.version, o.changed, o.old = lease.ResourceVersion, now, first
		}
		if phase := phaseOf(lease); !known || o.phase != phase {
			o.phase, o.since = phase, now
		}
		seen[lease.UID] = o
	}
	r.seen = seen
	return now, seen
}

// live reports whether the replica of a Lease may still serve.
func (o observation) live(lease *coordinationv1.Lease, now time.Time) bool {
	unchanged := now.Sub(o.changed)
	if o.old && unchanged >= renewalTimeout && lease.Spec.RenewTime != nil && now.Sub(lease.Spec.RenewTime.Time) >= expiredLongAgo {
		return false
	}
	return unchanged < leaseDuration
}
