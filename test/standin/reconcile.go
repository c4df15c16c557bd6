package standin

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// stage is when an instance got where it is. The API has that in full seconds,
// which is what a runtime has to go by that was not there when it happened.
type stage struct {
	uid      types.UID
	phase    kubevirtv1.VirtualMachineInstancePhase
	deleting bool
	began    time.Time
}

// Reconcile takes one instance one step further.
func (r *Runtime) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	var vmi kubevirtv1.VirtualMachineInstance
	if err := r.client.Get(ctx, req.NamespacedName, &vmi); err != nil {
		if apierrors.IsNotFound(err) {
			r.forget(req.NamespacedName)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	p := r.options.decide(r.observe(ctx, &vmi))
	if p.write == nil {
		return reconcile.Result{RequeueAfter: p.after}, nil
	}
	patch := client.MergeFromWithOptions(&vmi, client.MergeFromWithOptimisticLock{})
	err := r.client.Patch(ctx, p.write, patch)
	switch {
	case apierrors.IsNotFound(err):
		return reconcile.Result{}, nil
	case apierrors.IsConflict(err): // what was written comes by itself; a cache that lags may be asked too early
		return reconcile.Result{RequeueAfter: 10 * time.Millisecond}, nil
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("cannot write the instance: %w", err)
	}
	ctrl.LoggerFrom(ctx).Info("Wrote", "phase", p.write.Status.Phase, "held", controllerutil.ContainsFinalizer(p.write, Finalizer))
	return reconcile.Result{RequeueAfter: p.after}, nil
}

// observe gathers what is to be known of an instance.
func (r *Runtime) observe(ctx context.Context, vmi *kubevirtv1.VirtualMachineInstance) seen {
	s := seen{vmi: vmi, now: time.Now()}
	key := client.ObjectKeyFromObject(vmi)
	r.mu.Lock()
	defer r.mu.Unlock()
	told, known := r.told[key]
	if s.behaviour = told; !known {
		var err error
		if s.behaviour, err = annotated(vmi); err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "An instance runs as others do")
		}
	}
	now := stage{uid: vmi.UID, phase: vmi.Status.Phase, deleting: vmi.DeletionTimestamp != nil}
	before := r.since[key]
	if now.began = before.began; now != before {
		now.began = began(vmi, s.now)
		r.since[key] = now
	}
	s.since = now.began
	return s
}

func (r *Runtime) forget(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.since, key)
}

// began is when the instance got where it is: now, if it may be, since the API
// does not tell more than the second.
func began(vmi *kubevirtv1.VirtualMachineInstance, now time.Time) time.Time {
	at := vmi.CreationTimestamp.Time
	for _, t := range vmi.Status.PhaseTransitionTimestamps {
		if t.Phase == vmi.Status.Phase {
			at = t.PhaseTransitionTimestamp.Time
		}
	}
	if vmi.DeletionTimestamp != nil {
		at = vmi.DeletionTimestamp.Time
	}
	if now.Sub(at) < time.Second {
		return now
	}
	return at
}
