// Package presetstatus says on each preset whether it is in use, and on how many VMs.
//
// The loop, for one preset: see what the preset cache of this process made of
// the generation that the preset has now; if it has not come to that
// generation, do nothing, since the cache tells when it has; else write its
// conditions and counts, unless status has them already.
package presetstatus

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/lifecycle/leadership"
	"github.com/virtwright/virtwright/lifecycle/presetcache"
	"github.com/virtwright/virtwright/lifecycle/presetscan"
	"github.com/virtwright/virtwright/lifecycle/presetusage"
	"github.com/virtwright/virtwright/lifecycle/replicastatus"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/validation"
)

// workers is how many statuses are written at once, for clusters that come up
// with thousands of presets.
const workers = 16

// A Controller writes the status of presets: conditions, counts and observedGeneration. It
// alone writes them, and nothing else.
//
// Ready is True once every replica that is live serves with the generation, so that
// the next machine finds the preset wherever it is made whole.
type Controller struct {
	Client client.Client
	Cache  *presetcache.Cache
	// Replicas knows the replicas that serve; nil where there are none but this one.
	Replicas *replicastatus.Replicas
	// Lock is held by the replica that acts; nil where there is one only.
	Lock *leadership.Lock
	// Usage counts the VMs that have each preset.
	Usage *presetusage.Index
	// Scan knows what only whole VMs, or all presets together, show.
	Scan   *presetscan.Scanner
	Events events.EventRecorder
	// Rules find presets that could not be created any more; nil finds none.
	Rules *validation.Config
	// Now is the clock; nil means time.Now.
	Now func() time.Time

	mu sync.Mutex
	// found are the findings of the rules on the generations of presets.
	found   map[presetcache.Key]finding
	waiting map[presetcache.Key]time.Time // since when, for replicas
	// told are the conditions that events were about, by message, and when.
	told map[presetcache.Key]map[string]time.Time
}

const (
	// again is how long to wait for replicas before looking again.
	again = 100 * time.Millisecond
	// hush is how long status says nothing of replicas that are late.
	hush = 3 * time.Second
	// countPause is the least time between two writes of a preset's counts, while VMs come and go.
	countPause = time.Second
)

// SetupWithManager runs the controller, for both kinds, in the leader.
func (c *Controller) SetupWithManager(mgr ctrl.Manager) error {
	kinds := map[string]func() v1alpha1.Preset{
		v1alpha1.KindVirtualMachinePreset:        func() v1alpha1.Preset { return &v1alpha1.VirtualMachinePreset{} },
		v1alpha1.KindClusterVirtualMachinePreset: func() v1alpha1.Preset { return &v1alpha1.ClusterVirtualMachinePreset{} },
	}
	for kind, empty := range kinds {
		err := ctrl.NewControllerManagedBy(mgr).Named("status-of-" + kind).
			For(empty()).
			WatchesRawSource(c.verdicts(kind)).
			WatchesRawSource(c.counts(kind)).
			WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
			Complete(c.Lock.While(reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
				return c.reconcile(ctx, presetcache.Key{Kind: kind, NamespacedName: req.NamespacedName}, empty())
			})))
		if err != nil {
			return fmt.Errorf("cannot set up the status of %s: %w", kind, err)
		}
	}
	return nil
}

// verdicts makes the controller look again when the cache has taken up a preset.
func (c *Controller) verdicts(kind string) source.Source {
	return source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		c.Cache.Subscribe(func(key presetcache.Key) {
			if key.Kind == kind {
				queue.Add(reconcile.Request{NamespacedName: key.NamespacedName})
			}
		})
		return nil
	})
}

// counts makes the controller look again when VMs are counted, or counted anew.
func (c *Controller) counts(kind string) source.Source {
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		lookAgain := func(preset presets.PresetName) {
			if key := presetcache.KeyOf(preset); key.Kind == kind {
				queue.AddAfter(reconcile.Request{NamespacedName: key.NamespacedName}, countPause)
			}
		}
		c.Scan.Subscribe(lookAgain)
		c.Usage.Subscribe(lookAgain)
		go func() {
			select {
			case <-ctx.Done():
			case <-c.Usage.Ready():
				for _, key := range c.Cache.Keys() {
					if key.Kind == kind {
						queue.Add(reconcile.Request{NamespacedName: key.NamespacedName})
					}
				}
			}
		}()
		return nil
	})
}

func (c *Controller) reconcile(ctx context.Context, key presetcache.Key, preset v1alpha1.Preset) (reconcile.Result, error) {
	if err := c.Client.Get(ctx, key.NamespacedName, preset); err != nil {
		c.waits(key, nil)
		c.forget(key)
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	verdict, known := c.Cache.Verdict(key)
	if !known || verdict.UID != preset.GetUID() || verdict.Generation != preset.GetGeneration() {
		return reconcile.Result{}, nil
	}
	without, err := c.without(ctx, preset, verdict)
	if err != nil {
		return reconcile.Result{}, err
	}
	var result reconcile.Result
	switch waited := c.waits(key, without); {
	case len(without) > 0 && waited < hush:
		return reconcile.Result{RequeueAfter: again}, nil
	case len(without) > 0:
		result.RequeueAfter = again
	}
	before, _ := preset.DeepCopyObject().(v1alpha1.Preset)
	seen := observation{verdict: verdict, without: without, deprecated: c.deprecated(key, preset)}
	c.count(key, verdict, &seen)
	if !decide(preset, seen, metav1.NewTime(c.now())) {
		return result, nil
	}
	// The list of conditions is written whole, so nobody may have changed it meanwhile.
	err = c.Client.Status().Patch(ctx, preset, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	switch {
	case apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: 50 * time.Millisecond}, nil // the cache is behind
	case apierrors.IsNotFound(err):
		return reconcile.Result{}, nil
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("cannot write the status: %w", err)
	}
	c.tell(key, before, preset)
	return result, nil
}

// count adds what is known of VMs and of other presets.
func (c *Controller) count(key presetcache.Key, verdict presetcache.Verdict, seen *observation) {
	if counts, ok := c.Usage.Of(key.Ref(), verdict.Hash(), verdict.Generation); ok {
		seen.usage = &counts
	}
	if counts, ok := c.Scan.Counts(key.Ref(), verdict.Generation); ok {
		seen.scan = &counts
	}
	var complete bool
	seen.findings, complete, seen.analysed = c.Scan.Findings(key.Ref(), verdict.Generation)
	seen.partial = !complete
}

// A finding is what the rules say of one generation of a preset.
type finding struct {
	uid        types.UID
	generation int64
	problems   field.ErrorList
}

// deprecated says why the preset could not be created any more.
func (c *Controller) deprecated(key presetcache.Key, preset v1alpha1.Preset) field.ErrorList {
	c.mu.Lock()
	known, ok := c.found[key]
	c.mu.Unlock()
	if c.Rules == nil || ok && known.uid == preset.GetUID() && known.generation == preset.GetGeneration() {
		return known.problems
	}
	now := finding{uid: preset.GetUID(), generation: preset.GetGeneration()}
	if compiled, problems := presets.Compile(preset); len(problems) == 0 { // else Ready says so
		now.problems = c.Rules.ValidatePreset(preset, compiled).Errors
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.found == nil {
		c.found = map[presetcache.Key]finding{}
	}
	c.found[key] = now
	return now.problems
}

func (c *Controller) forget(key presetcache.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.found, key)
	delete(c.told, key)
}

// without are the replicas that do not serve with a generation yet. One that is
// ready stays so: who is late then is late with another one.
func (c *Controller) without(ctx context.Context, preset v1alpha1.Preset, verdict presetcache.Verdict) ([]string, error) {
	ready := meta.FindStatusCondition(preset.GetStatus().Conditions, v1alpha1.ConditionReady)
	if len(verdict.Problems) > 0 || ready != nil && ready.Status == metav1.ConditionTrue && ready.ObservedGeneration == verdict.Generation {
		return nil, nil
	}
	return c.Replicas.Without(ctx, c.Cache.Generations())
}

// waits is how long a preset has waited for replicas.
func (c *Controller) waits(key presetcache.Key, without []string) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	since, waiting := c.waiting[key]
	switch {
	case len(without) == 0:
		delete(c.waiting, key)
		return 0
	case waiting:
		return c.now().Sub(since)
	case c.waiting == nil:
		c.waiting = map[presetcache.Key]time.Time{}
	}
	c.waiting[key] = c.now()
	return 0
}

func (c *Controller) now() time.Time {
	if c.Now == nil {
		return time.Now()
	}
	return c.Now()
}
