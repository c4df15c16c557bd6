package virtualmachine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/virtwright/virtwright/lifecycle/partialobject"
)

// Reasons of failures and events of DataVolumes.
const (
	reasonVolumeCreated    = "SuccessfulDataVolumeCreate"
	reasonVolumeNotCreated = "FailedDataVolumeCreate"
	reasonVolumeNotFilled  = "FailedDataVolumeImport"
	reasonVolumeTaken      = "DataVolumeTaken"
	reasonVolumesNotServed = "DataVolumesNotServed"
	reasonVolumesUnknown   = "DataVolumesUnknown"
)

// Keys that KubeVirt and CDI read on DataVolumes.
const (
	labelCreatedBy          = "kubevirt.io/created-by"
	annotationAllowAdoption = "cdi.kubevirt.io/allowClaimAdoption"
)

var errVolumesNotServed = &partialobject.Failure{Reason: reasonVolumesNotServed, Err: errors.New(
	"spec.dataVolumeTemplates: the cluster does not serve DataVolumes; install CDI, or use existing volumes")}

// observeVolumes observes the DataVolumes of a VM and which of them are missing. A DataVolume
// without an owner is used and stays without one. One that another object owns is a failure.
func (c *Controller) observeVolumes(ctx context.Context, vm *partialobject.VirtualMachine, o *observation) *partialobject.Failure {
	if !needsVolumes(vm, *o) {
		return nil
	}
	failure := c.readVolumes(ctx, vm, o)
	if failure != nil {
		o.Volumes, o.MissingVolumes = volumesFailed, nil
	}
	return failure
}

func (c *Controller) readVolumes(ctx context.Context, vm *partialobject.VirtualMachine, o *observation) *partialobject.Failure {
	switch synced, err := c.volumes.synced(ctx, c.Clock.Now()); {
	case meta.IsNoMatchError(err):
		return errVolumesNotServed
	case err != nil:
		return &partialobject.Failure{Reason: reasonVolumesUnknown, Err: err}
	case !synced:
		o.Volumes = volumesPending
		return nil
	}
	for _, name := range vm.Names().DataVolumes {
		volume := &partialobject.DataVolume{}
		err := c.Client.Get(ctx, types.NamespacedName{Namespace: vm.Namespace, Name: name}, volume)
		failure := volumeFailure(vm, volume, name, client.IgnoreNotFound(err))
		switch {
		case name == "": // API servers reject it
		case failure != nil:
			return failure
		case err != nil:
			o.Volumes, o.MissingVolumes = volumesPending, append(o.MissingVolumes, name)
		case !startsWith(volume.Status.Phase):
			o.Volumes = volumesPending
		}
	}
	return nil
}

// needsVolumes reports whether DataVolumes of a VM may have to be created. A VM with a VMI has
// them, and none is created in an excluded namespace.
func needsVolumes(vm *partialobject.VirtualMachine, o observation) bool {
	onStart := vm.Annotations[kubevirtv1.ImmediateDataVolumeCreation] == "false"
	return len(vm.Spec.DataVolumeTemplates) > 0 && vm.DeletionTimestamp == nil && !o.Excluded && o.own() == nil && (!onStart || wantsVMI(o))
}

// volumeFailure returns why a VM cannot start with a DataVolume, even after it is filled; nil if it
// can.
func volumeFailure(vm *partialobject.VirtualMachine, volume *partialobject.DataVolume, name string, readErr error) *partialobject.Failure {
	owner := metav1.GetControllerOfNoCopy(volume)
	switch {
	case readErr != nil:
		return &partialobject.Failure{Reason: reasonVolumesUnknown, Err: fmt.Errorf("cannot read DataVolume %s: %w", name, readErr)}
	case owner != nil && owner.UID != vm.UID:
		return &partialobject.Failure{Reason: reasonVolumeTaken, Err: fmt.Errorf(
			"spec.dataVolumeTemplates: DataVolume %s belongs to %s %s and is deleted with it; choose another name", name, owner.Kind, owner.Name)}
	case volume.Status.Phase == cdiv1.Failed:
		return &partialobject.Failure{Reason: reasonVolumeNotFilled, Err: fmt.Errorf("DataVolume %s has failed; see its events", name)}
	}
	return nil
}

func startsWith(phase cdiv1.DataVolumePhase) bool {
	return phase == cdiv1.Succeeded || phase == cdiv1.WaitForFirstConsumer || phase == cdiv1.PendingPopulation
}

func (c *Controller) createVolumes(ctx context.Context, vm *partialobject.VirtualMachine, names []string) *partialobject.Failure {
	if len(names) == 0 {
		return nil
	}
	full, err := c.readFull(ctx, vm)
	if err != nil {
		return &partialobject.Failure{Reason: reasonVolumeNotCreated, Err: err}
	}
	templates, _, _ := unstructured.NestedSlice(full.Object, "spec", "dataVolumeTemplates")
	for _, t := range templates {
		template, _ := t.(map[string]any)
		volume := newVolume(full, template)
		if !slices.Contains(names, volume.GetName()) {
			continue
		}
		switch err := c.Client.Create(ctx, volume); {
		case err == nil:
			c.event(vm, volume, reasonVolumeCreated, "Created DataVolume %s", volume.GetName())
		case apierrors.IsAlreadyExists(err): // its event follows
		case apierrors.IsNotFound(err), meta.IsNoMatchError(err): // CDI was removed
			return errVolumesNotServed
		default:
			c.event(vm, volume, reasonVolumeNotCreated, "%v", err)
			return &partialobject.Failure{Reason: reasonVolumeNotCreated, Err: fmt.Errorf("cannot create DataVolume %s: %w", volume.GetName(), err)}
		}
	}
	return nil
}

func newVolume(vm *unstructured.Unstructured, template map[string]any) *unstructured.Unstructured {
	out := &unstructured.Unstructured{Object: map[string]any{"spec": template["spec"]}}
	out.SetGroupVersionKind(cdiv1.SchemeGroupVersion.WithKind("DataVolume"))
	metadata, _ := template["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	out.SetNamespace(vm.GetNamespace())
	out.SetName(name)
	given, _, _ := unstructured.NestedStringMap(metadata, "labels")
	out.SetLabels(labels.Merge(given, labels.Set{labelCreatedBy: string(vm.GetUID())}))
	given, _, _ = unstructured.NestedStringMap(metadata, "annotations")
	out.SetAnnotations(labels.Merge(given, labels.Set{annotationAllowAdoption: "true"}))
	out.SetOwnerReferences([]metav1.OwnerReference{*ownerReference(vm)})
	return out
}

const volumeIndex = "virtwright.dev/volume-of"

// syncTimeout is the time after which a cache of DataVolumes that has not synced is a failure.
const syncTimeout = 10 * time.Second

// A volumeWatch watches DataVolumes from their first use on, because CDI may be installed later
// than the controller starts.
type volumeWatch struct {
	manager    ctrl.Manager
	controller controller.Controller

	mu    sync.Mutex
	since time.Time // zero before the first use
}

// synced reports whether the cache has the DataVolumes. It does not block, because a missing
// permission must not delay VMs without DataVolumes.
func (v *volumeWatch) synced(ctx context.Context, now time.Time) (bool, error) {
	informer, err := v.manager.GetCache().GetInformer(ctx, &partialobject.DataVolume{}, cache.BlockUntilSynced(false))
	if err != nil {
		return false, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.since.IsZero() {
		if err := v.start(); err != nil {
			return false, err
		}
		v.since = now
	}
	if !informer.HasSynced() && now.Sub(v.since) > syncTimeout {
		return false, errors.New("cannot list DataVolumes of the cluster; check that CDI serves them and that the manager may list and watch them")
	}
	return informer.HasSynced(), nil
}

// start reconciles a VM when one of its DataVolumes changes, no matter which object owns it.
func (v *volumeWatch) start() error {
	reader := v.manager.GetCache()
	vmsOf := func(ctx context.Context, volume *partialobject.DataVolume) []reconcile.Request {
		var found partialobject.VirtualMachineList
		if err := reader.List(ctx, &found, client.InNamespace(volume.Namespace), client.MatchingFields{volumeIndex: volume.Name}, client.UnsafeDisableDeepCopy); err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "Cannot find the VMs of a DataVolume", "namespace", volume.Namespace, "name", volume.Name)
		}
		var out []reconcile.Request
		for i := range found.Items {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&found.Items[i])})
		}
		return out
	}
	if err := v.controller.Watch(source.Kind(reader, &partialobject.DataVolume{}, handler.TypedEnqueueRequestsFromMapFunc(vmsOf))); err != nil {
		return fmt.Errorf("cannot watch DataVolumes: %w", err)
	}
	return nil
}
