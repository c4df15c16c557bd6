package virtualmachine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtwright/virtwright/lifecycle/partialobject"
)

// apply carries out a decision, except for status and volumes. It returns a *Failure for an error
// that status reports. A decision about a stale object is dropped without a report.
func (c *Controller) apply(ctx context.Context, vm *partialobject.VirtualMachine, vmi *partialobject.VirtualMachineInstance, d decision) error {
	var reason string
	var err error
	switch {
	case d.Create:
		reason, err = reasonNotCreated, c.create(ctx, vm, d)
	case d.Delete != "":
		reason, err = reasonNotDeleted, c.delete(ctx, vm, vmi)
	case d.Adopt != "":
		reason, err = reasonNotAdopted, c.adopt(ctx, vm, vmi)
	case d.Strategy != "":
		reason, err = reasonNotUpdated, c.setRunStrategy(ctx, vm, d.Strategy)
	}
	switch {
	case err == nil, apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause): // the VM is deleted, too
		return nil
	case isStale(err), ctx.Err() != nil:
		return err
	}
	c.event(vm, nil, reason, "%v", err)
	return &partialobject.Failure{Reason: reason, Err: err}
}

func isStale(err error) bool {
	return errors.Is(err, partialobject.ErrStale) || apierrors.IsConflict(err)
}

// create creates the VMI from the VM as the API server has it now: the VM may have been halted, or
// its request served, since it was cached.
func (c *Controller) create(ctx context.Context, vm *partialobject.VirtualMachine, d decision) error {
	key := client.ObjectKeyFromObject(vm)
	full, err := c.readFull(ctx, vm)
	if err != nil {
		return err
	}
	if full.GetGeneration() != vm.Generation || !sameRunState(full, vm) {
		return fmt.Errorf("cannot start VirtualMachine %s: %w", key, partialobject.ErrStale)
	}
	vmi, err := newVMI(full, d)
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	err = c.Client.Create(ctx, vmi)
	if apierrors.IsAlreadyExists(err) {
		existing, err := getVMI(ctx, c.Live, key)
		if err != nil {
			return err
		}
		if existing == nil || !metav1.IsControlledBy(existing, vm) {
			return fmt.Errorf("cannot create VirtualMachineInstance %s: %w", key, partialobject.ErrStale)
		}
		c.vmiWrites.record(key, existing.ResourceVersion, c.Clock.Now())
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot create VirtualMachineInstance %s: %w", key, err)
	}
	c.vmiWrites.record(key, vmi.GetResourceVersion(), c.Clock.Now())
	ctrl.LoggerFrom(ctx).Info("Started a VM", "vmi", vmi.GetUID(), "generation", vm.Generation, "runStrategy", vm.RunStrategy())
	c.event(vm, vmi, reasonCreated, "Started the virtual machine by creating the new virtual machine instance %s", vm.Name)
	return nil
}

// sameRunState reports whether the VM has the requests and the last strategy that the decision is
// based on. A replica that becomes the leader again may have cached a request that was served
// since.
func sameRunState(full *unstructured.Unstructured, vm *partialobject.VirtualMachine) bool {
	var now partialobject.VirtualMachine
	if raw, err := json.Marshal(map[string]any{"status": full.Object["status"]}); err != nil || json.Unmarshal(raw, &now) != nil {
		return false
	}
	return now.Status.RunStrategy == vm.Status.RunStrategy &&
		apiequality.Semantic.DeepEqual(now.Status.StateChangeRequests, vm.Status.StateChangeRequests)
}

// readFull reads a VM from the API server, including fields that caches leave out.
func (c *Controller) readFull(ctx context.Context, vm *partialobject.VirtualMachine) (*unstructured.Unstructured, error) {
	key := client.ObjectKeyFromObject(vm)
	out := &unstructured.Unstructured{}
	out.SetGroupVersionKind(kubevirtv1.VirtualMachineGroupVersionKind)
	if err := c.Live.Get(ctx, key, out); err != nil {
		return nil, fmt.Errorf("cannot read VirtualMachine %s: %w", key, err)
	}
	if out.GetUID() != vm.UID || out.GetDeletionTimestamp() != nil {
		return nil, fmt.Errorf("cannot use VirtualMachine %s: %w", key, partialobject.ErrStale)
	}
	return out, nil
}

// delete deletes the VMI that was observed. It deletes a changed VMI only if the VM still owns it:
// a deletion of the VM with --cascade=orphan releases the VMI.
func (c *Controller) delete(ctx context.Context, vm *partialobject.VirtualMachine, vmi *partialobject.VirtualMachineInstance) error {
	key := client.ObjectKeyFromObject(vm)
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kubevirtv1.VirtualMachineInstanceGroupVersionKind)
	object.SetNamespace(key.Namespace)
	object.SetName(key.Name)
	err := c.Client.Delete(ctx, object, client.Preconditions{UID: &vmi.UID, ResourceVersion: &vmi.ResourceVersion})
	if apierrors.IsConflict(err) {
		live, readErr := getVMI(ctx, c.Live, key)
		if readErr != nil {
			return readErr
		}
		if live == nil || live.UID != vmi.UID || live.DeletionTimestamp != nil || !metav1.IsControlledBy(live, vm) {
			return fmt.Errorf("cannot delete VirtualMachineInstance %s: %w", key, partialobject.ErrStale)
		}
		err = c.Client.Delete(ctx, object, client.Preconditions{UID: &live.UID, ResourceVersion: &live.ResourceVersion})
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("cannot delete VirtualMachineInstance %s: %w", key, err)
	}
	c.vmiWrites.recordDeletion(key, vmi.UID)
	object.SetUID(vmi.UID)
	ctrl.LoggerFrom(ctx).Info("Stopped a VM", "vmi", vmi.UID, "phase", vmi.Status.Phase, "runStrategy", vm.RunStrategy())
	c.event(vm, object, reasonDeleted, "Stopped the virtual machine by deleting the virtual machine instance %s", vmi.UID)
	return nil
}

// adopt makes the VM the owner of an orphan VMI. It reads the VM first: the garbage collector
// deletes a VMI whose owner does not exist.
func (c *Controller) adopt(ctx context.Context, vm *partialobject.VirtualMachine, vmi *partialobject.VirtualMachineInstance) error {
	full, err := c.readFull(ctx, vm)
	if err != nil {
		return err
	}
	after := vmi.DeepCopyObject().(*partialobject.VirtualMachineInstance)
	after.OwnerReferences = []metav1.OwnerReference{*ownerReference(full)}
	for _, o := range vmi.OwnerReferences {
		if o.UID != vm.UID {
			after.OwnerReferences = append(after.OwnerReferences, o)
		}
	}
	written := &partialobject.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{Namespace: vmi.Namespace, Name: vmi.Name}}
	patch, err := diff(vmi, after)
	if err == nil {
		err = c.Client.Patch(ctx, written, patch)
	}
	if err != nil {
		return fmt.Errorf("cannot adopt VirtualMachineInstance %s/%s: %w", vmi.Namespace, vmi.Name, err)
	}
	c.vmiWrites.record(client.ObjectKeyFromObject(vmi), written.ResourceVersion, c.Clock.Now())
	c.event(vm, nil, reasonAdopted, "Adopted the virtual machine instance %s, which a deleted virtual machine of this name left", vmi.UID)
	return nil
}

// setRunStrategy changes the run strategy in the field of the spec that has it.
func (c *Controller) setRunStrategy(ctx context.Context, vm *partialobject.VirtualMachine, strategy runStrategy) error {
	after := vm.DeepCopyObject().(*partialobject.VirtualMachine)
	if vm.Spec.Running != nil {
		after.Spec.Running = new(strategy != kubevirtv1.RunStrategyHalted)
	} else {
		after.Spec.RunStrategy = &strategy
	}
	if _, err := c.patch(ctx, vm, after, false); err != nil {
		return fmt.Errorf("cannot change the run strategy of VirtualMachine %s/%s: %w", vm.Namespace, vm.Name, err)
	}
	return nil
}

// writeStatus writes the changes of status, if there are any, and then the event about a crash.
func (c *Controller) writeStatus(ctx context.Context, vm *partialobject.VirtualMachine, vmi *partialobject.VirtualMachineInstance, status partialobject.VirtualMachineStatus) error {
	if apiequality.Semantic.DeepEqual(vm.Status, status) {
		return nil
	}
	after := vm.DeepCopyObject().(*partialobject.VirtualMachine)
	after.Status = status
	written, err := c.patch(ctx, vm, after, true)
	if err != nil {
		return fmt.Errorf("cannot write the status of VirtualMachine %s/%s: %w", vm.Namespace, vm.Name, err)
	}
	before := vm.Status
	vm.Status = written.Status
	c.crashEvent(vm, vmi, &before)
	return nil
}

// patch writes the changes of a VM, or of its status, and returns the VM as written.
func (c *Controller) patch(
	ctx context.Context, vm, after *partialobject.VirtualMachine, status bool,
) (*partialobject.VirtualMachine, error) {
	patch, err := diff(vm, after)
	if err != nil {
		return nil, err
	}
	written := &partialobject.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: vm.Namespace, Name: vm.Name}}
	if status {
		err = c.Client.Status().Patch(ctx, written, patch)
	} else {
		err = c.Client.Patch(ctx, written, patch)
	}
	if err == nil {
		vm.ResourceVersion = written.ResourceVersion
		c.vmWrites.record(client.ObjectKeyFromObject(vm), written.ResourceVersion, c.Clock.Now())
	}
	return written, err
}

// diff returns the patch between two copies of an object, which fails if the object has changed
// since it was read. Callers decode the answer into a new object: copies share memory with caches.
func diff(before, after client.Object) (client.Patch, error) {
	data, err := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}).Data(after)
	return client.RawPatch(types.MergePatchType, data), err
}

// Reasons of events. Those of failures are also reasons of the condition Failure.
const (
	reasonCreated     = "SuccessfulCreate"
	reasonNotCreated  = "FailedCreate"
	reasonDeleted     = "SuccessfulDelete"
	reasonNotDeleted  = "FailedDelete"
	reasonAdopted     = "SuccessfulAdoption"
	reasonNotAdopted  = "FailedAdoption"
	reasonNotUpdated  = "FailedUpdate"
	reasonCrashed     = "GuestCrashed"
	reasonStartFailed = "GuestStartFailed"
)

// crashEvent records that a guest crashed or failed to start, after status reports it. The event
// does not have the UID of the VMI, so that repeated crashes are counted as one event.
func (c *Controller) crashEvent(vm *partialobject.VirtualMachine, vmi *partialobject.VirtualMachineInstance, before *partialobject.VirtualMachineStatus) {
	was, is := find(before.Conditions, instanceStopped), find(vm.Status.Conditions, instanceStopped)
	if vmi == nil || is == nil || was != nil && was.Message == is.Message {
		return
	}
	var reason, note string
	switch is.Reason {
	case stoppedByCrash:
		reason, note = reasonCrashed, "The guest crashed: the VMI failed while it ran"
	case stoppedAtStart:
		reason, note = reasonStartFailed, "The guest did not start: the VMI failed before it ran"
	default:
		return
	}
	related := &unstructured.Unstructured{}
	related.SetGroupVersionKind(kubevirtv1.VirtualMachineInstanceGroupVersionKind)
	related.SetName(vmi.Name)
	c.event(vm, related, reason, "%s", note+endDetail(vmi))
}

func endDetail(vmi *partialobject.VirtualMachineInstance) string {
	var message string
	if c := vmi.Status.Condition(kubevirtv1.VirtualMachineInstanceReady); c != nil {
		message = c.Message
	}
	if text := cmp.Or(vmi.Status.Reason, message); text != "" {
		return ": " + text
	}
	return ""
}

// event records an event on a VM. Events with different related objects, which may be nil, are
// counted separately.
func (c *Controller) event(vm *partialobject.VirtualMachine, related *unstructured.Unstructured, reason, note string, args ...any) {
	if c.Events == nil {
		return
	}
	kind, action := corev1.EventTypeNormal, strings.TrimPrefix(reason, "Successful")
	if operation, failed := strings.CutPrefix(reason, "Failed"); failed {
		kind, action = corev1.EventTypeWarning, operation
	} else if reason == reasonCrashed || reason == reasonStartFailed {
		kind, action = corev1.EventTypeWarning, "Watch"
	}
	var relatedTo runtime.Object
	if related != nil {
		related.SetNamespace(vm.Namespace)
		relatedTo = partialobject.Reference(related.GroupVersionKind(), related)
	}
	regarding := partialobject.Reference(kubevirtv1.VirtualMachineGroupVersionKind, vm)
	c.Events.Eventf(regarding, relatedTo, kind, reason, action, "%s", partialobject.EventNote(fmt.Sprintf(note, args...)))
}
