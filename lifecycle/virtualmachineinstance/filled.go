package virtualmachineinstance

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

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

// bindPeriod is how long storage has to provide a volume after its first consumer has come.
const bindPeriod = time.Minute

// errNotFilled is the failure of a VMI that waits for CDI. It passes without a retry.
var errNotFilled = errors.New("waiting for DataVolumes")

// filling says how far CDI has filled the claims of a VMI. A guest must not use them before: it
// would start from an empty disk, and write to it beside CDI.
type filling struct {
	pending, failed field.ErrorList
	needsConsumer   bool // storage waits for a pod that uses one of the claims
	byCDI           bool // some claim belongs to a DataVolume
}

// add reads the DataVolume that controls a claim. A claim without one is filled.
func (f *filling) add(ctx context.Context, from client.Reader, claim *corev1.PersistentVolumeClaim, path *field.Path) error {
	owner := metav1.GetControllerOfNoCopy(claim)
	if owner == nil || owner.Kind != "DataVolume" || !strings.HasPrefix(owner.APIVersion, cdiv1.SchemeGroupVersion.Group+"/") {
		return nil
	}
	f.byCDI = true
	volume := &partialobject.DataVolume{}
	switch err := from.Get(ctx, types.NamespacedName{Namespace: claim.Namespace, Name: owner.Name}, volume); {
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err): // CDI has collected it, or was removed
		return nil
	case err != nil:
		return fmt.Errorf("cannot read DataVolume %s: %w", owner.Name, err)
	}
	switch phase := volume.Status.Phase; phase {
	case cdiv1.Succeeded, cdiv1.PendingPopulation: // in the latter, nothing can use the claim before it is filled
	case cdiv1.Failed:
		f.failed = append(f.failed, field.Invalid(path, owner.Name, "the DataVolume has failed; see its events"))
	default:
		f.needsConsumer = f.needsConsumer || phase == cdiv1.WaitForFirstConsumer
		f.pending = append(f.pending, field.Invalid(path, owner.Name, fmt.Sprintf("the DataVolume is not populated yet: its phase is %q", phase)))
	}
	return nil
}

// awaitFilled returns a failure until CDI has filled the claims of a VMI. Until then, they have a
// first consumer if storage waits for one.
func (c *Controller) awaitFilled(ctx context.Context, vmi *partialobject.VirtualMachineInstance, f *filling, pod *corev1.Pod) error {
	if !f.byCDI {
		return nil
	}
	if err := c.bind(ctx, vmi, podspec.Binding(pod), f.needsConsumer); err != nil {
		return err
	}
	switch {
	case len(f.failed) > 0:
		return &partialobject.Failure{Reason: reasonFillFailed, Err: f.failed.ToAggregate()}
	case len(f.pending) > 0:
		return &partialobject.Failure{Reason: reasonNotFilled, Err: fmt.Errorf("%w: %w", errNotFilled, f.pending.ToAggregate())}
	}
	return nil
}

// bind creates the first consumer of claims if they need one, and deletes it otherwise. One that
// has ended is replaced if storage waits again, for claims that were created again.
func (c *Controller) bind(ctx context.Context, vmi *partialobject.VirtualMachineInstance, binding *corev1.Pod, isNeeded bool) error {
	key, existing := client.ObjectKeyFromObject(binding), &corev1.Pod{}
	err := c.Client.Get(ctx, key, existing)
	if apierrors.IsNotFound(err) && isNeeded {
		if err = c.Client.Create(ctx, binding); apierrors.IsAlreadyExists(err) { // the cache lags, or the pod has no label
			err = c.Live.Get(ctx, key, existing)
		} else {
			existing = binding
		}
	}
	switch {
	case apierrors.IsNotFound(err), apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nil
	case err != nil:
		return &partialobject.Failure{Reason: reasonNotCreated, Err: fmt.Errorf("cannot read or create Pod %s: %w", binding.Name, err)}
	}
	isUsed := (&podObservation{Phase: existing.Status.Phase}).final() && c.Clock.Since(existing.CreationTimestamp.Time) > bindPeriod
	switch isOwned := metav1.IsControlledBy(existing, vmi); {
	case isNeeded && !isOwned:
		return &partialobject.Failure{Reason: reasonNameTaken, Err: fmt.Errorf("pod %s exists and does not belong to this VMI; delete it", binding.Name)}
	case isOwned && (!isNeeded || isUsed):
		if err := c.Client.Delete(ctx, existing, client.Preconditions{UID: &existing.UID}); client.IgnoreNotFound(err) != nil {
			return &partialobject.Failure{Reason: reasonNotDeleted, Err: fmt.Errorf("cannot delete Pod %s: %w", binding.Name, err)}
		}
	}
	return nil
}
