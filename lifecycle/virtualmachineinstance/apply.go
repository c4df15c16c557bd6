package virtualmachineinstance

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtwright/virtwright/domain"
	"github.com/virtwright/virtwright/launcher/podspec"
	"github.com/virtwright/virtwright/lifecycle/partialobject"
	"github.com/virtwright/virtwright/validation"
)

// Reasons of the condition Synchronized. KubeVirt's printable status knows reasonNoClaim.
const (
	reasonNotCreated  = "FailedCreate"
	reasonNotDeleted  = "FailedDelete"
	reasonNotRendered = "DomainNotRendered"
	reasonNoImage     = "LauncherImageMissing"
	reasonNoKVM       = "KVMNotConfigured"
	reasonNoClaim     = "FailedPvcNotFound"
	reasonNotFilled   = "DataVolumesNotReady"
	reasonFillFailed  = "FailedDataVolumeImport"
	reasonNameTaken   = "PodNameTaken"
	reasonExcluded    = "NamespaceExcluded"
)

// create creates the pod of a VMI as the API server has the VMI now. It returns an existing pod of
// that name without changing it.
func (c *Controller) create(ctx context.Context, vmi *partialobject.VirtualMachineInstance) (*corev1.Pod, *domain.GuestDomain, error) {
	full, err := c.readFull(ctx, vmi)
	if err != nil {
		return nil, nil, err
	}
	request, guest, err := c.podRequest(ctx, full)
	if err != nil {
		return nil, nil, err
	}
	claims, filling, err := c.readClaims(ctx, full)
	if err != nil {
		return nil, nil, err
	}
	request.Claims = claims
	pod, err := podspec.New(request, &c.Pods)
	if err != nil {
		return nil, nil, &partialobject.Failure{Reason: reasonNotCreated, Err: err}
	}
	if err := c.awaitFilled(ctx, vmi, filling, pod); err != nil {
		return nil, nil, err
	}
	if preventsEviction(full) {
		err = c.createBudget(ctx, full, pod)
	}
	if err != nil {
		return nil, nil, &partialobject.Failure{Reason: reasonNotCreated, Err: err}
	}
	err = c.Client.Create(ctx, pod)
	switch {
	case apierrors.IsAlreadyExists(err):
		existing, err := readPod(ctx, c.Live, vmi)
		if err == nil && existing == nil {
			err = fmt.Errorf("cannot create Pod %s: %w", pod.Name, partialobject.ErrStale)
		}
		return existing, guest, err
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nil, nil, nil // the VMI is deleted with its namespace
	case err != nil:
		return nil, nil, &partialobject.Failure{Reason: reasonNotCreated, Err: fmt.Errorf("cannot create Pod %s: %w", pod.Name, err)}
	}
	ctrl.LoggerFrom(ctx).Info("Created the pod of a VMI", "pod", pod.Name, "podUID", pod.UID)
	c.event(vmi, corev1.EventTypeNormal, "SuccessfulCreate", "Created virtual machine pod "+pod.Name)
	if !domain.Reachable(full) {
		c.event(vmi, corev1.EventTypeWarning, "NoPortsDeclared", "Other pods cannot connect to the guest: no interface declares ports and no probe uses one")
	}
	return pod, guest, nil
}

// readFull reads a VMI from the API server, including fields that caches leave out.
func (c *Controller) readFull(ctx context.Context, vmi *partialobject.VirtualMachineInstance) (*kubevirtv1.VirtualMachineInstance, error) {
	key := client.ObjectKeyFromObject(vmi)
	out := &unstructured.Unstructured{}
	out.SetGroupVersionKind(kubevirtv1.VirtualMachineInstanceGroupVersionKind)
	if err := c.Live.Get(ctx, key, out); err != nil {
		return nil, fmt.Errorf("cannot read VirtualMachineInstance %s: %w", key, err)
	}
	if out.GetUID() != vmi.UID || out.GetResourceVersion() != vmi.ResourceVersion {
		return nil, fmt.Errorf("cannot use VirtualMachineInstance %s: %w", key, partialobject.ErrStale)
	}
	raw, err := out.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("cannot encode VirtualMachineInstance %s: %w", key, err)
	}
	full, err := validation.NewVirtualMachineInstance(raw)
	if err != nil {
		return nil, &partialobject.Failure{Reason: reasonNotRendered, Err: fmt.Errorf("cannot decode the VMI: %w", err)}
	}
	return full.VMI, nil
}

// podRequest gathers the input for the pod of a VMI without its claims, and checks that some host
// can run the guest.
func (c *Controller) podRequest(ctx context.Context, vmi *kubevirtv1.VirtualMachineInstance) (*podspec.Request, *domain.GuestDomain, error) {
	profiles := c.Profiles.Snapshot()
	if profiles == nil {
		return nil, nil, errors.New("profiles are not loaded yet")
	}
	namespace, err := c.Namespaces.Get(ctx, vmi.Namespace)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot read Namespace %s: %w", vmi.Namespace, err)
	}
	plan, errs := profiles.Plan(vmi, namespace.Labels, nil)
	if errs = append(errs, domain.CheckPod(vmi)...); len(errs) > 0 {
		return nil, nil, &partialobject.Failure{Reason: reasonNotRendered, Err: errs.ToAggregate()}
	}
	out := &podspec.Request{VMI: vmi}
	out.Frontend, out.FrontendProfiles = profiles.Frontend(vmi, namespace.Labels)
	out.Backend, out.BackendProfiles = profiles.Backend(vmi, namespace.Labels)
	switch {
	case c.Pods.Image == "":
		return nil, nil, &partialobject.Failure{Reason: reasonNoImage, Err: errors.New("the launcher image is not configured; set the manager's flag --launcher-image")}
	case !out.Emulated() && c.Pods.KVMResource == "":
		return nil, nil, &partialobject.Failure{Reason: reasonNoKVM, Err: errors.New("the guest needs KVM, which is not configured; " +
			"set the manager's flag --kvm-resource, or create a BackendProfile with softwareEmulation: Allow")}
	}
	return out, plan.Guest, nil
}

// readGuest returns the guest of a VMI, or nil if it cannot be rendered now.
func (c *Controller) readGuest(ctx context.Context, vmi *partialobject.VirtualMachineInstance) *domain.GuestDomain {
	full, err := c.readFull(ctx, vmi)
	if err != nil {
		return nil
	}
	_, out, _ := c.podRequest(ctx, full)
	return out
}

// readClaims returns the PersistentVolumeClaims of a VMI by name, from the API server, and whether
// they are filled.
func (c *Controller) readClaims(ctx context.Context, vmi *kubevirtv1.VirtualMachineInstance) (map[string]podspec.Claim, *filling, error) {
	out, filling := map[string]podspec.Claim{}, &filling{}
	var missing field.ErrorList
	for i := range vmi.Spec.Volumes {
		name, at := domain.ClaimOf(&vmi.Spec.Volumes[i])
		if name == "" {
			continue
		}
		path := field.NewPath("spec", "volumes").Index(i).Child(at)
		claim := &corev1.PersistentVolumeClaim{}
		switch err := c.Live.Get(ctx, types.NamespacedName{Namespace: vmi.Namespace, Name: name}, claim); {
		case apierrors.IsNotFound(err):
			missing = append(missing, field.NotFound(path, name))
			continue
		case err != nil:
			return nil, nil, fmt.Errorf("cannot read PersistentVolumeClaim %s: %w", name, err)
		}
		if err := filling.add(ctx, c.Live, claim, path); err != nil {
			return nil, nil, err
		}
		capacity, known := claim.Status.Capacity[corev1.ResourceStorage]
		if !known {
			capacity = claim.Spec.Resources.Requests[corev1.ResourceStorage]
		}
		out[name] = podspec.Claim{
			Block: claim.Spec.VolumeMode != nil && *claim.Spec.VolumeMode == corev1.PersistentVolumeBlock, Capacity: capacity,
		}
	}
	if len(missing) > 0 {
		return nil, nil, &partialobject.Failure{Reason: reasonNoClaim, Err: missing.ToAggregate()}
	}
	return out, filling, nil
}

// preventsEviction reports whether the eviction strategy of a VMI blocks evictions of its pod.
func preventsEviction(vmi *kubevirtv1.VirtualMachineInstance) bool {
	s := vmi.Spec.EvictionStrategy
	return s != nil && (*s == kubevirtv1.EvictionStrategyLiveMigrate || *s == kubevirtv1.EvictionStrategyExternal)
}

// createBudget creates the budget that blocks evictions of a pod. The VMI owns it, so it is deleted
// with the VMI.
func (c *Controller) createBudget(ctx context.Context, vmi *kubevirtv1.VirtualMachineInstance, pod *corev1.Pod) error {
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, OwnerReferences: pod.OwnerReferences},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: new(intstr.FromInt32(1)),
			Selector:     &metav1.LabelSelector{MatchLabels: map[string]string{kubevirtv1.CreatedByLabel: pod.Labels[kubevirtv1.CreatedByLabel]}},
		},
	}
	err := c.Client.Create(ctx, budget)
	if apierrors.IsAlreadyExists(err) {
		if err = c.Live.Get(ctx, client.ObjectKeyFromObject(budget), budget); err == nil && !metav1.IsControlledBy(budget, vmi) {
			return fmt.Errorf("PodDisruptionBudget %s exists and does not belong to this VMI; delete it", pod.Name)
		}
	}
	if err != nil {
		return fmt.Errorf("cannot create PodDisruptionBudget %s: %w", pod.Name, err)
	}
	return nil
}

// delete deletes the observed pod with the grace period of the guest.
func (c *Controller) delete(ctx context.Context, vmi *partialobject.VirtualMachineInstance, pod *corev1.Pod) error {
	err := c.Client.Delete(ctx, pod, client.Preconditions{UID: &pod.UID}, client.GracePeriodSeconds(gracePeriod(vmi, pod)))
	if client.IgnoreNotFound(err) != nil {
		return &partialobject.Failure{Reason: reasonNotDeleted, Err: fmt.Errorf("cannot delete Pod %s: %w", pod.Name, err)}
	}
	return nil
}

func (c *Controller) event(vmi *partialobject.VirtualMachineInstance, kind, reason, note string) {
	if c.Events == nil {
		return
	}
	regarding := partialobject.Reference(kubevirtv1.VirtualMachineInstanceGroupVersionKind, vmi)
	action := strings.TrimPrefix(reason, "Successful")
	c.Events.Eventf(regarding, nil, kind, reason, action, "%s", partialobject.EventNote(note))
}
