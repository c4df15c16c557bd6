// Package presetcache keeps the presets of a cluster, and exceptions from them, compiled:
// informers tell what changed, only that is compiled, and a new snapshot takes the place of the
// old one in a single step.
//
// Requests see either the old set of presets or the new one, never a mixture. A
// preset that cannot be compiled is missing from the set, and hurts no other.
package presetcache

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	kubevirtv1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
)

// KindLegacy is KubeVirt's kind of preset.
const KindLegacy = "VirtualMachineInstancePreset"

// pause is the least time between two snapshots, so that a burst of changes makes
// a few of them. The first change is never delayed.
const pause = 5 * time.Millisecond

// maxLogged is how many bytes of what is wrong with a preset are logged.
const maxLogged = 4 << 10

// mostLogged is how many presets a line of the log names.
const mostLogged = 10

// A Key names one preset of any kind, or an exception.
type Key struct {
	Kind string
	types.NamespacedName
}

// A Cache keeps a snapshot of all presets. Run Start; the other methods may be
// called at any time.
type Cache struct {
	// Informers watch presets.
	Informers cache.Informers
	// Legacy includes KubeVirt's VirtualMachineInstancePresets.
	Legacy bool
	// Metrics may be nil.
	Metrics *Metrics
	// Now is the clock that ends exceptions; nil means time.Now.
	Now func() time.Time

	snapshot atomic.Pointer[presets.Snapshot]

	mu sync.Mutex
	// changes since the last snapshot: the newest object, nil where deleted.
	changes map[Key]client.Object
	changed chan struct{}
	// compiled is what the newest snapshot was made of.
	compiled    set
	generations string
	subscribers []func(Key)
}

// Snapshot returns the newest set of presets; nil before the first is there.
func (c *Cache) Snapshot() *presets.Snapshot { return c.snapshot.Load() }

// Generations identifies the presets that are compiled, by their generations;
// empty before the first are. Replicas that watch one cluster have the same once
// none is behind.
func (c *Cache) Generations() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.generations
}

// Ready is nil once every preset that the cluster had at start is in the snapshot.
func (c *Cache) Ready() error {
	if c.Snapshot() == nil {
		return errors.New("presets are not loaded yet")
	}
	return nil
}

// Verdict returns what became of a preset in the newest snapshot.
func (c *Cache) Verdict(key Key) (Verdict, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, ok := c.compiled[key]
	return v, ok
}

// Keys are the presets of the newest snapshot, and those that are not in use.
func (c *Cache) Keys() []Key {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Keys(c.compiled))
}

// Subscribe calls f with each preset that a new snapshot takes up, once that
// snapshot is in use. f must not block.
func (c *Cache) Subscribe(f func(Key)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.subscribers = append(c.subscribers, f)
}

// NeedLeaderElection says that every replica has its own Cache.
func (*Cache) NeedLeaderElection() bool { return false }

// Start keeps the snapshot up to date until the context ends.
func (c *Cache) Start(ctx context.Context) error {
	synced, err := c.watch(ctx)
	if err != nil {
		return err
	}
	if !toolscache.WaitForCacheSync(ctx.Done(), synced...) {
		return nil // stopped
	}
	for first := true; ; first = false {
		start := time.Now()
		c.refresh(ctx, first)
		// A large set takes long to index: leave at least half of the time to others.
		if !sleep(ctx, max(pause, time.Since(start))) {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-c.signal():
		}
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// Kinds are the kinds that the Cache watches, each with an empty object.
func (c *Cache) Kinds() map[string]client.Object {
	kinds := map[string]client.Object{
		v1alpha1.KindVirtualMachinePreset:        &v1alpha1.VirtualMachinePreset{},
		v1alpha1.KindClusterVirtualMachinePreset: &v1alpha1.ClusterVirtualMachinePreset{},
		v1alpha1.KindPresetException:             &v1alpha1.PresetException{},
	}
	if c.Legacy {
		kinds[KindLegacy] = &kubevirtv1.VirtualMachineInstancePreset{}
	}
	return kinds
}

// AddToScheme lets clients read KubeVirt's presets, and nothing else of KubeVirt.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(kubevirtv1.SchemeGroupVersion, &kubevirtv1.VirtualMachineInstancePreset{}, &kubevirtv1.VirtualMachineInstancePresetList{})
	metav1.AddToGroupVersion(s, kubevirtv1.SchemeGroupVersion)
	return nil
}

// watch makes informers tell of every change.
func (c *Cache) watch(ctx context.Context) ([]toolscache.InformerSynced, error) {
	var synced []toolscache.InformerSynced
	for kind, object := range c.Kinds() {
		informer, err := c.Informers.GetInformer(ctx, object)
		if err != nil {
			return nil, fmt.Errorf("cannot watch %s: %w", kind, err)
		}
		registered, err := informer.AddEventHandler(c.handler(kind))
		if err != nil {
			return nil, fmt.Errorf("cannot watch %s: %w", kind, err)
		}
		synced = append(synced, registered.HasSynced)
	}
	return synced, nil
}

func (c *Cache) handler(kind string) toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { c.note(kind, o, false) },
		UpdateFunc: func(_, o any) { c.note(kind, o, false) },
		DeleteFunc: func(o any) { c.note(kind, o, true) },
	}
}

// note remembers a change for the next snapshot.
func (c *Cache) note(kind string, changed any, gone bool) {
	if missed, ok := changed.(toolscache.DeletedFinalStateUnknown); ok {
		changed = missed.Obj
	}
	object, ok := changed.(client.Object)
	if !ok {
		return
	}
	key := Key{kind, client.ObjectKeyFromObject(object)}
	c.mu.Lock()
	defer c.mu.Unlock()
	if v, known := c.compiled[key]; !gone && known && v.of(object) && c.changes[key] == nil {
		return // only metadata or status changed
	}
	if c.changes == nil {
		c.changes = map[Key]client.Object{}
	}
	if c.changes[key] = object; gone {
		c.changes[key] = nil
	}
	select {
	case c.wake() <- struct{}{}:
	default: // already awake
	}
}

// signal receives when there are changes.
func (c *Cache) signal() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wake()
}

// wake is the channel of signal; the caller holds the lock.
func (c *Cache) wake() chan struct{} {
	if c.changed == nil {
		c.changed = make(chan struct{}, 1)
	}
	return c.changed
}

// refresh compiles what changed and puts a new snapshot into use.
func (c *Cache) refresh(ctx context.Context, first bool) {
	c.mu.Lock()
	changes, before := c.changes, c.compiled
	c.changes = nil
	c.mu.Unlock()
	if len(changes) == 0 && !first {
		return
	}
	after, news := before.with(changes)
	if len(news) == 0 && !first {
		return
	}
	snapshot := after.snapshot(c.now)

	c.mu.Lock()
	c.compiled, c.generations = after, after.digest()
	c.snapshot.Store(snapshot)
	subscribers := c.subscribers
	c.mu.Unlock()

	c.Metrics.count(after)
	c.log(ctx, after, news, first)
	for _, tell := range subscribers {
		for _, key := range news {
			tell(key)
		}
	}
}

func (c *Cache) now() time.Time {
	if c.Now == nil {
		return time.Now()
	}
	return c.Now()
}

func (c *Cache) log(ctx context.Context, s set, news []Key, first bool) {
	log := ctrl.LoggerFrom(ctx).WithName("presets")
	for _, key := range news {
		if v, ok := s[key]; ok && len(v.Problems) > 0 {
			log.Info("A preset is invalid and not in use", "kind", key.Kind, "preset", key.String(), "problems", presets.Cut(v.Problems.ToAggregate().Error(), maxLogged))
		}
	}
	if snapshot := c.Snapshot(); first {
		log.Info("Loaded presets", "presets", snapshot.Len(), "snapshot", snapshot.Hash())
	} else {
		changed := make([]string, 0, mostLogged)
		for _, key := range news[:min(len(news), mostLogged)] {
			changed = append(changed, key.String())
		}
		log.Info("Compiled presets", "changed", changed, "count", len(news), "presets", snapshot.Len(), "snapshot", snapshot.Hash())
	}
}
