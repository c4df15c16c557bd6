// Package presetrollout brings changes of presets to VMs in waves, as PresetRollouts say.
//
// A reconciliation updates the revisions of the status (retarget), counts the VMs that were
// reached, decides what comes next (advance), writes the status, and then updates VMs by a
// targeted reapply. The value of virtwright.dev/rolled-out names the rollout and its target, so a
// VM that has it is done: nothing is updated twice, even if another replica becomes the leader.
// Webhooks reject that value on a VM that the status they know has not reached.
package presetrollout

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
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
	"github.com/virtwright/virtwright/presets"
)

const (
	cacheLag     = 200 * time.Millisecond // the time until caches have a status that was written
	updatePeriod = time.Second            // between two batches of updates
	watchPeriod  = 10 * time.Second       // between two counts of VMs while a change is rolled out
)

// A Controller rolls changes of presets out. It is the only writer of the status of PresetRollouts.
type Controller struct {
	Client     client.Client  // reads from the cache
	REST       rest.Interface // for restarts
	Presets    *presetcache.Cache
	Namespaces interface {
		Get(ctx context.Context, name string) (presets.Namespace, error)
	}
	Excluded []string // the namespaces in which no preset applies
	Events   events.EventRecorder
	Lock     *leadership.Lock // held by the leader; nil without leader election
	Clock    clock.PassiveClock

	mu       sync.Mutex
	failures map[string]map[types.NamespacedName]failure // by rollout
	restarts map[types.NamespacedName]time.Time          // that the cache may not have yet
}

// SetupWithManager adds the controller to a manager.
func (c *Controller) SetupWithManager(mgr ctrl.Manager) error {
	retries := workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](cacheLag, watchPeriod)
	err := ctrl.NewControllerManagedBy(mgr).Named("presetrollout").For(&v1alpha1.PresetRollout{}).WatchesRawSource(c.changes()).
		WithOptions(controller.Options{RateLimiter: retries}).Complete(c.Lock.While(reconcile.Func(c.reconcile)))
	if err != nil {
		return fmt.Errorf("cannot set up PresetRollouts: %w", err)
	}
	return nil
}

// changes requeues every rollout when the cache has compiled a cluster preset or a rollout.
func (c *Controller) changes() source.Source {
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		c.Presets.Subscribe(func(key presetcache.Key) {
			if key.Kind != v1alpha1.KindClusterVirtualMachinePreset && key.Kind != v1alpha1.KindPresetRollout {
				return
			}
			for _, other := range c.Presets.Keys() {
				if other.Kind == v1alpha1.KindPresetRollout {
					queue.Add(reconcile.Request{NamespacedName: other.NamespacedName})
				}
			}
		})
		return nil
	})
}

func (c *Controller) reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	var r v1alpha1.PresetRollout
	if err := c.Client.Get(ctx, req.NamespacedName, &r); err != nil {
		c.forget(req.Name)
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if c.Presets.Snapshot() == nil { // no preset is known yet, but that is no deletion
		return reconcile.Result{RequeueAfter: cacheLag}, nil
	}
	before := r.DeepCopy()
	if taken := c.Presets.Taken(&r); taken != nil {
		return c.write(ctx, before, &r, step{reason: reasonInvalid, message: taken.Error()})
	}
	seen, err := c.observe(ctx, &r)
	if err != nil {
		return reconcile.Result{}, err
	}
	r.Status = *retarget(&r.Spec, &r.Status, seen)
	if !apiequality.Semantic.DeepEqual(before.Status, r.Status) {
		err := c.writeStatus(ctx, before, &r)
		if err == nil && len(seen.lost) > 0 {
			c.Events.Eventf(&r, nil, corev1.EventTypeWarning, "RevisionLost", "RollOut", "%s", partialobject.EventNote(
				"the change acts everywhere at once, because the ControllerRevision of the stable revision was deleted: "+strings.Join(seen.lost, ", ")))
		}
		return retry(err)
	}
	var reached vms
	if isActive(&r.Status) {
		snapshot, rollout := c.rollout(&r)
		if rollout == nil {
			return reconcile.Result{RequeueAfter: cacheLag}, nil // the cache is older than the status
		}
		if reached, err = c.count(ctx, snapshot, rollout, &r); err != nil {
			return reconcile.Result{}, err
		}
	}
	return c.proceed(ctx, before, &r, reached)
}

// proceed decides what comes next, writes it, and updates VMs.
func (c *Controller) proceed(ctx context.Context, before, r *v1alpha1.PresetRollout, reached vms) (reconcile.Result, error) {
	wanted := orders{paused: isPaused(r), approved: r.Annotations[v1alpha1.AnnotationRolloutApproved]}
	status, next := advance(&r.Spec, &r.Status, reached.counts, wanted, c.Clock.Now())
	r.Status = *status
	budgets := presets.ApplyingBudgets(r.Spec.Budgets, c.Clock.Now())
	next = c.possible(ctx, next, reached)
	picked, isFrozen := reached.fleet.choose(&next, budgets, reached.restarts)
	if isActive(&before.Status) && (!isActive(status) || status.Wave == before.Status.Wave && status.Step == before.Status.Step) {
		reached.report(&r.Status)
	}
	result, err := c.write(ctx, before, r, next)
	if err != nil || result.RequeueAfter == cacheLag {
		return result, err // if the status has changed, the decision is old
	}
	if next.update && len(reached.due) > 0 {
		result.RequeueAfter = updatePeriod
		err = c.update(ctx, r, reached)
	}
	if next.restart && !isFrozen {
		result.RequeueAfter = updatePeriod
	}
	if next.update && err == nil {
		err = c.each(ctx, r, reached.stamp, picked, func(ctx context.Context, vm types.NamespacedName) error {
			return c.restart(ctx, r, vm)
		})
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	return result, nil
}

func isPaused(r *v1alpha1.PresetRollout) bool {
	return r.Annotations[v1alpha1.AnnotationRolloutPaused] == "true"
}

// observe reads the generations of a rollout's presets.
func (c *Controller) observe(ctx context.Context, r *v1alpha1.PresetRollout) (observed, error) {
	out := observed{uid: r.UID, presets: map[string]version{}, aborted: r.Annotations[v1alpha1.AnnotationRolloutAborted]}
	for _, ref := range r.Spec.Presets {
		verdict, exists := c.Presets.Verdict(presetcache.KeyOf(presets.PresetName{Ref: ref}))
		if !exists {
			continue
		}
		out.presets[ref] = version{verdict.UID, verdict.Generation}
		for _, p := range r.Status.Presets {
			if p.Name != ref || !presets.IsOf(p, verdict.UID) || p.Stable == 0 || p.Stable == verdict.Generation {
				continue
			}
			revision, err := c.Presets.Revision(ctx, verdict.UID, p.Stable)
			if err != nil {
				return out, fmt.Errorf("cannot read revision %d of %s: %w", p.Stable, ref, err)
			}
			if revision == nil {
				out.lost = append(out.lost, ref)
			}
		}
	}
	return out, nil
}

// rollout returns the rollout in the newest snapshot, if it has the state of the status.
func (c *Controller) rollout(r *v1alpha1.PresetRollout) (*presets.Snapshot, *presets.Rollout) {
	snapshot := c.Presets.Snapshot()
	if out := snapshot.Rollout(r.Name); out != nil && out.Is(&r.Status) {
		return snapshot, out
	}
	return nil, nil
}

// write writes the status with the condition of a step, and an event if its reason is new.
func (c *Controller) write(ctx context.Context, before, r *v1alpha1.PresetRollout, next step) (reconcile.Result, error) {
	was := meta.FindStatusCondition(before.Status.Conditions, v1alpha1.ConditionProgressing)
	condition := metav1.Condition{
		Type: v1alpha1.ConditionProgressing, Status: metav1.ConditionFalse, Reason: next.reason, Message: next.message, ObservedGeneration: r.Generation,
	}
	if next.reason == reasonUpdating || next.reason == reasonBaking || next.reason == reasonAborting {
		condition.Status = metav1.ConditionTrue
	}
	r.Status.ObservedGeneration = r.Generation
	meta.SetStatusCondition(&r.Status.Conditions, condition)
	var result reconcile.Result
	if isActive(&r.Status) {
		result.RequeueAfter = min(watchPeriod, cmp.Or(next.wait, watchPeriod))
	}
	if apiequality.Semantic.DeepEqual(before.Status, r.Status) {
		return result, nil
	}
	if err := c.writeStatus(ctx, before, r); err != nil {
		return retry(err)
	}
	if was == nil || was.Reason != next.reason {
		kind := corev1.EventTypeNormal
		if next.reason == reasonFailed || next.reason == reasonInvalid {
			kind = corev1.EventTypeWarning
		}
		c.Events.Eventf(r, nil, kind, next.reason, "RollOut", "%s", partialobject.EventNote(next.message))
	}
	return result, nil
}

// retry decides again soon, after a status was written or because another was.
func retry(err error) (reconcile.Result, error) {
	if err != nil && !apierrors.IsConflict(err) {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: cacheLag}, nil
}

// writeStatus fails if the rollout has changed: every decision is about one state.
func (c *Controller) writeStatus(ctx context.Context, before, after *v1alpha1.PresetRollout) error {
	err := c.Client.Status().Patch(ctx, after, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if err != nil {
		return fmt.Errorf("cannot write the status: %w", client.IgnoreNotFound(err))
	}
	return nil
}
