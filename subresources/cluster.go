package subresources

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/subresources/decide"
)

// Resources that are read and patched.
const (
	vms  = "virtualmachines"
	vmis = "virtualmachineinstances"
)

const undoTimeout = 5 * time.Second

// A cluster reads and patches VMs and VMIs in API servers, without a cache.
type cluster struct{ client rest.Interface }

// objects are a VM and the VMI of its name, which may be nil; or a VMI alone.
type objects struct {
	vm  *kubevirtv1.VirtualMachine
	vmi *kubevirtv1.VirtualMachineInstance
}

func (o *objects) resource() schema.GroupResource {
	if o.vm == nil {
		return decide.VMIResource
	}
	return decide.VMResource
}

// changed reports whether the object of a rejected patch differs from an earlier one.
func (o *objects) changed(before *objects, rejected error) bool {
	if patch, ok := errors.AsType[*patchError](rejected); ok && patch.resource == vmis {
		return o.vmi == nil || o.vmi.UID != before.vmi.UID || o.vmi.ResourceVersion != before.vmi.ResourceVersion
	}
	return o.vm.UID != before.vm.UID || o.vm.ResourceVersion != before.vm.ResourceVersion
}

// A patchError is the error of a patch of a resource.
type patchError struct {
	resource string
	error
}

func (e *patchError) Unwrap() error { return e.error }

// get returns a VM or a VMI as JSON. Its errors are for the caller.
func (c *cluster) get(ctx context.Context, resource string, name types.NamespacedName) ([]byte, error) {
	raw, err := c.client.Get().AbsPath("/apis/kubevirt.io/v1").Namespace(name.Namespace).Resource(resource).Name(name.Name).
		SetHeader("Accept", "application/json").Do(ctx).Raw()
	shown := decide.VMResource
	if resource == vmis {
		shown = decide.VMIResource
	}
	switch {
	case apierrors.IsNotFound(err):
		return nil, apierrors.NewNotFound(shown, name.Name)
	case err != nil:
		return nil, apierrors.NewInternalError(fmt.Errorf("cannot read %s: %w", shown, err))
	}
	return raw, nil
}

func fetch[T any](ctx context.Context, c *cluster, resource string, name types.NamespacedName) (*T, error) {
	raw, err := c.get(ctx, resource, name)
	if err != nil {
		return nil, err
	}
	out := new(T)
	if err := json.Unmarshal(raw, out); err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("cannot decode one of %s: %w", resource, err))
	}
	return out, nil
}

// readVM reads a VM and the VMI of its name. Its errors are for the caller.
func (c *cluster) readVM(ctx context.Context, name types.NamespacedName) (*objects, error) {
	vm, err := fetch[kubevirtv1.VirtualMachine](ctx, c, vms, name)
	if err != nil {
		return nil, err
	}
	vmi, err := fetch[kubevirtv1.VirtualMachineInstance](ctx, c, vmis, name)
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, err
	}
	return &objects{vm, vmi}, nil
}

// readVMI reads a VMI alone. Its errors are for the caller.
func (c *cluster) readVMI(ctx context.Context, name types.NamespacedName) (*objects, error) {
	vmi, err := fetch[kubevirtv1.VirtualMachineInstance](ctx, c, vmis, name)
	return &objects{vmi: vmi}, err
}

// checkOwner checks that a VM controls the VMI of its name. Its errors are for the caller.
func (c *cluster) checkOwner(ctx context.Context, name types.NamespacedName) error {
	now, err := c.readVM(ctx, name)
	if err != nil || now.vmi == nil || metav1.IsControlledBy(now.vmi, now.vm) {
		return err // a missing VMI is reported later
	}
	return decide.VMIConflict(now.vmi, "VMI does not belong to the VM of its name")
}

// apply makes all changes or none. If the result of the last one is unknown, the first one stays.
func (c *cluster) apply(ctx context.Context, name types.NamespacedName, changes *decide.Changes, dry bool) error {
	if err := c.patch(ctx, target{vmis, name, ""}, changes.VMI, dry); err != nil {
		return err
	}
	err := c.patch(ctx, target{vms, name, ""}, changes.VM, dry)
	if err == nil {
		err = c.patch(ctx, target{vms, name, "status"}, changes.VMStatus, dry)
	}
	if _, rejected := rejection(err); !rejected || dry || len(changes.UndoVMI) == 0 {
		return err
	}
	undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	if failed := c.patch(undo, target{vmis, name, ""}, changes.UndoVMI, false); failed != nil {
		logr.FromContextOrDiscard(ctx).Error(failed, "Cannot restore the grace period of a VMI", "namespace", name.Namespace, "name", name.Name)
	}
	return err
}

type target struct {
	resource    string
	name        types.NamespacedName
	subresource string
}

func (c *cluster) patch(ctx context.Context, to target, operations []decide.Operation, dry bool) error {
	if len(operations) == 0 {
		return nil
	}
	body, err := json.Marshal(operations)
	if err != nil {
		return fmt.Errorf("cannot encode a patch: %w", err)
	}
	// The client must not retry: the tests in a patch that succeeded would reject it the second
	// time.
	request := c.client.Patch(types.JSONPatchType).AbsPath("/apis/kubevirt.io/v1").
		Namespace(to.name.Namespace).Resource(to.resource).Name(to.name.Name).MaxRetries(0).
		SetHeader("Accept", "application/json").Param("fieldManager", "virtwright-subresources").Body(body)
	if to.subresource != "" {
		request = request.SubResource(to.subresource)
	}
	if dry {
		request = request.Param("dryRun", metav1.DryRunAll)
	}
	if err := request.Do(ctx).Error(); err != nil {
		return &patchError{to.resource, err}
	}
	return nil
}
