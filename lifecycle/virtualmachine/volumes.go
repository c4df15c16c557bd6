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
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
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
	reasonUnknown    = "DataVolumesUnknown"
	reasonTaken      = "DataVolumeTaken"
	createdBy        = "kubevirt.io/created-by"
	allowsAdoption   = "cdi.kubevirt.io/allowClaimAdoption"
	notServedMessage = "spec.dataVolumeTemplates: the cluster serves no DataVolumes: install CDI, or name volumes that exist"
)

// fill creates the DataVolumes of a VM's dataVolumeTemplates that do not exist, and returns how
// far they are. One without an owner is used as it is, and stays without. One that another
// object owns is left to that object.
func (c *Controller) fill(ctx context.Context, vm *machine.VirtualMachine, s runstate.Situation) (runstate.Volumes, *runstate.Trouble) {
	if !needsVolumes(vm, s) {
		return runstate.Filled, nil
	}
	switch known, err := c.volumes.known(ctx); {
	case meta.IsNoMatchError(err):
		return runstate.Stuck, &runstate.Trouble{Reason: reasonNotServed, Message: notServedMessage}
	case err != nil:
		return runstate.Stuck, &runstate.Trouble{Reason: reasonUnknown, Message: err.Error()}
	case !known:
		return runstate.Filling, nil
	}
	var missing []string
	state := runstate.Filled
	for _, name := range vm.Machine().DataVolumes {
		volume := &machine.DataVolume{}
		err := c.Client.Get(ctx, types.NamespacedName{Namespace: vm.Namespace, Name: name}, volume)
		trouble := troubleWith(vm, volume, name, client.IgnoreNotFound(err))
		switch {
		case name == "": // which no API server takes
		case trouble != nil:
			return runstate.Stuck, trouble
		case err != nil:
			missing, state = append(missing, name), runstate.Filling
		case !usable(volume.Status.Phase):
			state = runstate.Filling
		}
	}
	if trouble := c.makeVolumes(ctx, vm, missing); trouble != nil {
		return runstate.Stuck, trouble
	}
	return state, nil
}

// needsVolumes reports whether DataVolumes of a VM may have to be created: a VMI that exists has
// them, and in an excluded namespace none is created.
func needsVolumes(vm *machine.VirtualMachine, s runstate.Situation) bool {
	later := vm.Annotations[machine.VolumesOnStart] == "false" && !runstate.Wanted(s)
	return len(vm.Spec.DataVolumeTemplates) > 0 && vm.DeletionTimestamp == nil && !s.Excluded && !s.Runs() && !later
}

// troubleWith says what keeps a machine from starting with a volume, if it is not
// that it has to be made or filled first.
func troubleWith(vm *machine.VirtualMachine, volume *machine.DataVolume, name string, unread error) *runstate.Trouble {
	owner := metav1.GetControllerOfNoCopy(volume)
	switch {
	case unread != nil:
		return &runstate.Trouble{Reason: reasonUnknown, Message: fmt.Sprintf("cannot read DataVolume %s: %v", name, unread)}
	case owner != nil && owner.UID != vm.UID:
		return &runstate.Trouble{Reason: reasonTaken, Message: fmt.Sprintf(
			"spec.dataVolumeTemplates: DataVolume %s belongs to %s %s, and would be lost with it: name another", name, owner.Kind, owner.Name)}
	case volume.Status.Phase == cdiv1.Failed:
		return &runstate.Trouble{Reason: reasonNotFilled, Message: fmt.Sprintf("DataVolume %s has failed; its events say why", name)}
	}
	return nil
}

// usable reports whether a machine can start with a volume of this phase.
func usable(phase cdiv1.DataVolumePhase) bool {
	return phase == cdiv1.Succeeded || phase == cdiv1.WaitForFirstConsumer || phase == cdiv1.PendingPopulation
}

// makeVolumes makes DataVolumes of the templates of these names.
func (c *Controller) makeVolumes(ctx context.Context, vm *machine.VirtualMachine, names []string) *runstate.Trouble {
	if len(names) == 0 {
		return nil
	}
	whole, err := c.whole(ctx, vm)
	if err != nil {
		return &runstate.Trouble{Reason: reasonNoVolume, Message: err.Error()}
	}
	templates, _, _ := unstructured.NestedSlice(whole.Object, "spec", "dataVolumeTemplates")
	for _, t := range templates {
		template, _ := t.(map[string]any)
		volume := volumeOf(whole, template)
		if !slices.Contains(names, volume.GetName()) {
			continue
		}
		switch err := c.Client.Create(ctx, volume); {
		case err == nil:
			c.tellEvent(vm, volume, reasonVolume, "Created DataVolume %s", volume.GetName())
		case apierrors.IsAlreadyExists(err): // its event comes
		case apierrors.IsNotFound(err), meta.IsNoMatchError(err): // served once, and no longer
			return &runstate.Trouble{Reason: reasonNotServed, Message: notServedMessage}
		default:
			c.tellEvent(vm, volume, reasonNoVolume, "%v", err)
			return &runstate.Trouble{Reason: reasonNoVolume, Message: fmt.Sprintf("cannot make DataVolume %s: %v", volume.GetName(), err)}
		}
	}
	return nil
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

// byVolume is the index of machines by the names of their dataVolumeTemplates.
const byVolume = "virtwright.dev/volume-of"

// unknownFor is how long a cache may take to know DataVolumes before it is said
// that it does not.
const unknownFor = 10 * time.Second

// volumes are the DataVolumes of the cluster, once there are any: CDI may come
// later than this controller, and go.
type volumes struct {
	manager    ctrl.Manager
	controller controller.Controller

	mu    sync.Mutex
	since time.Time // when they were asked for first
}

// index lets machines be found by their volumes.
func (v *volumes) index(indexer client.FieldIndexer) error {
	err := indexer.IndexField(context.Background(), &machine.VirtualMachine{}, byVolume, func(o client.Object) []string {
		return o.(*machine.VirtualMachine).Machine().DataVolumes
	})
	if err != nil {
		return fmt.Errorf("cannot index machines by their volumes: %w", err)
	}
	return nil
}

// known reports whether the cache knows DataVolumes. It waits for nothing: who
// may not list them must not hold up machines that have none.
func (v *volumes) known(ctx context.Context) (bool, error) {
	informer, err := v.manager.GetCache().GetInformer(ctx, &machine.DataVolume{}, cache.BlockUntilSynced(false))
	if err != nil {
		return false, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.since.IsZero() {
		if err := v.watch(); err != nil {
			return false, err
		}
		v.since = time.Now()
	}
	if !informer.HasSynced() && time.Since(v.since) > unknownFor {
		return false, errors.New("cannot list DataVolumes of the cluster: does CDI serve them, and may the manager list and watch them?")
	}
	return informer.HasSynced(), nil
}

// watch wakes machines whose volumes change, whoever owns these.
func (v *volumes) watch() error {
	reader := v.manager.GetCache()
	machinesOf := func(ctx context.Context, volume *machine.DataVolume) []reconcile.Request {
		var found machine.VirtualMachineList
		if err := reader.List(ctx, &found, client.InNamespace(volume.Namespace), client.MatchingFields{byVolume: volume.Name}, client.UnsafeDisableDeepCopy); err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "Cannot find the machines of a DataVolume", "namespace", volume.Namespace, "name", volume.Name)
		}
		var out []reconcile.Request
		for i := range found.Items {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&found.Items[i])})
		}
		return out
	}
	if err := v.controller.Watch(source.Kind(reader, &machine.DataVolume{}, handler.TypedEnqueueRequestsFromMapFunc(machinesOf))); err != nil {
		return fmt.Errorf("cannot watch DataVolumes: %w", err)
	}
	return nil
}
