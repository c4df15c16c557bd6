package replicastatus

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

const (
	observePeriod  = time.Second
	renewalTimeout = renewPeriod + callTimeout // the time within which a working replica renews its Lease
	expiredLongAgo = 4 * leaseDuration         // the age of a renewTime that a late renewal does not explain
)

// Replicas observes which replicas are live. Start must run on every replica, so that a new leader
// knows how long each Lease has been unchanged. A nil Replicas is for a single process.
//
// A replica is live until its Lease has not changed for leaseDuration by the observer's clock. The
// clocks of replicas may be wrong, so renewTime alone proves nothing. There is one exception: a
// Lease that the first observation found expires after renewalTimeout without a change, if its
// renewTime is also older than expiredLongAgo. Otherwise the first preset after a restart would
// wait for replicas that ended long ago. The exception is wrong only for a replica with a clock
// that is slow by a minute and that misses a renewal while the observer starts.
type Replicas struct {
	Reader    client.Reader // reads Leases, from a cache
	Live      client.Client // reads from the API server, because a cache may lag, and deletes Leases
	Namespace string        // of the replicas
	Clock     clock.PassiveClock

	mu   sync.Mutex
	seen map[types.UID]observation // nil before the first observation
}

type observation struct {
	version string
	changed time.Time // when the last change of the Lease was observed
	old     bool      // found by the first observation, and unchanged since
	phase   Phase
	since   time.Time // when the phase was first observed
}

// Start observes Leases until the context ends. It deletes expired Leases, except those of Pods,
// which the garbage collector deletes. A replica that is live after all creates its Lease again.
func (r *Replicas) Start(ctx context.Context) error {
	log := logr.FromContextOrDiscard(ctx).WithName("replica-status")
	failing := false
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		leases, err := r.list(ctx, r.Reader)
		if err == nil {
			err = r.remove(ctx, r.abandoned(leases))
		}
		if err != nil && ctx.Err() == nil && !failing {
			log.Error(err, "Cannot observe the Leases of replicas; trying again until it works")
		}
		failing = err != nil
	}, observePeriod)
	return nil
}

// Without returns the sorted names of live replicas that do not use these presets.
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

// Others returns the other live replicas, from the cache.
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

// without returns the live replicas without these presets, and counts the expired ones.
func (r *Replicas) without(leases []coordinationv1.Lease, presets string) (out []string, expired int) {
	now, seen := r.observe(leases)
	for i := range leases {
		lease := &leases[i]
		switch {
		case lease.Annotations[v1alpha1.AnnotationServedPresets] == presets || lease.Spec.HolderIdentity == nil:
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

// remove deletes Leases, except those that were renewed since they were read.
func (r *Replicas) remove(ctx context.Context, leases []*coordinationv1.Lease) error {
	for _, lease := range leases {
		err := r.Live.Delete(ctx, lease, client.Preconditions{UID: &lease.UID, ResourceVersion: &lease.ResourceVersion})
		if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
			return fmt.Errorf("cannot delete the expired Lease %s/%s: %w", lease.Namespace, lease.Name, err)
		}
	}
	return nil
}

// observe compares Leases with the last observation, and returns the new one.
func (r *Replicas) observe(leases []coordinationv1.Lease) (time.Time, map[types.UID]observation) {
	now := r.Clock.Now()
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

// settlePeriod is the time that kubelets, endpoint controllers and proxies may need to route
// requests to a replica that has become ready.
const settlePeriod = 5 * time.Second

// An Other is another replica that is live.
type Other struct {
	Phase   Phase
	Since   time.Duration // how long the replica has been in this phase, as far as that was observed
	Renewed bool          // the replica has renewed its Lease since it was first observed
}

// A Deployment is the state of the Deployment of a replica.
type Deployment int

const (
	// DeploymentUnknown could not be read.
	DeploymentUnknown Deployment = iota
	// DeploymentWanted starts a successor.
	DeploymentWanted
	// DeploymentUnwanted is deleted or scaled to 0.
	DeploymentUnwanted
)

// A Drain holds the facts about a replica that was asked to stop.
type Drain struct {
	Elapsed        time.Duration // the time since then
	Delay, Timeout time.Duration // the minimum and the maximum time to serve since then
	Deployment     Deployment
	Others         []Other // the other live replicas
}

// Reasons to stop.
const (
	stopSucceeded = "another replica serves"
	stopUnwanted  = "the Deployment is deleted or scaled to 0"
	stopTimedOut  = "timed out waiting for another replica that serves"
)

// Decide returns why the replica may stop now, or "" while it must serve. It may stop when another
// live replica has served for settlePeriod, when its Deployment starts no successor, and after its
// timeout.
func (d Drain) Decide() string {
	switch {
	case d.Elapsed >= d.Timeout:
		return stopTimedOut
	case d.Elapsed < d.Delay:
		return ""
	case d.Deployment == DeploymentUnwanted:
		return stopUnwanted
	}
	for _, o := range d.Others {
		if o.Phase == Serving && o.Renewed && o.Since >= settlePeriod {
			return stopSucceeded
		}
	}
	return ""
}
