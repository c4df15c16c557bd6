// Package presetcache compiles the presets and exceptions of a cluster. Informers report changes,
// only changed objects are compiled, and a new snapshot replaces the old one atomically.
//
// Each request uses one snapshot. A preset that cannot be compiled is missing from it and does not
// affect the others.
package presetcache

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	kubevirtv1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/tree"
)

const kindLegacy = "VirtualMachineInstancePreset"

const (
	// minPause is the minimum time between two snapshots. It does not delay the first change.
	minPause       = 5 * time.Millisecond
	maxLoggedBytes = 4 << 10
	maxLoggedNames = 10
)

// A Key names a preset of any kind, or an exception.
type Key struct {
	Kind string
	types.NamespacedName
}

// A Cache has a snapshot of all presets. Start keeps it up to date; the other methods may be called
// at any time.
type Cache struct {
	// Subscribers receive each preset that changed in a new snapshot, once the snapshot is in use.
	Subscribers[Key]
	Informers cache.Informers
	Legacy    bool               // includes KubeVirt's VirtualMachineInstancePresets
	Clock     clock.PassiveClock // ends exceptions
	// Revision reads a generation of the cluster preset with a UID; it returns nil if that is not
	// kept. If Revision is nil, there are no rollouts.
	Revision func(ctx context.Context, uid types.UID, generation int64) (*presets.Compiled, error)

	snapshot atomic.Pointer[presets.Snapshot]

	mu          sync.Mutex
	changes     map[Key]client.Object // since the last snapshot: the newest object, or nil if it was deleted
	changed     chan struct{}
	compiled    set
	generations string
	revisions   map[revisionKey]*presets.Compiled // used by Start only
}

// Snapshot returns the newest snapshot, or nil before the first one.
func (c *Cache) Snapshot() *presets.Snapshot { return c.snapshot.Load() }

// Generations returns a hash of the generations of all presets; empty before the first snapshot.
// Replicas that are up to date return the same hash.
func (c *Cache) Generations() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.generations
}

// Ready returns nil once the snapshot has every preset that existed at start.
func (c *Cache) Ready() error {
	if c.Snapshot() == nil {
		return errors.New("presets are not loaded yet")
	}
	return nil
}

// Verdict returns the result for a preset in the newest snapshot.
func (c *Cache) Verdict(key Key) (Verdict, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, ok := c.compiled[key]
	return v, ok
}

// Keys returns all presets and exceptions, including invalid ones.
func (c *Cache) Keys() []Key {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Keys(c.compiled))
}

// Start keeps the snapshot up to date until the context ends.
func (c *Cache) Start(ctx context.Context) error {
	c.changed = make(chan struct{}, 1)
	if synced, err := Watch(ctx, c.Informers, c.Kinds(), c.note); err != nil || !synced {
		return err
	}
	for first := true; ; first = false {
		start := time.Now()
		c.refresh(ctx, first)
		// A large set takes long to index: leave at least half of the time for requests.
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(max(minPause, time.Since(start))):
		}
		select {
		case <-ctx.Done():
			return nil
		case <-c.changed:
		}
	}
}

// Kinds returns the kinds that the Cache watches, each with an empty object.
func (c *Cache) Kinds() map[string]client.Object {
	kinds := map[string]client.Object{
		v1alpha1.KindVirtualMachinePreset:        &v1alpha1.VirtualMachinePreset{},
		v1alpha1.KindClusterVirtualMachinePreset: &v1alpha1.ClusterVirtualMachinePreset{},
		v1alpha1.KindPresetException:             &v1alpha1.PresetException{},
		v1alpha1.KindPresetRollout:               &v1alpha1.PresetRollout{},
	}
	if c.Legacy {
		kinds[kindLegacy] = &kubevirtv1.VirtualMachineInstancePreset{}
	}
	return kinds
}

// Subscribers are functions that receive each key that changed. They must not block.
type Subscribers[K any] struct {
	mu  sync.Mutex
	all []func(K)
}

// Subscribe adds a subscriber.
func (s *Subscribers[K]) Subscribe(f func(K)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, f)
}

// Notify calls each subscriber with each key.
func (s *Subscribers[K]) Notify(keys ...K) {
	s.mu.Lock()
	all := s.all
	s.mu.Unlock()
	for _, f := range all {
		for _, key := range keys {
			f(key)
		}
	}
}

// AddToScheme lets clients read KubeVirt's presets.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(kubevirtv1.SchemeGroupVersion, &kubevirtv1.VirtualMachineInstancePreset{}, &kubevirtv1.VirtualMachineInstancePresetList{})
	metav1.AddToGroupVersion(s, kubevirtv1.SchemeGroupVersion)
	return nil
}

// Watch calls note with each change of an object of the kinds: before is nil for a new object, and
// after for a deleted one. It waits until note has received all objects, and returns false if the
// context ends before.
func Watch(
	ctx context.Context, informers cache.Informers, kinds map[string]client.Object, note func(kind string, before, after client.Object),
) (bool, error) {
	var synced []toolscache.InformerSynced
	for kind, object := range kinds {
		informer, err := informers.GetInformer(ctx, object)
		if err != nil {
			return false, fmt.Errorf("cannot watch %s: %w", kind, err)
		}
		registered, err := informer.AddEventHandler(Handler(kind, note))
		if err != nil {
			return false, fmt.Errorf("cannot watch %s: %w", kind, err)
		}
		synced = append(synced, registered.HasSynced)
	}
	return toolscache.WaitForCacheSync(ctx.Done(), synced...), nil
}

// Handler returns the handler by which Watch calls note with changes of objects of a kind.
func Handler(kind string, note func(kind string, before, after client.Object)) toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { note(kind, nil, o.(client.Object)) },
		UpdateFunc: func(before, o any) { note(kind, before.(client.Object), o.(client.Object)) },
		DeleteFunc: func(o any) {
			if missed, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
				o = missed.Obj
			}
			if object, ok := o.(client.Object); ok {
				note(kind, object, nil)
			}
		},
	}
}

func (c *Cache) note(kind string, before, after client.Object) {
	key := Key{kind, client.ObjectKeyFromObject(cmp.Or(after, before))}
	c.mu.Lock()
	defer c.mu.Unlock()
	if v, known := c.compiled[key]; after != nil && known && v.of(after) && c.changes[key] == nil {
		return // only metadata or status changed
	}
	if c.changes == nil {
		c.changes = map[Key]client.Object{}
	}
	c.changes[key] = after
	select {
	case c.changed <- struct{}{}:
	default: // a change is pending already
	}
}

func (c *Cache) refresh(ctx context.Context, first bool) {
	c.mu.Lock()
	changes, before := c.changes, c.compiled
	c.changes = nil
	c.mu.Unlock()
	if len(changes) == 0 && !first {
		return
	}
	after, changed := before.with(changes)
	if len(changed) == 0 && !first {
		return
	}
	rollouts, err := c.rollouts(ctx, after)
	if err != nil {
		ctrl.LoggerFrom(ctx).WithName("presets").Error(err, "Changes of presets wait for the revisions of rollouts")
		c.retry(changes)
		return
	}
	snapshot := after.snapshot(c.Clock.Now)
	if len(rollouts) > 0 {
		snapshot = snapshot.WithRollouts(rollouts)
	}

	c.mu.Lock()
	c.compiled, c.generations = after, after.hash()
	c.snapshot.Store(snapshot)
	c.mu.Unlock()

	c.log(ctx, after, changed, first)
	c.Notify(changed...)
}

func (c *Cache) log(ctx context.Context, s set, changed []Key, first bool) {
	log := ctrl.LoggerFrom(ctx).WithName("presets")
	for _, key := range changed {
		if v, ok := s[key]; ok && len(v.Problems) > 0 {
			log.Info("A preset is invalid and not in use", "kind", key.Kind, "preset", key.String(), "problems", tree.Truncate(v.Problems.ToAggregate().Error(), maxLoggedBytes))
		}
	}
	if snapshot := c.Snapshot(); first {
		log.Info("Loaded presets", "presets", snapshot.Len(), "snapshot", snapshot.Hash())
	} else {
		var names []string
		for _, key := range changed[:min(len(changed), maxLoggedNames)] {
			names = append(names, key.String())
		}
		log.Info("Compiled presets", "changed", names, "count", len(changed), "presets", snapshot.Len(), "snapshot", snapshot.Hash())
	}
}

const (
	presetsMetric    = "virtwright_presets"
	exceptionsMetric = "virtwright_preset_exceptions"
)

// RegisterMetrics registers the numbers of presets and exceptions by state.
func (c *Cache) RegisterMetrics(registry prometheus.Registerer) {
	register := func(metric, help string, states ...string) {
		for _, state := range states {
			registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
				Name: metric, Help: help, ConstLabels: prometheus.Labels{"state": state},
			}, func() float64 { return c.count(metric, state) }))
		}
	}
	register(presetsMetric, "Presets of every kind that this process knows, by state: ready (in use), invalid (not in use; its status says why) or off (its mode is Off).",
		"ready", "invalid", "off")
	register(exceptionsMetric, "Valid PresetExceptions by state: active, or expired (until is past).", "active", "expired")
}

func (c *Cache) count(metric, state string) float64 {
	c.mu.Lock()
	verdicts := c.compiled
	c.mu.Unlock()
	n, now := 0, c.Clock.Now()
	for key, v := range verdicts {
		if m, s := v.state(key.Kind, now); m == metric && s == state {
			n++
		}
	}
	return float64(n)
}

func (v Verdict) state(kind string, now time.Time) (metric, state string) {
	switch {
	case v.exception != nil && v.exception.Expired(now):
		return exceptionsMetric, "expired"
	case v.exception != nil:
		return exceptionsMetric, "active"
	case kind == v1alpha1.KindPresetException || kind == v1alpha1.KindPresetRollout: // invalid, or neither
		return "", ""
	case len(v.Problems) > 0:
		return presetsMetric, "invalid"
	case v.compiled.Mode == v1alpha1.ModeOff:
		return presetsMetric, "off"
	}
	return presetsMetric, "ready"
}
