// Package profilecache keeps the profiles of a cluster compiled: informers tell
// what changed, and a new set takes the place of the old one in a single step.
//
// Profiles are few, so all of them are compiled at each change. One that cannot
// be right, which admission would have refused, is missing from the set and
// hurts no other.
package profilecache

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/go-logr/logr"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/domain"
)

// A Cache keeps a set of all profiles. Run Start; the other methods may be
// called at any time.
type Cache struct {
	// Informers watch profiles.
	Informers cache.Informers
	// Metrics may be nil.
	Metrics *Metrics

	profiles atomic.Pointer[domain.Profiles]

	mu sync.Mutex
	// loaded says that every profile that the cluster had at start is known.
	loaded   bool
	log      logr.Logger
	frontend map[string]*v1alpha1.FrontendProfile
	backend  map[string]*v1alpha1.BackendProfile
}

// Snapshot returns the newest set of profiles; nil before the first is there.
func (c *Cache) Snapshot() *domain.Profiles { return c.profiles.Load() }

// Ready is nil once every profile that the cluster had at start is in the set.
func (c *Cache) Ready() error {
	if c.Snapshot() == nil {
		return errors.New("profiles are not loaded yet")
	}
	return nil
}

// NeedLeaderElection says that every replica has its own Cache.
func (*Cache) NeedLeaderElection() bool { return false }

// Kinds are the kinds that the Cache watches, each with an empty object.
func (*Cache) Kinds() map[string]client.Object {
	return map[string]client.Object{
		v1alpha1.KindFrontendProfile: &v1alpha1.FrontendProfile{},
		v1alpha1.KindBackendProfile:  &v1alpha1.BackendProfile{},
	}
}

// Start keeps the set up to date until the context ends.
func (c *Cache) Start(ctx context.Context) error {
	var synced []toolscache.InformerSynced
	for kind, object := range c.Kinds() {
		informer, err := c.Informers.GetInformer(ctx, object)
		if err != nil {
			return fmt.Errorf("cannot watch %s: %w", kind, err)
		}
		registered, err := informer.AddEventHandler(c.handler())
		if err != nil {
			return fmt.Errorf("cannot watch %s: %w", kind, err)
		}
		synced = append(synced, registered.HasSynced)
	}
	if toolscache.WaitForCacheSync(ctx.Done(), synced...) {
		c.load(ctx)
		<-ctx.Done()
	}
	return nil
}

// load compiles what the cluster had at start. From here on each change is
// compiled as it comes.
func (c *Cache) load(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.loaded, c.log = true, ctrl.LoggerFrom(ctx).WithName("profiles")
	c.compile()
	c.log.Info("Loaded profiles", "frontend", len(c.frontend), "backend", len(c.backend))
}

func (c *Cache) handler() toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { c.note(o, false) },
		UpdateFunc: func(_, o any) { c.note(o, false) },
		DeleteFunc: func(o any) { c.note(o, true) },
	}
}

// note takes up a change.
func (c *Cache) note(changed any, gone bool) {
	if missed, ok := changed.(toolscache.DeletedFinalStateUnknown); ok {
		changed = missed.Obj
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	news := false
	switch p := changed.(type) {
	case *v1alpha1.FrontendProfile:
		news = put(&c.frontend, p, gone)
	case *v1alpha1.BackendProfile:
		news = put(&c.backend, p, gone)
	}
	if news && c.loaded {
		c.compile()
	}
}

// put takes an object up by its name, and reports whether its spec may be
// another one than before.
func put[P client.Object](known *map[string]P, object P, gone bool) bool {
	was, there := (*known)[object.GetName()]
	switch {
	case gone:
		delete(*known, object.GetName())
		return there
	case *known == nil:
		*known = map[string]P{}
	}
	(*known)[object.GetName()] = object
	return !there || was.GetUID() != object.GetUID() || was.GetGeneration() != object.GetGeneration()
}

// compile puts a new set into use; the caller holds the lock.
func (c *Cache) compile() {
	frontend, backend := sorted(c.frontend), sorted(c.backend)
	frontends := make([]v1alpha1.FrontendProfile, 0, len(frontend))
	for _, p := range frontend {
		frontends = append(frontends, *p)
	}
	backends := make([]v1alpha1.BackendProfile, 0, len(backend))
	for _, p := range backend {
		backends = append(backends, *p)
	}
	profiles, problems := domain.CompileProfiles(frontends, backends)
	c.profiles.Store(profiles)
	c.Metrics.count(frontends, backends)
	for _, p := range problems {
		c.log.Info("A profile is invalid and not in use", "problem", p.Error())
	}
}

// sorted are the values of a map in the order of its keys.
func sorted[P any](in map[string]P) []P {
	out := make([]P, 0, len(in))
	for _, name := range slices.Sorted(maps.Keys(in)) {
		out = append(out, in[name])
	}
	return out
}
