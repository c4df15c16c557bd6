// Package exceptionstatus says on each PresetException which VMs use it, and whether it has ended.
//
// The loop, for one exception: read the VMs that use it from the index, and the clock; write status
// if that changes it; then write an event if it is about to end or has ended. It looks again when VMs
// change, a week before the end, and at the end.
package exceptionstatus

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/lifecycle/leadership"
	"github.com/virtwright/virtwright/lifecycle/machine"
	"github.com/virtwright/virtwright/lifecycle/presetusage"
)

const (
	// countPause is the least time between two writes of status, while VMs come and go.
	countPause = time.Second
	// behind is how long the cache may be behind after a conflict.
	behind = 50 * time.Millisecond
)

// A Controller writes the status of exceptions and events about them, and nothing else.
type Controller struct {
	Client client.Client
	// Lock is held by the replica that acts; nil where there is one only.
	Lock *leadership.Lock
	// Usage knows which VMs use each exception.
	Usage  *presetusage.Index
	Events events.EventRecorder
}

// SetupWithManager runs the controller in the leader.
func (c *Controller) SetupWithManager(mgr ctrl.Manager) error {
	err := ctrl.NewControllerManagedBy(mgr).Named("status-of-" + v1alpha1.KindPresetException).
		For(&v1alpha1.PresetException{}).
		WatchesRawSource(source.Func(c.uses)).
		Complete(c.Lock.While(reconcile.Func(c.reconcile)))
	if err != nil {
		return fmt.Errorf("cannot set up the status of %s: %w", v1alpha1.KindPresetException, err)
	}
	return nil
}

// uses makes the controller look again when VMs are counted, or counted anew.
func (c *Controller) uses(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	c.Usage.SubscribeExceptions(func(key types.NamespacedName) {
		queue.AddAfter(reconcile.Request{NamespacedName: key}, countPause)
	})
	go func() {
		select {
		case <-ctx.Done():
		case <-c.Usage.Ready():
			var all v1alpha1.PresetExceptionList
			if err := c.Client.List(ctx, &all); err != nil {
				ctrl.LoggerFrom(ctx).Error(err, "Cannot list exceptions; their VMs are counted when they change")
			}
			for i := range all.Items {
				queue.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&all.Items[i])})
			}
		}
	}()
	return nil
}

func (c *Controller) reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	var exception v1alpha1.PresetException
	if err := c.Client.Get(ctx, req.NamespacedName, &exception); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	before := exception.DeepCopy()
	var seen *presetusage.ExceptionUse
	if use, counted := c.Usage.Exception(req.NamespacedName); counted {
		seen = &use
	}
	plan := decide(&exception, seen, time.Now())
	if !plan.changed {
		return reconcile.Result{RequeueAfter: plan.wake}, nil
	}
	err := c.Client.Status().Patch(ctx, &exception, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	switch {
	case apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: behind}, nil
	case apierrors.IsNotFound(err):
		return reconcile.Result{}, nil
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("cannot write the status: %w", err)
	}
	if plan.event != nil {
		c.Events.Eventf(&exception, nil, corev1.EventTypeWarning, plan.event.reason, "Watch", "%s", machine.Note(plan.event.note))
	}
	return reconcile.Result{RequeueAfter: plan.wake}, nil
}
