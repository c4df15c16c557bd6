package presetrevision

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/lifecycle/leadership"
	"github.com/virtwright/virtwright/lifecycle/presetusage"
	"github.com/virtwright/virtwright/presets"
)

// limit is how many revisions of a preset are kept, although no VM has them.
const limit = 10

// A Controller keeps the revisions of presets. It deletes those that no VM has, and that are not
// stable in a rollout, beyond the last 10, when the preset changes.
type Controller struct {
	Client    client.Client
	Live      client.Reader // reads revisions, which are not cached
	Usage     *presetusage.Index
	Lock      *leadership.Lock // held by the leader; nil without leader election
	Namespace string           // the manager's
}

// SetupWithManager adds a controller for each kind of presets to a manager.
func (c *Controller) SetupWithManager(mgr ctrl.Manager) error {
	onNewGeneration := builder.WithPredicates(predicate.GenerationChangedPredicate{})
	for kind, empty := range map[string]v1alpha1.Preset{
		v1alpha1.KindVirtualMachinePreset:        &v1alpha1.VirtualMachinePreset{},
		v1alpha1.KindClusterVirtualMachinePreset: &v1alpha1.ClusterVirtualMachinePreset{},
	} {
		err := ctrl.NewControllerManagedBy(mgr).Named("revisions-of-"+kind).For(empty, onNewGeneration).
			Complete(c.Lock.While(reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
				preset, _ := empty.DeepCopyObject().(v1alpha1.Preset)
				return reconcile.Result{}, c.reconcile(ctx, req, preset)
			})))
		if err != nil {
			return fmt.Errorf("cannot set up the revisions of %s: %w", kind, err)
		}
	}
	return nil
}

func (c *Controller) reconcile(ctx context.Context, req reconcile.Request, preset v1alpha1.Preset) error {
	if err := c.Client.Get(ctx, req.NamespacedName, preset); err != nil {
		return client.IgnoreNotFound(err)
	}
	if _, problems := presets.Compile(preset); len(problems) > 0 || preset.GetDeletionTimestamp() != nil {
		return nil // it does not act
	}
	next, err := newRevision(preset, c.Namespace)
	if err != nil {
		return err
	}
	err = c.Live.Get(ctx, client.ObjectKeyFromObject(next), &appsv1.ControllerRevision{})
	if err == nil {
		return nil // it is kept already
	}
	if !apierrors.IsNotFound(err) {
		return fmt.Errorf("cannot read ControllerRevision %s/%s: %w", next.Namespace, next.Name, err)
	}
	switch err := c.Client.Create(ctx, next); {
	case apierrors.IsAlreadyExists(err), apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nil
	case err != nil:
		return fmt.Errorf("cannot create ControllerRevision %s/%s: %w", next.Namespace, next.Name, err)
	}
	return c.prune(ctx, preset)
}

// prune deletes revisions that no VM has, and that are not stable in a rollout, beyond limit.
func (c *Controller) prune(ctx context.Context, preset v1alpha1.Preset) error {
	kept, err := list(ctx, c.Live, preset, c.Namespace)
	if err != nil {
		return err
	}
	var rollouts v1alpha1.PresetRolloutList
	if err := c.Client.List(ctx, &rollouts); err != nil {
		return fmt.Errorf("cannot list PresetRollouts: %w", err)
	}
	for i := range max(0, len(kept)-limit) {
		if isStable(rollouts.Items, preset, kept[i].Revision) {
			continue
		}
		if err := c.deleteUnused(ctx, &kept[i]); err != nil {
			return err
		}
	}
	return nil
}

// isStable reports whether VMs that a rollout has not reached need a revision.
func isStable(in []v1alpha1.PresetRollout, preset v1alpha1.Preset, revision int64) bool {
	return slices.ContainsFunc(in, func(r v1alpha1.PresetRollout) bool {
		return slices.ContainsFunc(r.Status.Presets, func(p v1alpha1.RolloutPreset) bool {
			return p.Name == presets.RefOf(preset) && presets.IsOf(p, preset.GetUID()) && p.Stable == revision
		})
	})
}

// deleteUnused deletes a revision that no VM has.
func (c *Controller) deleteUnused(ctx context.Context, r *appsv1.ControllerRevision) error {
	p, err := presetOf(r)
	if err != nil {
		return err
	}
	if compiled, problems := presets.Compile(p); len(problems) == 0 {
		if used, known := c.Usage.Has(compiled.Name(), r.Revision); used || !known {
			return nil
		}
	}
	err = c.Client.Delete(ctx, r, client.Preconditions{UID: &r.UID})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("cannot delete ControllerRevision %s/%s: %w", r.Namespace, r.Name, err)
	}
	return nil
}
