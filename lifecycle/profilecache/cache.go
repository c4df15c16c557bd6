// Package profilecache compiles the profiles of a cluster. Informers report changes, and a new set
// replaces the old one atomically.
//
// There are few profiles, so each change compiles all of them. An invalid profile, which admission
// would have rejected, is missing from the set and does not affect the others.
package profilecache

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/util/validation/field"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/domain"
	"github.com/virtwright/virtwright/lifecycle/presetcache"
)

// A Cache has a set of all profiles. Start keeps it up to date; the other methods may be called at
// any time.
type Cache struct {
	Informers cache.Informers

	profiles atomic.Pointer[domain.Profiles]

	mu     sync.Mutex
	loaded bool // set once every profile that existed at start is known
	log    logr.Logger
	known  map[string]client.Object // by kind and name
}

// RegisterMetrics registers the number of profiles by kind and state.
func (c *Cache) RegisterMetrics(registry prometheus.Registerer) {
	for kind := range c.Kinds() {
		for state, valid := range map[string]bool{"ready": true, "invalid": false} {
			registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
				Name:        "virtwright_profiles",
				Help:        "Profiles of both kinds that this process knows, by kind and state: ready (in use) or invalid (not in use; the log says why).",
				ConstLabels: prometheus.Labels{"kind": kind, "state": state},
			}, func() float64 { return c.count(kind, valid) }))
		}
	}
}

func (c *Cache) count(kind string, valid bool) float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for key, object := range c.known {
		var problems field.ErrorList
		switch p := object.(type) {
		case *v1alpha1.FrontendProfile:
			problems = domain.CheckFrontendProfile(p)
		case *v1alpha1.BackendProfile:
			problems = domain.CheckBackendProfile(p)
		}
		if strings.HasPrefix(key, kind+"/") && (len(problems) == 0) == valid {
			n++
		}
	}
	return float64(n)
}

// Snapshot returns the newest set of profiles, or nil before the first one.
func (c *Cache) Snapshot() *domain.Profiles { return c.profiles.Load() }

// Ready returns nil once the set has every profile that existed at start.
func (c *Cache) Ready() error {
	if c.Snapshot() == nil {
		return errors.New("profiles are not loaded yet")
	}
	return nil
}

// Kinds returns the kinds that the Cache watches, each with an empty object.
func (*Cache) Kinds() map[string]client.Object {
	return map[string]client.Object{
		v1alpha1.KindFrontendProfile: &v1alpha1.FrontendProfile{},
		v1alpha1.KindBackendProfile:  &v1alpha1.BackendProfile{},
	}
}

// Start keeps the set up to date until the context ends.
func (c *Cache) Start(ctx context.Context) error {
	synced, err := presetcache.Watch(ctx, c.Informers, c.Kinds(), c.note)
	if synced {
		c.load(ctx)
		<-ctx.Done()
	}
	return err
}

// load compiles the profiles that existed at start. Later changes are compiled by note.
func (c *Cache) load(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.loaded, c.log = true, ctrl.LoggerFrom(ctx).WithName("profiles")
	frontends, backends := c.compile()
	c.log.Info("Loaded profiles", "frontend", frontends, "backend", backends)
}

// note records a change of a profile, and compiles the profiles if a spec may have changed.
func (c *Cache) note(kind string, before, after client.Object) {
	key := kind + "/" + cmp.Or(after, before).GetName()
	c.mu.Lock()
	defer c.mu.Unlock()
	was, known := c.known[key]
	if c.known == nil {
		c.known = map[string]client.Object{}
	}
	same := !known
	if after == nil {
		delete(c.known, key)
	} else {
		same = known && was.GetUID() == after.GetUID() && was.GetGeneration() == after.GetGeneration()
		c.known[key] = after
	}
	if c.loaded && !same {
		c.compile()
	}
}

// compile publishes a new set, and returns the numbers of profiles. It requires the lock.
func (c *Cache) compile() (frontends, backends int) {
	var frontend []v1alpha1.FrontendProfile
	var backend []v1alpha1.BackendProfile
	for _, key := range slices.Sorted(maps.Keys(c.known)) {
		switch p := c.known[key].(type) {
		case *v1alpha1.FrontendProfile:
			frontend = append(frontend, *p)
		case *v1alpha1.BackendProfile:
			backend = append(backend, *p)
		}
	}
	profiles, problems := domain.CompileProfiles(frontend, backend)
	c.profiles.Store(profiles)
	for _, p := range problems {
		c.log.Info("A profile is invalid and not in use", "problem", p.Error())
	}
	return len(frontend), len(backend)
}
