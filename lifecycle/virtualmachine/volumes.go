package virtualmachine

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/virtwright/virtwright/lifecycle/machine"
	"github.com/virtwright/virtwright/lifecycle/runstate"
)

var dataVolumes = schema.GroupVersionKind{Group: "cdi.kubevirt.io", Version: "v1beta1", Kind: "DataVolume"}

// Reasons about volumes.
const (
	reasonVolume     = "SuccessfulDataVolumeCreate"
	reasonNoVolume   = "FailedDataVolumeCreate"
	reasonNotFilled  = "FailedDataVolumeImport"
	reasonNotServed  = "DataVolumesNotServed"
	createdBy        = "kubevirt.io/created-by"
	allowsAdoption   = "cdi.kubevirt.io/allowClaimAdoption"
	notServedMessage = "spec.dataVolumeTemplates: the cluster serves no DataVolumes: install CDI, or name volumes that exist"
)

// fill makes the DataVolumes of a machine's dataVolumeTemplates that are not
// there, and says how far they are. One that somebody else made is used as it
// is, and stays theirs.
func (c *Controller) fill(ctx context.Context, vm *machine.VirtualMachine) (runstate.Volumes, *runstate.Trouble, error) {
	if len(vm.Spec.DataVolumeTemplates) == 0 || vm.DeletionTimestamp != nil {
		return runstate.Filled, nil, nil
	}
	var missing []string
	state := runstate.Filled
	for _, name := range vm.Machine().DataVolumes {
		if name == "" {
			continue // which no API server takes
		}
		volume := &machine.DataVolume{}
		err := c.Client.Get(ctx, types.NamespacedName{Namespace: vm.Namespace, Name: name}, volume)
		switch {
		case meta.IsNoMatchError(err):
			return runstate.Stuck, &runstate.Trouble{Reason: reasonNotServed, Message: notServedMessage}, nil
		case apierrors.IsNotFound(err):
			missing, state = append(missing, name), max(state, runstate.Filling)
		case err != nil:
			return state, nil, fmt.Errorf("cannot read DataVolume %s/%s: %w", vm.Namespace, name, err)
		case volume.Status.Phase == cdiv1.Failed:
			return runstate.Stuck, &runstate.Trouble{Reason: reasonNotFilled, Message: fmt.Sprintf("DataVolume %s has failed; its events say why", name)}, nil
		case !usable(volume.Status.Phase):
			state = max(state, runstate.Filling)
		}
	}
	if err := c.watchVolumes(); err != nil {
		return state, nil, err
	}
	if len(missing) > 0 {
		trouble, err := c.makeVolumes(ctx, vm, missing)
		return state, trouble, err
	}
	return state, nil, nil
}

// usable reports whether a machine can start with a volume of this phase.
func usable(phase cdiv1.DataVolumePhase) bool {
	return phase == cdiv1.Succeeded || phase == cdiv1.WaitForFirstConsumer || phase == cdiv1.PendingPopulation
}

// makeVolumes makes DataVolumes of the templates of these names.
func (c *Controller) makeVolumes(ctx context.Context, vm *machine.VirtualMachine, names []string) (*runstate.Trouble, error) {
	whole, err := c.whole(ctx, vm)
	if err != nil {
		return nil, err
	}
	templates, _, _ := unstructured.NestedSlice(whole.Object, "spec", "dataVolumeTemplates")
	wanted := map[string]bool{}
	for _, name := range names {
		wanted[name] = true
	}
	for _, t := range templates {
		template, _ := t.(map[string]any)
		volume := volumeOf(whole, template)
		if !wanted[volume.GetName()] {
			continue
		}
		switch err := c.Client.Create(ctx, volume); {
		case err == nil:
			c.tellEvent(vm, volume, reasonVolume, "Created DataVolume %s", volume.GetName())
		case apierrors.IsAlreadyExists(err): // its event comes
		case apierrors.IsNotFound(err), meta.IsNoMatchError(err): // served once, and no longer
			return &runstate.Trouble{Reason: reasonNotServed, Message: notServedMessage}, nil
		case refused(err):
			c.tellEvent(vm, volume, reasonNoVolume, "%v", err)
			return &runstate.Trouble{Reason: reasonNoVolume, Message: err.Error()}, nil
		default:
			return nil, fmt.Errorf("cannot make DataVolume %s: %w", volume.GetName(), err)
		}
	}
	return nil, nil //nolint:nilnil // no trouble
}

// volumeOf is the DataVolume of a template, owned by its VirtualMachine.
func volumeOf(vm *unstructured.Unstructured, template map[string]any) *unstructured.Unstructured {
	out := &unstructured.Unstructured{Object: map[string]any{"spec": template["spec"]}}
	out.SetGroupVersionKind(dataVolumes)
	meta, _ := template["metadata"].(map[string]any)
	name, _ := meta["name"].(string)
	out.SetNamespace(vm.GetNamespace())
	out.SetName(name)
	labels, _, _ := unstructured.NestedStringMap(meta, "labels")
	annotations, _, _ := unstructured.NestedStringMap(meta, "annotations")
	out.SetLabels(with(labels, createdBy, string(vm.GetUID())))
	out.SetAnnotations(with(annotations, allowsAdoption, "true"))
	_ = unstructured.SetNestedSlice(out.Object, []any{owner(vm)}, "metadata", "ownerReferences") // metadata is a map
	return out
}

func with(m map[string]string, key, value string) map[string]string {
	if m == nil {
		m = map[string]string{}
	}
	m[key] = value
	return m
}

// watchVolumes wakes machines whose volumes change.
func watchVolumes(mgr ctrl.Manager, c controller.Controller) error {
	owners := handler.TypedEnqueueRequestForOwner[*machine.DataVolume](mgr.GetScheme(), mgr.GetRESTMapper(), &machine.VirtualMachine{}, handler.OnlyControllerOwner())
	if err := c.Watch(source.Kind(mgr.GetCache(), &machine.DataVolume{}, owners)); err != nil {
		return fmt.Errorf("cannot watch DataVolumes: %w", err)
	}
	return nil
}
