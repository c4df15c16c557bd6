package virtualmachineinstance

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtwright/virtwright/launcher/podspec"
	"github.com/virtwright/virtwright/lifecycle/partialobject"
)

// filling says how far CDI has filled the claims of a VMI. A guest must not use them before: it
// would start from an empty disk, and write to it beside CDI.
type filling struct {
	pending       field.ErrorList
	needsConsumer bool // storage waits for a pod that uses one of the claims
	byCDI         bool // some claim belongs to a DataVolume
}

// add reads the DataVolume that controls a claim. A claim without one is filled.
func (f *filling) add(ctx context.Context, from client.Reader, claim *corev1.PersistentVolumeClaim, path *field.Path) error {
	owner := metav1.GetControllerOfNoCopy(claim)
	if owner == nil || owner.Kind != "DataVolume" {
		return nil
	}
	volume := &partialobject.DataVolume{}
	switch err := from.Get(ctx, types.NamespacedName{Namespace: claim.Namespace, Name: owner.Name}, volume); {
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err): // CDI has collected it, or was removed
		return nil
	case err != nil:
		return fmt.Errorf("cannot read DataVolume %s: %w", owner.Name, err)
	}
	f.byCDI = true
	switch phase := volume.Status.Phase; phase {
	case cdiv1.Succeeded, cdiv1.PendingPopulation: // in the latter, nothing can use the claim before it is filled
	default:
		f.needsConsumer = f.needsConsumer || phase == cdiv1.WaitForFirstConsumer
		f.pending = append(f.pending, field.Invalid(path, owner.Name, fmt.Sprintf("the DataVolume is not populated yet: its phase is %q", phase)))
	}
	return nil
}

// awaitFilled returns a failure until CDI has filled the claims of a VMI. Until then, it creates
// their first consumer if storage waits for one.
func (c *Controller) awaitFilled(ctx context.Context, f *filling, pod *corev1.Pod) error {
	binding := podspec.Binding(pod)
	var err error
	switch {
	case f.needsConsumer:
		if err = c.Client.Create(ctx, binding); apierrors.IsAlreadyExists(err) {
			err = nil
		}
	case len(f.pending) == 0 && f.byCDI:
		err = client.IgnoreNotFound(c.Client.Delete(ctx, binding))
	}
	if err != nil {
		return &partialobject.Failure{Reason: reasonNotCreated, Err: fmt.Errorf("cannot create or delete Pod %s: %w", binding.Name, err)}
	}
	if len(f.pending) > 0 {
		return &partialobject.Failure{Reason: reasonNotFilled, Err: f.pending.ToAggregate()}
	}
	return nil
}
