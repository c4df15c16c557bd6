// Package presetstatus writes the status of presets and exceptions.
//
// Each reconciliation of a preset compares its generation with that of the preset cache, and waits
// if the cache does not have it yet. It then writes conditions and counts, if they change, and
// records events about new conditions. The counts come from the index of provenance records and
// from scans of stored VMs (scan.go).
package presetstatus

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/lifecycle/leadership"
	"github.com/virtwright/virtwright/lifecycle/partialobject"
	"github.com/virtwright/virtwright/lifecycle/presetcache"
	"github.com/virtwright/virtwright/lifecycle/presetusage"
	"github.com/virtwright/virtwright/lifecycle/replicastatus"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/condition"
	"github.com/virtwright/virtwright/validation"
)

const (
	workers         = 16 // large for clusters that start with thousands of presets
	replicaPoll     = 100 * time.Millisecond
	replicaPatience = 3 * time.Second // the time after which status names replicas that are late
	countPause      = time.Second     // the minimum time between two writes of counts while VMs change
	cacheLag        = 50 * time.Millisecond
	eventPause      = time.Hour // the minimum time between two equal events about a preset
)

// A Controller writes the status of presets and exceptions, and events about them. It is the only
// writer.
//
// A preset is Ready once every live replica uses its generation, so that it applies to the next VM
// on any replica.
type Controller struct {
	Client   client.Client
	Cache    *presetcache.Cache
	Replicas *replicastatus.Replicas // the serving replicas; nil if there is only this one
	Lock     *leadership.Lock        // held by the leader; nil without leader election
	Usage    *presetusage.Index
	Scan     *Scanner
	Events   events.EventRecorder
	Rules    *validation.Config // they find stored presets that would be rejected today; nil finds none
	Clock    clock.PassiveClock

	mu    sync.Mutex
	state map[presetcache.Key]*presetState
}

// presetState is remembered between reconciliations of a preset.
type presetState struct {
	uid          types.UID // violations were found for it and generation
	generation   int64
	violations   field.ErrorList
	waitingSince time.Time            // for replicas; zero if none is late
	events       map[string]time.Time // the recent ones, by text
}

// SetupWithManager adds a controller for each kind to a manager.
func (c *Controller) SetupWithManager(mgr ctrl.Manager) error {
	for kind, empty := range map[string]client.Object{
		v1alpha1.KindVirtualMachinePreset:        &v1alpha1.VirtualMachinePreset{},
		v1alpha1.KindClusterVirtualMachinePreset: &v1alpha1.ClusterVirtualMachinePreset{},
		v1alpha1.KindPresetException:             &v1alpha1.PresetException{},
	} {
		err := ctrl.NewControllerManagedBy(mgr).Named("status-of-" + kind).
			For(empty).
			WatchesRawSource(c.changes(kind)).
			WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
			Complete(c.Lock.While(reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
				if preset, ok := empty.DeepCopyObject().(v1alpha1.Preset); ok {
					return c.reconcile(ctx, presetcache.Key{Kind: kind, NamespacedName: req.NamespacedName}, preset)
				}
				return c.reconcileException(ctx, req)
			})))
		if err != nil {
			return fmt.Errorf("cannot set up the status of %s: %w", kind, err)
		}
	}
	return nil
}

// changes requeues objects of a kind when the cache has compiled them, and when their VMs were
// counted again.
func (c *Controller) changes(kind string) source.Source {
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		requeue := func(key presetcache.Key, after time.Duration) {
			if key.Kind == kind {
				queue.AddAfter(reconcile.Request{NamespacedName: key.NamespacedName}, after)
			}
		}
		recounted := func(preset presets.PresetName) { requeue(presetcache.KeyOf(preset), countPause) }
		c.Cache.Subscribe(func(key presetcache.Key) { requeue(key, 0) })
		c.Scan.Subscribe(recounted)
		c.Usage.Subscribe(recounted)
		c.Usage.ExceptionSubscribers.Subscribe(func(exception types.NamespacedName) {
			requeue(presetcache.Key{Kind: v1alpha1.KindPresetException, NamespacedName: exception}, countPause)
		})
		go func() {
			select {
			case <-ctx.Done():
			case <-c.Usage.Ready():
				for _, key := range c.Cache.Keys() {
					requeue(key, 0)
				}
			}
		}()
		return nil
	})
}

func (c *Controller) reconcile(ctx context.Context, key presetcache.Key, preset v1alpha1.Preset) (reconcile.Result, error) {
	if err := c.Client.Get(ctx, key.NamespacedName, preset); err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.state, key)
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	verdict, known := c.Cache.Verdict(key)
	if !known || verdict.UID != preset.GetUID() || verdict.Generation != preset.GetGeneration() {
		return reconcile.Result{}, nil // the cache requeues the preset
	}
	late, err := c.lateReplicas(ctx, preset, verdict)
	if err != nil {
		return reconcile.Result{}, err
	}
	var result reconcile.Result
	if waited := c.waitTime(key, late); len(late) > 0 {
		result.RequeueAfter = replicaPoll
		if waited < replicaPatience {
			return result, nil
		}
	}
	before, _ := preset.DeepCopyObject().(v1alpha1.Preset)
	if !decide(preset, c.observe(key, preset, verdict, late), metav1.NewTime(c.Clock.Now())) {
		return result, nil
	}
	if err := c.writeStatus(ctx, before, preset); err != nil {
		return retry(err)
	}
	c.recordEvents(key, before, preset)
	return result, nil
}

// writeStatus writes the changes of status. It fails for an object that was deleted or has changed:
// the list of conditions is written as a whole.
func (c *Controller) writeStatus(ctx context.Context, before, after client.Object) error {
	return c.Client.Status().Patch(ctx, after, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

func retry(err error) (reconcile.Result, error) {
	switch {
	case apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: cacheLag}, nil
	case apierrors.IsNotFound(err):
		return reconcile.Result{}, nil
	}
	return reconcile.Result{}, fmt.Errorf("cannot write the status: %w", err)
}

func (c *Controller) observe(key presetcache.Key, preset v1alpha1.Preset, verdict presetcache.Verdict, late []string) observation {
	o := observation{verdict: verdict, lateReplicas: late, violations: c.violations(key, preset)}
	if counts, ok := c.Usage.Of(key.Ref(), verdict.Hash(), verdict.Generation); ok {
		o.usage = &counts
	}
	if counts, ok := c.Scan.Counts(key.Ref(), verdict.Generation); ok {
		o.scan = &counts
	}
	var complete bool
	o.findings, complete, o.analysed = c.Scan.Findings(key.Ref(), verdict.Generation)
	o.partial = !complete
	return o
}

func (c *Controller) violations(key presetcache.Key, preset v1alpha1.Preset) field.ErrorList {
	if c.Rules == nil {
		return nil
	}
	c.mu.Lock()
	known := *c.stateOf(key)
	c.mu.Unlock()
	if known.uid == preset.GetUID() && known.generation == preset.GetGeneration() {
		return known.violations
	}
	var violations field.ErrorList
	if compiled, problems := presets.Compile(preset); len(problems) == 0 { // otherwise Ready has the problems
		violations = c.Rules.ValidatePreset(preset, compiled, condition.AllSteps).Errors
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	state := c.stateOf(key)
	state.uid, state.generation, state.violations = preset.GetUID(), preset.GetGeneration(), violations
	return violations
}

// stateOf requires the lock.
func (c *Controller) stateOf(key presetcache.Key) *presetState {
	if c.state == nil {
		c.state = map[presetcache.Key]*presetState{}
	}
	if c.state[key] == nil {
		c.state[key] = &presetState{}
	}
	return c.state[key]
}

// lateReplicas returns the replicas that do not use a generation yet. A generation that is Ready
// stays Ready: a replica that is late then is late with another preset.
func (c *Controller) lateReplicas(ctx context.Context, preset v1alpha1.Preset, verdict presetcache.Verdict) ([]string, error) {
	ready := meta.FindStatusCondition(preset.GetStatus().Conditions, v1alpha1.ConditionReady)
	if len(verdict.Problems) > 0 || ready != nil && ready.Status == metav1.ConditionTrue && ready.ObservedGeneration == verdict.Generation {
		return nil, nil
	}
	return c.Replicas.Without(ctx, c.Cache.Generations())
}

func (c *Controller) waitTime(key presetcache.Key, late []string) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	state := c.stateOf(key)
	switch {
	case len(late) == 0:
		state.waitingSince = time.Time{}
		return 0
	case state.waitingSince.IsZero():
		state.waitingSince = c.Clock.Now()
	}
	return c.Clock.Now().Sub(state.waitingSince)
}

func (c *Controller) recordEvents(key presetcache.Key, before, after v1alpha1.Preset) {
	for _, kind := range findingConditions {
		was := meta.FindStatusCondition(before.GetStatus().Conditions, kind.condition)
		is := meta.FindStatusCondition(after.GetStatus().Conditions, kind.condition)
		if is == nil || was != nil && was.Message == is.Message || !c.isNews(key, kind.condition+" "+is.Message) {
			continue
		}
		c.Events.Eventf(after, nil, corev1.EventTypeWarning, kind.condition, "Analyze", "%s", partialobject.EventNote(is.Message))
	}
}

// isNews reports whether there was no equal event recently, and remembers the event.
func (c *Controller) isNews(key presetcache.Key, text string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, state := c.Clock.Now(), c.stateOf(key)
	for t, at := range state.events {
		if now.Sub(at) >= eventPause {
			delete(state.events, t)
		}
	}
	if _, recent := state.events[text]; recent {
		return false
	}
	if state.events == nil {
		state.events = map[string]time.Time{}
	}
	state.events[text] = now
	return true
}

// reconcileException writes the status of an exception and an event about its end. It is called
// again when VMs change, a week before the end and at the end.
func (c *Controller) reconcileException(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	var exception v1alpha1.PresetException
	if err := c.Client.Get(ctx, req.NamespacedName, &exception); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	before := exception.DeepCopy()
	var use *presetusage.ExceptionUse
	if counted, ok := c.Usage.Exception(req.NamespacedName); ok {
		use = &counted
	}
	d := decideException(&exception, use, c.Clock.Now())
	if d.changed {
		if err := c.writeStatus(ctx, before, &exception); err != nil {
			return retry(err)
		}
		if d.reason != "" {
			c.Events.Eventf(&exception, nil, corev1.EventTypeWarning, d.reason, "Watch", "%s", partialobject.EventNote(d.note))
		}
	}
	return reconcile.Result{RequeueAfter: d.requeueAfter}, nil
}
