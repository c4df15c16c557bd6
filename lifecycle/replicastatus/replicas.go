package replicastatus

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

// A Replicas knows the replicas that are live. The zero Replicas with a Reader is ready
// to use. A nil Replicas is one of no replicas but this one.
type Replicas struct {
	// Reader reads Leases, from a cache.
	Reader client.Reader
	// Live reads from API servers: a cache may be behind, and nobody is dead for that.
	Live client.Reader
	// Namespace of the replicas.
	Namespace string
	// Now is the clock; nil means time.Now.
	Now func() time.Time

	mu   sync.Mutex
	seen map[types.UID]sight
}

// A sight is a Lease as it was seen first: clocks of replicas may be wrong, so a
// Lease expires when it has not changed for its duration by the clock of who looks.
type sight struct {
	version string
	at      time.Time
}

// Without are the replicas that are live and do not serve with these presets, sorted.
func (r *Replicas) Without(ctx context.Context, presets string) ([]string, error) {
	if r == nil {
		return nil, nil
	}
	var leases coordinationv1.LeaseList
	if err := r.Reader.List(ctx, &leases, client.InNamespace(r.Namespace), client.HasLabels{Label}); err != nil {
		return nil, fmt.Errorf("cannot list the Leases of replicas: %w", err)
	}
	out, dead := r.without(leases.Items, presets)
	if len(out) > 0 || dead == 0 {
		return out, nil
	}
	if err := r.Live.List(ctx, &leases, client.InNamespace(r.Namespace), client.HasLabels{Label}); err != nil {
		return nil, fmt.Errorf("cannot list the Leases of replicas: %w", err)
	}
	out, _ = r.without(leases.Items, presets)
	return out, nil
}

// without are such replicas, and how many of those that differ are dead.
func (r *Replicas) without(leases []coordinationv1.Lease, presets string) (out []string, dead int) {
	now := time.Now
	if r.Now != nil {
		now = r.Now
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := map[types.UID]sight{}
	for i := range leases {
		lease := &leases[i]
		s, known := r.seen[lease.UID]
		if !known || s.version != lease.ResourceVersion {
			s = sight{lease.ResourceVersion, now()}
		}
		seen[lease.UID] = s
		switch {
		case lease.Annotations[v1alpha1.AnnotationServing] == presets || lease.Spec.HolderIdentity == nil:
		case now().Sub(s.at) < leaseDuration:
			out = append(out, *lease.Spec.HolderIdentity)
		default:
			dead++
		}
	}
	r.seen = seen
	slices.Sort(out)
	return out, dead
}
