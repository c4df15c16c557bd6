package virtualmachine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtwright/virtwright/lifecycle/machine"
	"github.com/virtwright/virtwright/lifecycle/runstate"
)

// errMoved says that something is not as it was when it was decided about; what
// has changed will be seen.
var errMoved = errors.New("changed meanwhile")

// apply does the one thing that was decided. What goes wrong is a trouble to
// tell, and to be tried again: both are set. What was decided about something
// that has changed is neither done nor told.
func (c *Controller) apply(ctx context.Context, vm *machine.VirtualMachine, instance *machine.Instance, d runstate.Decision) (*runstate.Trouble, error) {
	var reason string
	var err error
	switch {
	case d.Create:
		reason, err = reasonNotCreated, c.create(ctx, vm, d)
	case d.Delete != "":
		reason, err = reasonNotDeleted, c.delete(ctx, vm, instance)
	case d.Adopt != "":
		reason, err = reasonNotAdopted, c.adopt(ctx, vm, instance)
	case d.Strategy != "":
		reason, err = reasonNotRewritten, c.rewrite(ctx, vm, d.Strategy)
	}
	if err == nil {
		return nil, nil //nolint:nilnil // no trouble
	}
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil, nil //nolint:nilnil // which takes the machine with it
	}
	if errors.Is(err, errMoved) || apierrors.IsConflict(err) || ctx.Err() != nil {
		return nil, err
	}
	c.tellEvent(vm, nil, reason, "%v", err)
	return &runstate.Trouble{Reason: reason, Message: err.Error()}, err
}

// create makes the instance of the VirtualMachine as it is now, read live: the
// template, and that nobody has deleted or halted it meanwhile.
func (c *Controller) create(ctx context.Context, vm *machine.VirtualMachine, d runstate.Decision) error {
	key := client.ObjectKeyFromObject(vm)
	whole, err := c.whole(ctx, vm)
	if err != nil {
		return err
	}
	if whole.GetGeneration() != vm.Generation || !sameRequests(whole, vm) {
		return fmt.Errorf("cannot start VirtualMachine %s: %w", key, errMoved)
	}
	instance, err := build(whole, d, runstate.StrategyOf(vm))
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	err = c.Client.Create(ctx, instance)
	if apierrors.IsAlreadyExists(err) {
		there, err := get(ctx, c.Live, key)
		if err != nil {
			return err
		}
		if there == nil || !metav1.IsControlledBy(there, vm) {
			return fmt.Errorf("cannot make VirtualMachineInstance %s: %w", key, errMoved)
		}
		c.instances.note(key, there.ResourceVersion)
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot make VirtualMachineInstance %s: %w", key, err)
	}
	c.instances.note(key, instance.GetResourceVersion())
	c.tellEvent(vm, instance, reasonCreated, "Started the virtual machine by creating the new virtual machine instance %s", vm.Name)
	return nil
}

// sameRequests reports whether people ask for the same now as was decided about:
// one who leads again after a while may know of a start that was served and taken
// back since.
func sameRequests(now *unstructured.Unstructured, vm *machine.VirtualMachine) bool {
	var status machine.Status
	content, _, _ := unstructured.NestedMap(now.Object, "status")
	if runtime.DefaultUnstructuredConverter.FromUnstructured(content, &status) != nil {
		return false
	}
	return apiequality.Semantic.DeepEqual(status.StateChangeRequests, vm.Status.StateChangeRequests)
}

// whole is a VirtualMachine as it is now, with what caches leave out.
func (c *Controller) whole(ctx context.Context, vm *machine.VirtualMachine) (*unstructured.Unstructured, error) {
	key := client.ObjectKeyFromObject(vm)
	out := &unstructured.Unstructured{}
	out.SetGroupVersionKind(machines)
	if err := c.Live.Get(ctx, key, out); err != nil {
		return nil, fmt.Errorf("cannot read VirtualMachine %s: %w", key, err)
	}
	if out.GetUID() != vm.UID || out.GetDeletionTimestamp() != nil {
		return nil, fmt.Errorf("cannot go by VirtualMachine %s: %w", key, errMoved)
	}
	return out, nil
}

// delete deletes this very instance, as it was seen: one that has been let go
// since, as when its VirtualMachine goes without it, is not ours any more.
func (c *Controller) delete(ctx context.Context, vm *machine.VirtualMachine, instance *machine.Instance) error {
	key := client.ObjectKeyFromObject(vm)
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(instances)
	object.SetNamespace(key.Namespace)
	object.SetName(key.Name)
	err := c.Client.Delete(ctx, object, client.Preconditions{UID: &instance.UID, ResourceVersion: &instance.ResourceVersion})
	if apierrors.IsConflict(err) {
		live, problem := get(ctx, c.Live, key)
		if problem != nil {
			return problem
		}
		if live == nil || live.UID != instance.UID || live.DeletionTimestamp != nil || !metav1.IsControlledBy(live, vm) {
			return fmt.Errorf("cannot delete VirtualMachineInstance %s: %w", key, errMoved)
		}
		err = c.Client.Delete(ctx, object, client.Preconditions{UID: &live.UID, ResourceVersion: &live.ResourceVersion})
	}
	switch {
	case apierrors.IsNotFound(err): // as it should be
	case apierrors.IsConflict(err):
		return fmt.Errorf("cannot delete VirtualMachineInstance %s: %w", key, errMoved)
	case err != nil:
		return fmt.Errorf("cannot delete VirtualMachineInstance %s: %w", key, err)
	}
	c.instances.noteDeletion(key, instance.UID)
	object.SetUID(instance.UID)
	c.tellEvent(vm, object, reasonDeleted, "Stopped the virtual machine by deleting the virtual machine instance %s", instance.UID)
	return nil
}

// adopt makes the VirtualMachine the owner of an orphan of its name. Both are
// read live: an owner that is gone would take its instance with it.
func (c *Controller) adopt(ctx context.Context, vm *machine.VirtualMachine, instance *machine.Instance) error {
	key := client.ObjectKeyFromObject(vm)
	whole, err := c.whole(ctx, vm)
	if err != nil {
		return err
	}
	owners := []any{owner(whole)}
	for _, o := range instance.OwnerReferences {
		if o.UID != vm.UID {
			owners = append(owners, o)
		}
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": instance.UID, "resourceVersion": instance.ResourceVersion, "ownerReferences": owners,
	}})
	if err != nil {
		return fmt.Errorf("cannot adopt VirtualMachineInstance %s: %w", key, err)
	}
	adopted := &machine.Instance{}
	adopted.Namespace, adopted.Name = key.Namespace, key.Name
	if err := c.Client.Patch(ctx, adopted, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("cannot adopt VirtualMachineInstance %s: %w", key, err)
	}
	c.instances.note(key, adopted.ResourceVersion)
	c.tellEvent(vm, nil, reasonAdopted, "Adopted the virtual machine instance %s, which an earlier virtual machine of this name had left", instance.UID)
	return nil
}

// rewrite changes the strategy in the spec, in the field that says it.
func (c *Controller) rewrite(ctx context.Context, vm *machine.VirtualMachine, strategy runstate.Strategy) error {
	spec := map[string]any{"runStrategy": strategy}
	if vm.Spec.Running != nil {
		spec = map[string]any{"running": strategy != kubevirtv1.RunStrategyHalted}
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": vm.ResourceVersion}, "spec": spec})
	if err != nil {
		return fmt.Errorf("cannot change the run strategy: %w", err)
	}
	written := &machine.VirtualMachine{} // not a copy, which shares its spec with caches
	written.Namespace, written.Name = vm.Namespace, vm.Name
	if err := c.Client.Patch(ctx, written, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("cannot change the run strategy of VirtualMachine %s/%s: %w", vm.Namespace, vm.Name, err)
	}
	vm.ResourceVersion = written.ResourceVersion
	c.machines.note(client.ObjectKeyFromObject(vm), written.ResourceVersion)
	return nil
}
